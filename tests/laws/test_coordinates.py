"""Nothing depends on coordinates that Kinetree chooses, or on where a robot is.

Frames of nodes are moved when robots are assembled; a text runs in the coordinates of its nodes or in the common frame
of a tree, by a choice that depends on the tree alone; and results that do not depend on where a robot is lose no digit
far away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.papers.general import general
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp, inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import forward_dynamics_vjp, inverse_dynamics_vjp
from kinetree.algorithms.dynamics.centroid import center_of_mass
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.dynamics.regressor import regressor
from kinetree.algorithms.kinematics.acceleration_derivatives import (
    ACCELERATION_DERIVATIVES,
    CLASSICAL_ACCELERATION_DERIVATIVES,
)
from kinetree.algorithms.kinematics.frame_kinematics import (
    ACCELERATIONS,
    CLASSICAL_ACCELERATIONS,
    JACOBIAN_RATES,
    JACOBIANS,
    JACOBIANS_DOT_V,
    VELOCITIES,
    VELOCITY_DERIVATIVES,
    poses,
)
from kinetree.compiler.count import count
from kinetree.errors import ContractError, UnsupportedError
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.forward_mode import directional_derivative
from kinetree.model.assembly.assembly import assemble
from kinetree.runtime import reference
from kinetree.runtime.function import Function
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import run
from kinetree.tasks import METHODS
from tests.laws import cases
from tests.laws.cases import ENGINES
from tests.mechanisms import gripper
from tests.tolerance import Array, assert_close, assert_near, bound, condition, refused
from tests.trees import mixed, random_inertia, random_mechanism, random_rotation, serial, unit


def turn(axis: int, angle: float) -> Array:
    """A rotation about a coordinate axis."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[u, u], R[v, v], R[u, v], R[v, u] = np.cos(angle), np.cos(angle), -np.sin(angle), np.sin(angle)
    return R


#: Axes of children relative to their parent's: every branch that placements distinguish, and those next to them.
DIRECTIONS = {
    "parallel": np.eye(3),
    "opposite": turn(0, np.pi),
    **{f"quarter {i}": turn(2, i * np.pi / 2) @ turn(0, np.pi / 2) for i in range(4)},
    "right angle": turn(2, 0.7) @ turn(0, np.pi / 2),
    "tilted": turn(2, 0.7) @ turn(0, 0.9),
    "tilted about x": turn(0, -0.9),
    "nearly parallel": turn(2, 0.7) @ turn(0, 1e-3),
    "hardly tilted": turn(2, 0.7) @ turn(0, 1e-9),
    "nearly opposite": turn(2, 0.7) @ turn(0, np.pi - 1e-7),
    "nearly a quarter": turn(0, np.pi / 2 + 1e-8),
    "tilted by rounding": turn(2, 0.7) @ turn(0, 3e-16),
}


def branches(base: str, joint: str) -> kt.Model:
    """Two joints in each direction on one body."""
    rng = np.random.default_rng(len(base) + len(joint))
    builder = kt.Builder(f"{joint} on {base}", gravity=(0.3, -0.5, -9.7))
    pitch = {"pitch": 0.1} if joint == "helical" else {}
    own: dict[str, Any] = {"mass": 1.0, "com": (0.1, -0.2, 0.05), "inertia": np.diag([0.02, 0.03, 0.04])}
    builder.add_body("base", joint=base, placement=(turn(1, 0.3), (0.1, 0.2, 0.3)), **own)
    for name, R in DIRECTIONS.items():
        at = (R, np.zeros(3) if name == "tilted" else rng.uniform(-0.5, 0.5, 3))
        builder.add_body(name, parent="base", joint=joint, placement=at, **own, **pitch)
        builder.add_body(f"{name}, next", parent=name, joint=joint, placement=at, armature=0.1, **own, **pitch)
        builder.add_frame(f"{name}, tip", body=f"{name}, next", placement=(turn(1, 0.4), (0.1, 0.0, 0.2)))
    return builder.build()


