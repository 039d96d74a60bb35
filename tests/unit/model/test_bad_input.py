"""What a user may get wrong: each mistake is an exception that names the thing, or works as documented."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, SingularMechanismError, UnknownNameError
from tests.parity.functions import FUNCTIONS, Function, assert_same_bits, states
from tests.trees import mixed, random_mechanism

SOLID = {"mass": 1.0, "com": (0.0, 0.0, 0.1), "inertia": np.diag([0.02, 0.02, 0.01])}


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return random_mechanism("every kind", mixed(10, 1), 1).kinetree()


# -- arguments of the functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [None, "native", "reference"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_wrong_shapes(robot: kt.Model, function: Function, engine: str | None) -> None:
    arrays = dict(zip("qvx", states(robot, ())))
    for letter in function.inputs:
        size = arrays[letter].shape[-1]
        for wrong in (np.zeros(size + 1), np.zeros(size - 1), np.zeros((3, size + 1)), np.zeros((size, 1)), 0.0):
            with pytest.raises(InputError, match=r"shape \(.*expected \(.*\d"):
                function(robot, **{**arrays, letter: wrong}, engine=engine)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if len(f.inputs) > 1], ids=str)
def test_batches_that_do_not_broadcast(robot: kt.Model, function: Function) -> None:
    q, _, _ = states(robot, (3,))
    _, v, x = states(robot, (4,))
    with pytest.raises(InputError, match=r"broadcast.*\(3,\).*\(4,\)"):
        function(robot, q, v, x)


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_wrong_types(robot: kt.Model, function: Function) -> None:
    arrays = dict(zip("qvx", states(robot, ())))
    for letter in function.inputs:
        n = arrays[letter].shape[-1]
        unfit = [np.array(["a"] * n), np.array([None] * n), np.zeros(n, dtype=bool)]
        unfit += [np.zeros(n, dtype=complex)] * (function.name != "integrate")  # which differentiates by complex steps
        for wrong in unfit:
            with pytest.raises(InputError, match="dtype"):
                function(robot, **{**arrays, letter: wrong}, engine="native")
        with pytest.raises(InputError, match="array of numbers|dtype"):
            function(robot, **{**arrays, letter: [[1.0], [2.0, 3.0]]}, engine="native")


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_other_real_numbers_are_taken(robot: kt.Model, function: Function) -> None:
    arrays = states(robot, (3,))
    short = tuple(array.astype(np.float32) for array in arrays)
    assert_same_bits(function(robot, *short), function(robot, *(array.astype(np.float64) for array in short)))
    whole = tuple(np.ones(array.shape, dtype=np.int64) for array in arrays)
    assert_same_bits(function(robot, *whole), function(robot, *(array.astype(np.float64) for array in whole)))
    assert_same_bits(function(robot, *(array.tolist() for array in arrays)), function(robot, *arrays))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_empty_batches(robot: kt.Model, function: Function, engine: str) -> None:
    single = function(robot, *states(robot, ()))
    for shape in ((0,), (3, 0), (0, 2)):
        results = function(robot, *states(robot, shape), engine=engine)
        assert [part.shape for part in results] == [(*shape, *np.shape(part)) for part in single]


def test_unknown_frames(robot: kt.Model) -> None:
    q, v, x = states(robot, ())
    for call in (
        lambda: robot.pose(q, ["link1", "nope"]),
        lambda: robot.velocity(q, v, ["nope"]),
        lambda: robot.jacobian(q, "nope"),
        lambda: robot.jacobian_dot_v(q, v, "nope"),
        lambda: robot.inverse_dynamics(q, v, x, f_ext={"nope": np.zeros(6)}),
        lambda: robot.forward_dynamics(q, v, x, f_ext={"nope": np.zeros(6)}),
        lambda: robot.site("nope"),
    ):
        with pytest.raises(UnknownNameError, match="'nope'.*There are: .*link") as caught:
            call()
        assert caught.value.name == "nope"
        assert "link1" in caught.value.choices


def test_unknown_references(robot: kt.Model) -> None:
    q, v, _ = states(robot, ())
    for call in (
        lambda: robot.jacobian(q, "link1", reference="body"),
        lambda: robot.jacobian_dot_v(q, v, "link1", reference="body"),
        lambda: robot.velocity(q, v, ["link1"], reference="body"),
    ):
        with pytest.raises(UnknownNameError, match="'body'.*There are: local, "):
            call()


def test_unknown_engines_and_functions(robot: kt.Model) -> None:
    with pytest.raises(UnknownNameError, match="engine.*'gpu'.*native"):
        robot.mass_matrix.engine("gpu")
    with pytest.raises(UnknownNameError, match="'forward_dynamic'.*forward_dynamics"):
        robot.compile(["forward_dynamic"])
    with pytest.raises(UnknownNameError, match="derivative.*'mass_matrix.jvp'.*forward_dynamics.jvp"):
        robot.count("mass_matrix.jvp")


def test_bad_wrenches(robot: kt.Model) -> None:
    q, v, x = states(robot, ())
    with pytest.raises(InputError, match="link1.*shape|shape.*link1"):
        robot.inverse_dynamics(q, v, x, f_ext={"link1": np.zeros(3)})
    with pytest.raises(InputError, match="f_ext"):
        robot.inverse_dynamics(q, v, x, f_ext=np.zeros(6))


def test_a_misspelt_function_is_an_attribute_error(robot: kt.Model) -> None:
    with pytest.raises(AttributeError):
        robot.forward_dynamic  # noqa: B018


# -- models that cannot be inverted, or do not move --------------------------------------------------------------------


def test_massless_leaf() -> None:
    """Found from the structure when an inverse of M is first asked for; what does not invert M works."""
    builder = kt.Builder(name="leaf").add_body("arm", axis=(0, 1, 0), **SOLID)
    robot = builder.add_body("ghost", parent="arm", axis=(1, 0, 0)).build()
    q = v = np.array([0.3, -0.2])
    assert np.all(np.isfinite(robot.inverse_dynamics(q, v, v)))
    assert np.linalg.matrix_rank(robot.mass_matrix(q)) == 1
    for call in (
        lambda: robot.forward_dynamics(q, v, v),
        lambda: robot.forward_dynamics(np.ones((4, 2)), v, v),
        lambda: robot.mass_matrix_inverse(q),
        lambda: robot.mass_matrix_solve(q, v),
        lambda: robot.mass_matrix_log_determinant(q),
        lambda: robot.forward_dynamics.engine("reference")(q, v, v),
        lambda: robot.compile(["forward_dynamics"]),
    ):
        with pytest.raises(SingularMechanismError, match="'ghost'"):
            call()


def test_no_degrees_of_freedom() -> None:
    """Everything has its empty result, but for the centre of mass: nothing that moves has mass."""
    builder = kt.Builder(name="statue").add_body("base", parent="world", joint="fixed", **SOLID)
    robot = builder.add_frame("top", body="base", placement=(np.eye(3), (0.0, 0.0, 1.0))).build()
    assert (robot.nq, robot.nv) == (0, 0)
    for engine in ("native", "reference"):
        for shape in ((), (3,), (2, 0)):
            none = np.zeros((*shape, 0))
            for function in FUNCTIONS:
                if function.name.startswith("cent"):
                    with pytest.raises(SingularMechanismError, match="no moving body has mass"):
                        function(robot, none, none, none, engine=engine)
                    continue
                for part in function(robot, none, none, none, engine=engine):
                    assert part.shape[: len(shape)] == shape
            poses = robot.pose.engine(engine)(none, ["top"])
            np.testing.assert_array_equal(poses[..., 0, 2, 3], np.ones(shape))
            np.testing.assert_array_equal(robot.mass_matrix_determinant.engine(engine)(none), np.ones(shape))
