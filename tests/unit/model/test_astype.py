"""`Model.astype`: what changes with the type, what stays, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.control import DifferentialIK, Goal, OperationalSpace, Posture, WholeBody, inverse_kinematics
from kinetree.errors import InputError, ModelError, SingularTaskError, UnsupportedError
from kinetree.language.algorithm import algorithm
from kinetree.runtime.function import Function
from kinetree.spatial.scalar import Constant
from tests.mechanisms import built, gripper, whip
from tests.parity.functions import FUNCTIONS, assert_same_bits, states
from tests.parity.test_engines import SOLVING
from tests.tolerance import assert_close, bound, condition

DOUBLE = kt.zoo.humanoid24()
SINGLE = DOUBLE.astype("float32")
HANDS = ["left_hand", "right_hand"]


def test_float64_is_the_default() -> None:
    assert DOUBLE.dtype == np.float64
    assert DOUBLE.astype("float64") is DOUBLE
    assert SINGLE.dtype == np.float32
    for name in (np.float32, np.dtype("float32"), "f4", "single"):
        assert DOUBLE.astype(name) is SINGLE


def test_back_without_loss() -> None:
    assert SINGLE.astype("float64") is DOUBLE
    again = pickle.loads(pickle.dumps(SINGLE))
    assert again == SINGLE
    assert again != DOUBLE
    assert hash(again) == hash(SINGLE)
    assert again.astype("float64") == DOUBLE
    assert again.bodies[3].mass == DOUBLE.bodies[3].mass
    assert copy.deepcopy(SINGLE) is SINGLE


def test_it_shows_in_the_representation() -> None:
    assert repr(SINGLE).endswith("24 bodies, float32>")
    assert "float" not in repr(DOUBLE)


@pytest.mark.parametrize(
    "dtype", ["float16", "complex64", complex, "longdouble", np.int32, "single precision", None, 4.0]
)
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(InputError, match=r"compute in 'float64' or 'float32', not in"):
        DOUBLE.astype(dtype)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.with_inertia("left_knee_link", mass=1e39), "body 'left_knee_link': mass 1e\\+39 is too large"),
        (lambda r: r.with_inertia("left_knee_link", mass=1e-41), "body 'left_knee_link': mass 1e-41 is too small"),
        (
            lambda r: r.with_inertia("left_knee_link", inertia=1e-40 * np.eye(3)),
            "body 'left_knee_link': inertia 1e-40 is too small",
        ),
        (lambda r: r.with_armature({"left_knee": 1e-42}), "joint 'left_knee': armature 1e-42 is too small"),
        (lambda r: r.with_gravity([0.0, 0.0, -1e39]), "the model: gravity 1e\\+39 is too large"),
        (
            lambda r: r.with_frame("far", "left_hand", (np.eye(3), [1e39, 0.0, 0.0])),
            "frame 'far': placement 1e\\+39 is too large",
        ),
        (
            lambda r: r.with_inertia("left_knee_link", mass=1e20, com=[1e15, 0.0, 0.0]),
            "node 'left_knee_link': constant 1e\\+50 is too large",
        ),
    ],
)
def test_numbers_that_float32_does_not_have(change: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message + r" for float32, .*; use astype\('float64'\)"):
        change(DOUBLE).astype("float32")
    with pytest.raises(ModelError, match=message):
        change(SINGLE)


def test_code_for_one_robot() -> None:
    """`compile(specialize=True)` and `astype` in either order."""
    arm = kt.zoo.chain(3)
    single = arm.astype("float32")
    one = single.compile(["forward_dynamics"], specialize=True)
    other = arm.compile(["forward_dynamics"], specialize=True).astype("float32")
    q, v, tau = states(single, (20,))
    exact, kappa = arm.forward_dynamics(q, v, tau), condition(arm.mass_matrix(q))
    for robot in (one, other, pickle.loads(pickle.dumps(one))):
        found = robot.forward_dynamics(q, v, tau)
        assert_close(found, exact, bound(arm.nv, kappa, np.float32))
        assert_same_bits((np.stack([robot.forward_dynamics(*each) for each in zip(q, v, tau)]),), (found,))


def test_variants_keep_the_type() -> None:
    variants = (
        SINGLE.reduced({"left_knee": 0.1}),
        SINGLE.subtree("waist_yaw_link"),
        SINGLE.with_gravity([0.0, 0.0, -1.6]),
        SINGLE.with_inertia("left_knee_link", mass=2.0),
        SINGLE.with_payload("left_hand", 1.0),
        SINGLE.attach("left_hand", kt.zoo.chain(2)),
        SINGLE.with_frame("tool", "left_hand"),
        SINGLE.with_armature(0.1),
    )
    assert {variant.dtype.name for variant in variants} == {"float32"}


def test_coordinates() -> None:
    assert SINGLE.neutral().dtype == SINGLE.random_configuration(0).dtype == np.float32
    np.testing.assert_array_equal(
        SINGLE.random_configuration(0, (5,)), DOUBLE.random_configuration(0, (5,)).astype(np.float32)
    )
    assert SINGLE.q_from_dict({"left_knee": 0.1}).dtype == SINGLE.v_from_dict({}).dtype == np.float32
    assert SINGLE.lower_limits.dtype == np.float64  # limits are numbers of the model


def test_arguments_are_converted() -> None:
    q, v, tau = states(SINGLE, (7,))
    expected = SINGLE.forward_dynamics(q, v, tau)
    for convert in (np.float64, np.longdouble):
        assert_same_bits((SINGLE.forward_dynamics(q.astype(convert), v, tau),), (expected,))
    assert_same_bits((SINGLE.forward_dynamics(q.tolist(), v.tolist(), tau.tolist()),), (expected,))
    with np.errstate(all="raise"):  # beyond the range of float32: as bad as infinity, in this sample only
        beyond = SINGLE.forward_dynamics(q, np.where(np.arange(7)[:, None] == 2, 1e300, v.astype(np.float64)), tau)
    assert np.isnan(beyond[2]).all()
    assert_same_bits((beyond[3:],), (expected[3:],))
    wide = DOUBLE.forward_dynamics(q, v, tau)
    assert wide.dtype == np.float64  # the robot decides, not the argument
    assert_same_bits((wide,), (DOUBLE.forward_dynamics(*(a.astype(np.float64) for a in (q, v, tau))),))


def test_out_has_the_type() -> None:
    q, v, tau = states(SINGLE, (7,))
    with pytest.raises(InputError, match="out must be a float32 array, got dtype float64"):
        SINGLE.forward_dynamics(q, v, tau, out=np.empty((7, 24)))
    with pytest.raises(InputError, match="out must be a float64 array, got dtype float32"):
        DOUBLE.forward_dynamics(q, v, tau, out=np.empty((7, 24), np.float32))


def test_external_forces() -> None:
    q, v, tau = states(SINGLE, (3,))
    wrench = np.linspace(-1.0, 1.0, 6, dtype=np.float32)
    batch = SINGLE.forward_dynamics(q, v, tau, f_ext={"left_hand": wrench})
    for dtype in (np.float32, np.float64, np.float32):
        alone = SINGLE.forward_dynamics(q[0], v[0], tau[0], f_ext={"left_hand": wrench.astype(dtype)})
        assert_same_bits((alone,), (batch[0],))


def test_the_reference_engine_computes_in_float64() -> None:
    q, v, tau = states(SINGLE, ())
    reference = SINGLE.forward_dynamics.engine("reference")(q, v, tau)
    assert reference.dtype == np.float64
    kappa = condition(DOUBLE.mass_matrix(q))
    assert_close(reference, DOUBLE.forward_dynamics(q, v, tau), bound(DOUBLE.nv, kappa))
    assert SINGLE.integrate(q + 0j, v, 0.1).dtype == np.complex128


def test_counts_do_not_depend_on_the_type() -> None:
    assert SINGLE.count("forward_dynamics") == DOUBLE.count("forward_dynamics")


def test_functions_are_pickled_with_their_type() -> None:
    q, v, tau = states(SINGLE, (3,))
    again = pickle.loads(pickle.dumps(SINGLE.forward_dynamics))
    assert_same_bits((again(q, v, tau),), (SINGLE.forward_dynamics(q, v, tau),))


@pytest.mark.parametrize("contacts", [(), ("left_foot",)])
def test_tasks(contacts: tuple[str, ...]) -> None:
    """Λ⁻¹ and J are computed in float32; what depends on singularities is computed in float64 and rounded."""
    single, double = (robot.tasks(HANDS, contacts=contacts) for robot in (SINGLE, DOUBLE))
    q, v, _ = states(SINGLE, (9,))
    kappa = condition(DOUBLE.mass_matrix(q))
    for name in ("inverse_inertia", "jacobian"):
        found = getattr(single, name)(q)
        assert found.dtype == np.float32
        assert_close(found, getattr(double, name)(q), bound(DOUBLE.nv, kappa, np.float32))
    found = single.jacobian_dot_v(q, v)
    assert_close(found, double.jacobian_dot_v(q, v), bound(DOUBLE.nv, kappa if contacts else 1.0, np.float32))
    for name in ("inertia", "condition"):
        assert_same_bits((getattr(single, name)(q),), (getattr(double, name)(q).astype(np.float32),))
    assert_same_bits((single.bias(q, v),), (double.bias(q, v).astype(np.float32),))
    assert_same_bits((single.rank(q),), (double.rank(q),))
    exact = tuple(part.astype(np.float32) for part in double.dynamics(q))
    assert_same_bits(tuple(single.dynamics(q)), exact)
    homes = tuple(np.empty_like(part) for part in exact)
    assert single.dynamics(q, out=homes).inertia is homes[0]
    assert_same_bits(homes, exact)
    assert_same_bits((pickle.loads(pickle.dumps(single)).inertia(q),), (single.inertia(q),))
    assert_close(single.inertia(q), exact[0], bound(DOUBLE.nv, kappa, np.float32))  # other recursions
    assert single.at(q).inertia.dtype == np.float64


def test_singular_tasks_are_found() -> None:
    single, double = (robot.tasks(HANDS, singular="raise") for robot in (SINGLE, DOUBLE))
    q = np.stack([SINGLE.random_configuration(0), SINGLE.neutral()])
    assert single.rank(q).tolist() == double.rank(q).tolist() == [12, 10]
    with pytest.raises(SingularTaskError, match=r"\(1,\) \(rank 10\)"):
        single.inertia(q)
    with pytest.raises(InputError, match="inertia: inertia must be a float32 array|out must be a float32 array"):
        single.inertia(q[0], out=np.empty((12, 12)))


def test_operators() -> None:
    q, _, x = states(SINGLE, ())
    operators = SINGLE.operators(q)
    assert operators.mass.dtype == (operators.mass @ x).dtype == (operators.I @ np.ones(144)).dtype == np.float32
    exact = DOUBLE.operators(q).mass @ x
    assert_close(operators.mass @ x, exact, bound(DOUBLE.nv, 1.0, np.float32))


def test_populations() -> None:
    q, v, tau = states(SINGLE, (5,))
    parameters = np.stack([DOUBLE.inertial_parameters * (1.0 + 0.1 * i) for i in range(5)])
    single, double = SINGLE.population(parameters), DOUBLE.population(parameters)
    found = single.forward_dynamics(q, v, tau)
    assert found.dtype == np.float32
    kappa = condition(DOUBLE.mass_matrix(q))
    assert_close(found, double.forward_dynamics(q, v, tau), bound(DOUBLE.nv, kappa, np.float32))
    with pytest.raises(InputError, match=r"population: a parameter is too large for float32"):
        SINGLE.population(parameters * 1e39)


POSE = np.zeros(3)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("OperationalSpace", lambda robot: OperationalSpace(robot, Goal("left_hand"))),
        ("WholeBody", lambda robot: WholeBody(robot, Goal("left_hand"), posture=Posture(robot.neutral()))),
        ("DifferentialIK", lambda robot: DifferentialIK(robot, Goal("left_hand"))),
        ("inverse_kinematics", lambda robot: inverse_kinematics(robot, {"left_hand": POSE})),
        ("Simulator", lambda robot: kt.simulation.Simulator(robot)),
        ("constraints", lambda robot: robot.constraints(["left_hand"])),
        ("constraints", lambda robot: robot.constrained_dynamics(robot.neutral(), *np.ones((2, 24)), ["left_hand"])),
    ],
)
def test_what_needs_float64_says_so(name: str, make: Any) -> None:
    with pytest.raises(UnsupportedError, match=rf"^{name} computes in float64 only, .* use robot.astype\('float64'\)"):
        make(SINGLE)


GENERAL = {"loop": lambda: built("four_bar"), "coupling": gripper, "beam": whip}
SOME = ("integrate", "forward_dynamics", "mass_matrix", "mass_matrix_inverse", "inverse_dynamics.vjp", "jacobian_rate")


@pytest.mark.parametrize("name", GENERAL)
def test_nodes_of_any_kind(name: str) -> None:
    double = GENERAL[name]()
    single = double.astype("float32")
    q, v, x = states(single, (5,))
    for function in (f for f in FUNCTIONS if f.name in SOME):
        kappa = condition(double.mass_matrix(q)) if function.name in SOLVING else 1.0
        found, exact = function(single, q, v, x), function(double, q, v, x)
        alone = [function(single, *sample) for sample in zip(q, v, x)]
        assert_same_bits(tuple(np.stack(parts) for parts in zip(*alone)), found)
        for one, other in zip(found, exact, strict=True):
            assert one.dtype == np.float32
            assert_close(one, other, bound(double.nv, kappa, np.float32))


def test_loops_are_closed_in_float64() -> None:
    double = built("four_bar")
    single = double.astype("float32")
    guess = single.neutral() + np.float32(0.01)
    assert_same_bits((single.close(guess),), (double.close(guess).astype(np.float32),))
    q = single.random_configuration(0)
    assert_same_bits((q,), (double.random_configuration(0).astype(np.float32),))
    assert single.loops(q)[0].residual < 1e-6
    assert single.spanning_tree.dtype == single.to_tree(q).dtype == np.float32
    v, a, forces = np.ones(single.nv), np.ones(single.nv), np.zeros(len(single.coupling(q)))
    assert_same_bits((single.loop_forces(q, v, a, forces),), (double.loop_forces(q, v, a, forces).astype(np.float32),))


def test_rotations_by_quaternions_of_any_norm() -> None:
    """Within the range in which squares keep their digits; NaN outside of it."""
    robot = (
        kt.Builder("ball").add_body("ball", joint="spherical", mass=1.0, inertia=np.eye(3)).build().astype("float32")
    )
    unit = np.array([0.5, -0.5, 0.5, 0.5], np.float32)
    expected = robot.pose(unit, "ball")
    for exponent in range(-33, 63):
        assert_same_bits((robot.pose(unit * np.float32(2.0**exponent), "ball"),), (expected,))
        assert_same_bits((robot.normalize(unit * np.float32(2.0**exponent)),), (unit,))
    for exponent in (-120, -40, -35, 65, 100):
        assert np.isnan(robot.pose(unit * np.float32(2.0**exponent), "ball")[:3, :3]).all()


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-20, 1e-8, 1e-4, 0.1, 1.0, 2.0, 3.0, 3.1415925])
def test_rotations_of_every_size(size: float) -> None:
    """Series and closed forms, in all functions of the manifold, from no rotation to half a turn."""
    double = kt.Builder("ball").add_body("ball", joint="floating", mass=1.0, inertia=np.eye(3)).build()
    single = double.astype("float32")
    axis = np.array([2.0, -1.0, 2.0]) / 3.0
    v = np.array([*(size * axis), 0.3, -0.2, 0.1], np.float32)
    q0 = single.random_configuration(0)
    q1 = single.integrate(q0, v)
    for name, given in (
        ("integrate", (q0, v)),
        ("dintegrate", (q0, v)),
        ("difference", (q0, q1)),
        ("ddifference", (q0, q1)),
    ):
        for one, other in zip(
            np.atleast_1d(getattr(single, name)(*given)), np.atleast_1d(getattr(double, name)(*given))
        ):
            # next to half a turn, the rotation vector of rounded quaternions may point either way
            if size < 3.1 or name in ("integrate", "dintegrate"):
                assert_close(one, other, bound(6, 1.0, np.float32))


def test_numbers_of_algorithms_by_format() -> None:
    """A `Constant` keeps both values through arithmetic, folding and fields; other numbers must exist in float32."""
    threshold = Constant(1e-300, 1e-30)

    @algorithm(v=("v",), y=("v",), outputs=("y",))
    def shifted(tree: Any, v: Any, y: Any) -> None:
        tree.world.c = np.array([0.0])
        for k, _ in tree.scatter():
            k.c = np.array([v[k][0] + 3.0 * (threshold * 2.0)])
        for k, _ in tree.scatter():
            y[k] = k.c

    @algorithm(v=("v",), y=("v",), outputs=("y",))
    def vanishing(tree: Any, v: Any, y: Any) -> None:
        for k, _ in tree.scatter():
            y[k] = v[k] + 1e-300

    chain = kt.zoo.chain(1)
    given = np.zeros(1)
    assert Function("shifted", chain.mechanism, shifted)(given) == 6e-300
    assert Function("shifted", chain.astype("float32").mechanism, shifted)(given) == np.float32(6e-30)
    with pytest.raises(UnsupportedError, match="number 1e-300 of an algorithm is out of the range of float32"):
        Function("vanishing", chain.astype("float32").mechanism, vanishing)(given)
    assert threshold != 1e-300
    assert Constant(2.0, 4.0) == Constant(1.0, 2.0) * 2 == 4.0 / Constant(2.0, 1.0) == 1.0 + Constant(1.0, 3.0)
    assert -Constant(2.0, 4.0) == Constant(1.0, 3.0) - Constant(3.0, 7.0) == 3.0 - Constant(5.0, 7.0)
    assert repr(Constant(1.0, 2.0)) == "Constant(1.0, 2.0)"
    assert type(Constant(1.0, 2.0) / np.float64(2.0)) is type(np.float64(2.0) - Constant(1.0, 2.0)) is np.float64