MODELS: dict[str, Callable[[], kt.Model]] = {
    **{
        f"{joint} on {base}": lambda base=base, joint=joint: branches(base, joint)
        for base, joint in (
            ("revolute", "revolute"),
            ("floating", "revolute"),
            ("spherical", "helical"),
            ("prismatic", "revolute"),
            ("revolute", "prismatic"),
            ("cylindrical", "cylindrical"),
        )
    },
    "every kind": lambda: random_mechanism("every kind", mixed(20, 4), 4, armature=0.5).kinetree(),
    "forest": lambda: random_mechanism("forest", mixed(15, 24), 24, roots=3).kinetree(),
    "chain": lambda: random_mechanism("chain", ["revolute"] * 9, 3, branching=0.0).kinetree(),
    "humanoid24": kt.zoo.humanoid24,
}


@cache
def model(name: str) -> kt.Model:
    return MODELS[name]()


def computed(robot: kt.Model, reframed: bool, text: Algorithm, *arguments: Array) -> Array:
    """An algorithm on the robot, with frames moved or not."""
    mechanism, sites = robot.mechanism, robot.sites
    if not reframed:
        joints = {joint.child: joint for joint in (*robot.joints, *robot.fixed_joints)}
        assembled = assemble(robot.bodies, joints, robot.extra_frames, robot.gravity, reframed=False)
        mechanism, sites = assembled.mechanism, assembled.sites()
    (result,) = reference.run(text, mechanism, sites, arguments)
    return result


@pytest.mark.parametrize("name", MODELS)
def test_results_do_not_depend_on_frames(name: str) -> None:
    robot, rng = model(name), np.random.default_rng(7)
    q = robot.random_configuration(rng)
    v, a, dq, dv, da = rng.uniform(-1.0, 1.0, (5, robot.nv))
    wrenches = rng.uniform(-1.0, 1.0, (len(robot.sites), 6))
    kappa = condition(computed(robot, True, mass_matrix, q))
    checks: list[tuple[Algorithm, tuple[Array, ...], float]] = [
        (poses, (q,), 0.0),
        (inverse_dynamics, (q, v, a, wrenches), 0.0),
        (mass_matrix, (q,), 0.0),
        (forward_dynamics, (q, v, a, wrenches), kappa),
        (mass_matrix_inverse, (q,), kappa),
        (forward_dynamics_jvp, (q, v, a, dq, dv, da, wrenches), kappa),
    ]
    for text, arguments, loss in checks:
        results = [computed(robot, reframed, text, *arguments) for reframed in (True, False)]
        assert_close(*results, bound(robot.nv, loss))


def test_general_placements_can_still_be_counted() -> None:
    robot = kt.zoo.humanoid24()
    assert {kind.name for kind in general(robot).kinds} == {"revolute"}
    assert general(robot).parents == robot.mechanism.parents


def test_a_robot_far_away_on_a_slide_loses_no_digit() -> None:
    """Frames are not shifted before the first joint that rotates, whatever the offsets along axes are."""
    rng = np.random.default_rng(3)
    own: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.0, 0.02), "inertia": np.diag([0.02, 0.03, 0.04])}

    def robot(distance: float) -> kt.Model:
        builder = kt.Builder("sled")
        builder.add_body("slide", joint="prismatic", axis=(1.0, 0.0, 0.0), **own)
        builder.add_body("lift", parent="slide", joint="prismatic", placement=(turn(0, 0.3), (0, 0, distance)), **own)
        builder.add_body("arm", parent="lift", placement=(np.eye(3), (0.0, 0.0, distance)), **own)
        builder.add_body("hand", parent="arm", placement=(turn(0, np.pi / 2), (0.3, 0.2, 0.1)), **own)
        return builder.build()

    q, v, a = rng.uniform(-1.0, 1.0, (3, 4))
    near, far = robot(0.0), robot(1e7)
    tolerance = bound(4, condition(near.mass_matrix.engine("reference")(q)))
    for function in ("inverse_dynamics", "forward_dynamics"):
        results = [getattr(each, function).engine("reference")(q, v, a) for each in (far, near)]
        assert_close(*results, tolerance)


