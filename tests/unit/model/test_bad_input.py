"""What a user may get wrong: each mistake is an exception that names the thing, or works as documented."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, SingularMechanismError, UnknownNameError
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


BAD_OUT: dict[str, tuple[Callable[[kt.Model], Any], str]] = {
    "shape": (lambda robot: np.zeros(robot.nv + 1), "out has shape"),
    "batch": (lambda robot: np.zeros((2, robot.nv)), "out has shape"),
    "dtype": (lambda robot: np.zeros(robot.nv, dtype=np.float32), "out must be a float64 array.*float32"),
    "type": (lambda robot: [0.0] * robot.nv, "out must be a float64 array.*list"),
    "read-only": (lambda robot: np.broadcast_to(0.0, robot.nv), "read-only"),
}


@pytest.mark.parametrize("case", list(BAD_OUT))
def test_bad_out(robot: kt.Model, case: str) -> None:
    make, message = BAD_OUT[case]
    with pytest.raises(InputError, match=message):
        robot.inverse_dynamics(*states(robot, ()), out=make(robot))


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


def test_one_frame_is_not_a_list_of_letters(robot: kt.Model) -> None:
    """A name is a frame, never a sequence of letters."""
    q, _, _ = states(robot, ())
    np.testing.assert_array_equal(robot.pose(q, "link1"), robot.pose(q, ["link1"])[0])


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


def test_unknown_joints(robot: kt.Model) -> None:
    for call in (
        lambda: robot.q_from_dict({"nope": 0.0}),
        lambda: robot.v_from_dict({"nope": 0.0}),
        lambda: robot.reduced(lock={"nope": 0.0}),
    ):
        with pytest.raises(UnknownNameError, match="'nope'"):
            call()


def test_a_misspelt_function_is_an_attribute_error(robot: kt.Model) -> None:
    with pytest.raises(AttributeError):
        robot.forward_dynamic  # noqa: B018


# -- models that cannot be ---------------------------------------------------------------------------------------------


BAD_BODIES: dict[str, tuple[dict[str, Any], str]] = {
    "negative mass": ({**SOLID, "mass": -1.0}, "'arm'.*mass.*negative"),
    "not positive definite": ({**SOLID, "inertia": np.diag([0.02, 0.02, -0.01])}, "'arm'.*positive definite"),
    "triangle inequality": ({**SOLID, "inertia": np.diag([0.01, 0.01, 0.5])}, "'arm'.*triangle"),
    "not symmetric": ({**SOLID, "inertia": [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]}, "'arm'.*symmetric"),
    "NaN mass": ({**SOLID, "mass": np.nan}, "'arm'.*NaN"),
    "zero axis": ({**SOLID, "axis": (0.0, 0.0, 0.0)}, "arm_joint.*axis"),
    "NaN axis": ({**SOLID, "axis": (0.0, np.nan, 0.0)}, "arm_joint.*axis"),
    "short axis": ({**SOLID, "axis": (0.0, 1.0)}, "arm_joint.*axis"),
    "placement that is no pose": ({**SOLID, "placement": np.diag([1.0, 1.0, 2.0, 1.0])}, "arm_joint"),
    "mirrored placement": ({**SOLID, "placement": np.diag([1.0, 1.0, -1.0, 1.0])}, "arm_joint"),
    "negative armature": ({**SOLID, "armature": -0.1}, "arm_joint.*armature.*negative"),
    "pitch of a hinge": ({**SOLID, "pitch": 0.1}, "arm_joint.*pitch"),
    "inertia without mass": ({"mass": 0.0, "inertia": np.eye(3)}, "'arm'.*mass is zero"),
}


@pytest.mark.parametrize("case", list(BAD_BODIES))
def test_bodies_that_cannot_exist(case: str) -> None:
    arguments, message = BAD_BODIES[case]
    with pytest.raises(ModelError, match=message):
        kt.Builder(name="bad").add_body("arm", parent="world", joint="revolute", **arguments)


def test_unknown_joint_kind() -> None:
    with pytest.raises(UnknownNameError, match="'hinge'.*revolute"):
        kt.Builder(name="bad").add_body("arm", parent="world", joint="hinge", **SOLID)


def test_unknown_parent() -> None:
    builder = kt.Builder(name="bad").add_body("arm", parent="nowhere", joint="revolute", **SOLID)
    with pytest.raises(UnknownNameError, match="parent of body 'arm'.*'nowhere'"):
        builder.build()


def test_cycle() -> None:
    builder = kt.Builder(name="bad")
    for name, parent in (("a", "c"), ("b", "a"), ("c", "b")):
        builder.add_body(name, parent=parent, joint="revolute", **SOLID)
    with pytest.raises(ModelError, match="cycle.*→"):
        builder.build()


def test_duplicate_names() -> None:
    builder = kt.Builder(name="bad").add_body("arm", parent="world", joint="revolute", **SOLID)
    with pytest.raises(ModelError, match="'arm'"):
        builder.add_body("arm", parent="world", joint="revolute", **SOLID)
    with pytest.raises(ModelError, match="'arm_joint'"):
        builder.add_body("hand", parent="arm", joint="revolute", joint_name="arm_joint", **SOLID)
    with pytest.raises(ModelError, match="'arm'"):
        builder.add_frame("arm", body="arm")
    with pytest.raises(ModelError, match="'world'"):
        builder.add_body("world", parent="arm", joint="revolute", **SOLID)


def with_massless_leaf() -> kt.Model:
    builder = kt.Builder(name="leaf").add_body("arm", parent="world", joint="revolute", axis=(0, 1, 0), **SOLID)
    return builder.add_body("ghost", parent="arm", joint="revolute", axis=(1, 0, 0)).build()


def test_massless_leaf() -> None:
    """Found from the structure when an inverse of M is first asked for; what does not invert M works."""
    robot = with_massless_leaf()
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


def test_zero_quaternion_gives_nan(robot: kt.Model) -> None:
    q, v, x = states(robot, (3,))
    joint = next(joint for joint in robot.joints if joint.kind == "spherical")
    q[1, joint.q_slice] = 0.0
    finite = np.isfinite(robot.forward_dynamics(q, v, x)).all(axis=-1)
    assert finite.tolist() == [True, False, True]


# -- the cache of compiled code ----------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np, sys, warnings
import kinetree as kt
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    robot = kt.zoo.chain(3)
    q = np.linspace(0.1, 0.9, robot.nq)
    a = robot.forward_dynamics(q, q, q)
    b = robot.forward_dynamics(np.stack([q] * 9), q, q)
    assert (a == b).all()
    robot.inverse_dynamics(q, q, q)
print(a.tobytes().hex())
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


def run_with_cache(directory: Path | str) -> tuple[str, list[str]]:
    """Run a small program with the cache there: its result's bits, and its warnings."""
    environment = {**os.environ, "KINETREE_CACHE_DIR": str(directory)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result, *warnings = done.stdout.splitlines()
    return result, warnings


@pytest.fixture(scope="module")
def expected() -> str:
    result, warnings = run_with_cache("off")
    assert warnings == []
    return result


def test_a_cold_and_a_warm_cache_agree(tmp_path: Path, expected: str) -> None:
    directory = tmp_path / "cache"
    assert run_with_cache(directory) == (expected, [])
    files = sorted(directory.iterdir())
    assert files
    assert stat.S_IMODE(directory.stat().st_mode) & 0o022 == 0
    before = [(file.name, file.read_bytes()) for file in files]
    assert run_with_cache(directory) == (expected, [])
    assert [(file.name, file.read_bytes()) for file in sorted(directory.iterdir())] == before


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a cache."""
    directory = tmp_path_factory.mktemp("good") / "cache"
    run_with_cache(directory)
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_corrupt_cache_is_compiled_again(tmp_path: Path, expected: str, good: dict[str, bytes], damage: str) -> None:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    for name, content in good.items():
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
        spoilt = {"cut": content[:middle], "flipped": flipped, "empty": b"", "foreign": b"\x7fELF" * 1000}[damage]
        (directory / name).write_bytes(spoilt)
    assert run_with_cache(directory) == (expected, [])
    mended = {file.name: file.read_bytes() for file in directory.iterdir()}
    assert set(mended) == set(good)
    assert all(len(mended[name]) == len(content) for name, content in good.items())


def test_an_unwritable_cache_is_done_without(tmp_path: Path, expected: str) -> None:
    """A path that no one can make a directory of, whoever runs the tests."""
    (tmp_path / "file").write_text("in the way")
    result, warnings = run_with_cache(tmp_path / "file" / "cache")
    assert result == expected
    assert len(warnings) == 1
    assert "CacheWarning" in warnings[0]


def test_a_cache_that_others_may_write_is_not_used(tmp_path: Path, expected: str) -> None:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    directory.chmod(0o777)
    result, warnings = run_with_cache(directory)
    assert result == expected
    assert len(warnings) == 1, "said once"
    assert "CacheWarning" in warnings[0]
    assert str(directory) in warnings[0]
    assert list(directory.iterdir()) == []