FRAMES = (
    *(VELOCITIES, ACCELERATIONS, CLASSICAL_ACCELERATIONS, JACOBIANS_DOT_V),
    *(JACOBIANS, JACOBIAN_RATES, VELOCITY_DERIVATIVES),
    *(ACCELERATION_DERIVATIVES, CLASSICAL_ACCELERATION_DERIVATIVES),
)
#: Every text that runs in both views, by name; those of frames for each reference.
TEXTS: dict[str, Algorithm] = {
    text.name: text
    for text in (
        mass_matrix,
        mass_matrix_inverse,
        coriolis_matrix,
        *(inverse_dynamics_derivatives, forward_dynamics_derivatives),
        *(inverse_dynamics_jvp, inverse_dynamics_vjp, forward_dynamics_jvp, forward_dynamics_vjp),
        regressor,
        *(text for by_reference in FRAMES for text in by_reference.values()),
    )
}


def chain(bodies: int, branches: int = 1) -> kt.Model:
    """Branches of revolute joints."""
    builder, link = kt.Builder("chain"), {"axis": (0.0, 1.0, 0.0), "mass": 1.0, "com": (0.0, 0.0, 0.1)}
    for b in range(branches):
        serial([link] * bodies, f"{b} ", builder=builder)
    return builder.build()


def given(text: Algorithm, of: kt.Model, seed: int, *batch: int) -> tuple[Any, list[Any]]:
    """Frames and random arguments of a text."""
    rng = np.random.default_rng(seed)
    frames = any("frames" in a.dimensions for a in (*text.inputs, *text.outputs))
    sites = tuple(of.site(of.bodies[i].name) for i in (-1, 3)) if frames else ()
    sizes = text.sizes(of.mechanism, sites)
    arguments = [
        of.random_configuration(rng, *batch) if a.name == "q" else rng.uniform(-1.0, 1.0, (*batch, *a.shape(sizes)))
        for a in text.inputs
    ]
    return sites, arguments


def compare(found: Any, expected: Any, of: kt.Model, q: Any) -> None:
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, tolerance, float(np.abs(other).max(initial=1.0)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TEXTS)
def test_views_agree(name: str, seed: int) -> None:
    of, text = random_mechanism("rigid", mixed(9, seed), seed, armature=0.5).kinetree(), TEXTS[name]
    sites, arguments = given(text, of, seed)
    own, common = (run(view, of.mechanism, sites, arguments) for view in (text, in_common_frame(text)))
    compare(common, own, of, arguments[0])


@pytest.mark.parametrize("name", TEXTS)
def test_compiled_views(name: str) -> None:
    """Values, and bits alone and in batches, also where functions of this robot use the other view."""
    of, text = cases.model("every kind, armature"), TEXTS[name]
    sites, arguments = given(text, of, 1, 11)
    first = [x[0] for x in arguments]
    expected = run(text, of.mechanism, sites, first)
    for view in (text, in_common_frame(text)):
        function = bind(view, of.mechanism, sites, view.name, False, tuple)
        batch = _several(function(*arguments))
        for i in range(len(arguments[0])):
            for one, all_of_them in zip(_several(function(*(x[i] for x in arguments))), batch, strict=True):
                np.testing.assert_array_equal(one, all_of_them[i])
        compare([x[0] for x in batch], expected, of, first[0])


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("name", ["mass_matrix", "coriolis_matrix", "inverse_dynamics_derivatives"])
def test_the_choice_depends_on_the_tree(name: str) -> None:
    own = TEXTS[name]
    common = in_common_frame(own)
    cases = {chain(7): own, chain(16): own, chain(30): common, chain(2, 30): own, kt.zoo.humanoid24(): own}
    for of, expected in cases.items():
        assert getattr(of, name).algorithm is expected, of


def test_functions_of_general_nodes_run_in_own_coordinates() -> None:
    of = gripper()
    for name in ("mass_matrix", "jacobian", "velocity_derivative", "regressor"):
        assert not getattr(of, name).algorithm.rigid


def test_operations() -> None:
    """In own coordinates, the pose of a floating base costs nothing; in the common frame, columns do not travel."""
    of = kt.zoo.humanoid24()
    own, common = (count(view, of.mechanism, ()).total for view in (mass_matrix, in_common_frame(mass_matrix)))
    assert (own, common) == (4953, 7479)


# What texts may not do in the common frame

RIGID = random_mechanism("rigid", mixed(5, 2), 2).kinetree()
RUNS = {
    "reference": lambda text: run(text, RIGID.mechanism, (), [RIGID.neutral()]),
    "native": lambda text: count(text, RIGID.mechanism, ()),
}


def _text(body: Any) -> Algorithm:
    return algorithm(q=("q",), tau=("v",), outputs=("tau",))(body)


@pytest.mark.parametrize("engine", RUNS)
def test_columns_that_travel_change_by_weights_only(engine: str) -> None:
    @_text
    def turned_around(tree: Any, q: Any, tau: Any) -> None:
        S = tree.travelling("v")
        for k, parent in tree.scatter():
            X = k.weight(q[k])
            for c, e in zip(k.columns(), np.eye(len(k.armature)), strict=True):
                S[k, c] = k.H @ e
            for c in tree.ancestors(k):
                S[k, c] = X @ -S[parent, c]
            tau[k] = np.zeros(len(k.armature))

    with pytest.raises(
        ContractError, match=r"test_coordinates\.py:\d+: an entry of tree\.travelling changes by the node's"
    ):
        RUNS[engine](in_common_frame(turned_around))


@pytest.mark.parametrize("engine", RUNS)
def test_motions_are_known_once_the_node_is_placed(engine: str) -> None:
    @_text
    def not_placed(tree: Any, q: Any, tau: Any) -> None:
        for k, _ in tree.scatter():
            tau[k] = k.H.T @ (k.M @ (k.H @ q[k][: len(k.armature)]))

    with pytest.raises(ContractError, match=r"call k\.weight\(q\[k\]\) before reading it"):
        RUNS[engine](in_common_frame(not_placed))


@pytest.mark.parametrize("engine", RUNS)
def test_the_parent_does_not_reveal_its_motions(engine: str) -> None:
    @_text
    def of_parent(tree: Any, q: Any, tau: Any) -> None:
        for k, parent in tree.scatter():
            k.X = k.weight(q[k])
            tau[k] = parent.H.T @ (k.M @ (k.H @ q[k][: len(k.armature)]))

    refused("available only from a loop's own node k", RUNS[engine], in_common_frame(of_parent), error=ContractError)


@pytest.mark.parametrize("engine", RUNS)
def test_what_is_gathered_on_the_world_is_not_read(engine: str) -> None:
    with pytest.raises(ContractError, match=r"(centroid|inertias)\.py:\d+: `world\.R` is read"):
        RUNS[engine](in_common_frame(center_of_mass))


@pytest.mark.parametrize("of_view", [True, False])
def test_derivatives_by_dual_numbers_have_no_view(of_view: bool) -> None:
    def rate(text: Algorithm) -> Algorithm:
        return directional_derivative(text, "rate", "dq", {}, ("rate",))

    view = rate(in_common_frame(mass_matrix)) if of_view else in_common_frame(rate(mass_matrix))
    with pytest.raises(ContractError, match="runs in own coordinates"):
        run(view, RIGID.mechanism, (), [RIGID.neutral(), np.ones(RIGID.nv)])


def test_the_derivative_of_a_text_with_inward_entries() -> None:
    rate = directional_derivative(mass_matrix, "rate", "dq", {}, ("rate",))
    q, dq, step = RIGID.random_configuration(1), np.linspace(-1.0, 1.0, RIGID.nv), 1e-6
    difference = RIGID.mass_matrix(RIGID.integrate(q, dq * step)) - RIGID.mass_matrix(RIGID.integrate(q, -dq * step))
    (found,) = run(rate, RIGID.mechanism, (), [q, dq])
    assert_near(found, difference / (2.0 * step), 1e-7)


def test_general_nodes_have_own_coordinates_only() -> None:
    refused("rigid bodies only", in_common_frame(mass_matrix).require, gripper().mechanism, error=UnsupportedError)


DISTANCES = (1e4, 1e6, 1e8)


class _Robot:
    """Builds bodies of random shape one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = kt.Builder("sled")

    def add(self, name: str, parent: str, joint: str, mass: float = 1.0, reach: float = 0.5) -> None:
        inertia = random_inertia(self.rng, mass) if mass else None
        axis = unit(self.rng) if joint in ("revolute", "prismatic", "planar", "cylindrical", "helical") else None
        com = self.rng.uniform(-0.2, 0.2, 3) if mass else np.zeros(3)
        place = random_rotation(self.rng), self.rng.uniform(-reach, reach, 3)
        self.builder.add_body(
            name,
            parent=parent,
            joint=joint,
            placement=place,
            axis=axis,
            mass=mass,
            com=com,
            inertia=inertia,
            pitch=0.1 if joint == "helical" else None,
        )

    def arm(self, prefix: str, parent: str, *joints: str) -> None:
        for index, joint in enumerate(joints):
            name = f"{prefix}{index + 1}"
            self.add(name, parent, joint)
            parent = name


def _sled(mass: float) -> kt.Model:
    robot = _Robot(1)
    robot.add("x", "world", "prismatic", mass)
    robot.add("y", "x", "prismatic", mass)
    robot.arm("arm", "y", "revolute", "revolute", "prismatic", "revolute")
    return robot.builder.build()


def _drone() -> kt.Model:
    robot = _Robot(2)
    robot.add("carriage", "world", "translational", 0.0)
    robot.add("shaft", "carriage", "revolute", 0.3)
    robot.arm("arm", "shaft", "spherical", "revolute", "helical")
    return robot.builder.build()


def _two_arms(mass: float) -> kt.Model:
    robot = _Robot(3)
    robot.add("bridge", "world", "prismatic", mass)
    robot.arm("left", "bridge", "prismatic", "revolute", "revolute", "revolute")
    robot.arm("right", "bridge", "revolute", "planar", "revolute")
    return robot.builder.build()


SLIDING: dict[str, tuple[Callable[[], kt.Model], int]] = {
    "massless carriages": (lambda: _sled(0.0), 2),
    "heavy carriages": (lambda: _sled(50.0), 2),
    "translational, shaft, ball": (_drone, 3),
    "two arms on a bridge": (lambda: _two_arms(20.0), 1),
    "two arms on a massless bridge": (lambda: _two_arms(0.0), 1),
}


@cache
def _sliding(name: str) -> kt.Model:
    return SLIDING[name][0]()


class _State:
    """A state near the origin, and the same one with the slides pushed out."""

    def __init__(self, name: str, distance: float) -> None:
        self.robot = _sliding(name)
        rng = np.random.default_rng(5)
        self.near = self.robot.random_configuration(rng)
        self.v, self.x = rng.standard_normal((2, self.robot.nv))
        self.far = self.near.copy()
        self.far[: SLIDING[name][1]] += distance * rng.choice([-1.0, 1.0], SLIDING[name][1])
        #: Whether the carriages have no mass, so that nothing heavy stays behind.
        carriages = [body for body in self.robot.bodies if body.name in ("x", "y", "carriage", "bridge")]
        self.alone = all(body.mass == 0.0 for body in carriages)
        self.condition = condition(self.robot.mass_matrix(self.near))

    def compare(self, function: Callable[[Any], Any], inverted: bool = False) -> None:
        far, near = function(self.far), function(self.near)
        tolerance = bound(self.robot.nv, self.condition if inverted else 1.0)
        for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (far, near)), strict=True):
            assert_close(one, other, tolerance)


@pytest.fixture(params=[(name, d) for name in SLIDING for d in DISTANCES], ids=lambda p: f"{p[0]}-{p[1]:.0e}")
def state(request: pytest.FixtureRequest) -> _State:
    return _State(*request.param)


@pytest.mark.parametrize("engine", ENGINES)
class TestNothingDependsOnTheDistance:
    def test_mass_matrix(self, state: _State, engine: str) -> None:
        state.compare(state.robot.mass_matrix.engine(engine))
        state.compare(state.robot.mass_matrix_inverse.engine(engine), inverted=True)

    def test_in_the_common_frame(self, state: _State, engine: str) -> None:
        for text in (mass_matrix, mass_matrix_inverse):
            function: Any = Function(text.name, state.robot.mechanism, in_common_frame(text))
            state.compare(function.engine(engine), inverted=text is mass_matrix_inverse)

    def test_coriolis_matrix(self, state: _State, engine: str) -> None:
        state.compare(lambda q: state.robot.coriolis_matrix.engine(engine)(q, state.v))

    def test_derivatives(self, state: _State, engine: str) -> None:
        robot, v, x = state.robot, state.v, state.x
        state.compare(lambda q: robot.inverse_dynamics_derivatives.engine(engine)(q, v, x))
        state.compare(lambda q: robot.forward_dynamics_derivatives.engine(engine)(q, v, x), inverted=True)

    def test_frames(self, state: _State, engine: str) -> None:
        robot, v = state.robot, state.v
        for frame in robot.frames:
            for view in ("local", "local_world_aligned"):
                state.compare(lambda q, f=frame, r=view: robot.jacobian.engine(engine)(q, f, r))
                state.compare(lambda q, f=frame, r=view: robot.jacobian_rate.engine(engine)(q, v, f, r))
                state.compare(lambda q, f=frame, r=view: robot.velocity_derivative.engine(engine)(q, v, f, r))
        state.compare(lambda q: robot.regressor.engine(engine)(q, v, state.x))

    def test_momentum(self, state: _State, engine: str) -> None:
        state.compare(state.robot.center_of_mass_jacobian.engine(engine))
        if state.alone:
            state.compare(state.robot.centroidal_momentum_matrix.engine(engine))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["massless carriages", "two arms on a bridge"])
def test_operational_space(name: str, method: str) -> None:
    """Tasks of single frames, and across branches that have reference points of their own."""
    state = _State(name, 1e6)
    robot = state.robot
    tips = [frame for frame in robot.frames if frame.endswith("3")]
    tasks: list[Any] = [kt.Task(tip, "position") for tip in tips]
    if len(tips) == 2:
        tasks += [kt.RelativeTask(*tips, (2, 5))]
    state.compare(robot.tasks(tasks, method=method).inverse_inertia, inverted=True)
    state.compare(robot.tasks(tasks, method=method).jacobian)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("distance", [0.0, 1e3, 1e6, 1e9])
def test_centroidal_momentum(engine: str, distance: float) -> None:
    """One robot on a floating base, wherever it is; the shift is exact in binary."""
    robot = kt.zoo.asimo35()
    q = robot.random_configuration(3)
    near, far = q.copy(), q.copy()
    near[:3] = 0.0
    far[:3] = distance, -distance, 2.0 * distance
    matrix = robot.centroidal_momentum_matrix.engine(engine)
    assert_close(matrix(far), matrix(near), bound(robot.nv))


def test_centroidal_momentum_of_a_forest_far_away() -> None:
    """Two robots side by side, both far away: their distance from each other matters, and nothing else."""
    one = kt.zoo.asimo35()
    both = one.attach("world", one, prefix="other_")
    near = both.random_configuration(0)
    near[:3], near[one.nq : one.nq + 3] = (0.25, 0.5, -0.125), (2.0, 1.0, 0.75)
    far = near.copy()
    far[:3] += 2.0**20
    far[one.nq : one.nq + 3] += 2.0**20
    assert_close(both.centroidal_momentum_matrix(far), both.centroidal_momentum_matrix(near), bound(both.nv))


def test_centroidal_momentum_of_carriages() -> None:
    """Momentum about the centre of mass, from first principles: Σ (c − com) × m v over bodies that only slide."""
    robot = _sliding("heavy carriages")
    q = _State("heavy carriages", 1e3).far
    com, A = robot.center_of_mass(q), robot.centroidal_momentum_matrix(q)
    poses = dict(zip(robot.frames, robot.pose(q), strict=True))
    x = poses["x"][:3, :3] @ robot.joint("x_joint").axes[0]
    places = [poses[b.name][:3, :3] @ b.com + poses[b.name][:3, 3] for b in robot.bodies]
    expected = sum(b.mass * np.cross(c - com, x) for b, c in zip(robot.bodies, places, strict=True))
    assert_close(A[:3, 0], expected, bound(robot.nv), scale=robot.mass * 1e3)
    assert_close(A[3:, 0], robot.mass * x, bound(robot.nv))
