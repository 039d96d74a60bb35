"""Robots with closed loops, coupled joints and flexible bodies: dynamics, tasks and control.

The oracle of random trees with random loops knows only the open tree: its mass matrix, bias, Jacobians and their drift.
"""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia, mobility, takes_any_node
from kinetree.algorithms.tasks import task_space
from kinetree.compiler.count import count
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.tree import Indexed, Tree
from kinetree.runtime.reference import run
from kinetree.spatial.inertia import Compliance
from tests.definition import khatib
from tests.laws.cases import LWA
from tests.mechanisms import NEAR, built, four_bar, gripper, whip
from tests.oracle import oracle
from tests.tolerance import assert_close, bound, condition, peak
from tests.trees import mixed, random_mechanism
from tests.unit.model.test_closed_loops import suspended
from tests.unit.model.test_couplings import hand
from tests.unit.model.test_general_nodes import on_a_track

KINDS = ("revolute", "prismatic", "universal", "spherical", "cylindrical", "revolute", "planar", "helical", "fixed")


def tree(rng: np.random.Generator, count: int) -> tuple[kt.Builder, list[str]]:
    """A random tree on a floating base, with fixed bodies among the others."""
    builder = kt.Builder("random", gravity=rng.normal(size=3) * 5.0)
    names = ["base"]
    builder.add_body(
        "base", joint="floating", mass=3.0, com=rng.normal(size=3) * 0.1, inertia=np.diag([0.2, 0.3, 0.25])
    )
    for i in range(count):
        kind = str(rng.choice(KINDS))
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        R *= np.sign(np.linalg.det(R))
        settings: dict[str, Any] = {"pitch": 0.1} if kind == "helical" else {}
        if kind in ("revolute", "prismatic", "helical", "cylindrical", "planar"):
            settings["axis"] = rng.normal(size=3)
        if kind in ("revolute", "prismatic") and rng.random() < 0.5:
            settings["armature"] = 0.1
        at, com = (R, rng.normal(size=3) * 0.3), rng.normal(size=3) * 0.1
        parent = names[int(rng.integers(len(names)))]
        name = f"{kind}{i}"
        builder.add_body(name, parent=parent, joint=kind, placement=at, mass=1.0, com=com, inertia=np.diag(
            rng.uniform(0.05, 0.09, 3)), **settings)  # fmt: skip
        names.append(name)
    return builder, names


def closed(seed: int) -> tuple[kt.Model, list[tuple[str, str]], list[tuple[str, str, float]]] | None:
    """A robot with loops that close at a random configuration, the frames they join, and its couplings."""
    rng = np.random.default_rng(seed)
    builder, names = tree(rng, int(rng.integers(5, 9)))
    free = builder.build()
    q = free.random_configuration(rng)
    loops, couplings = [], []
    for i in range(int(rng.integers(1, 3))):
        a, b = (str(name) for name in rng.choice([*names, "world"], 2, replace=False))
        # one point of space, seen from both bodies
        point = np.append(free.pose(q, a)[:3, 3] + 0.2 * rng.normal(size=3), 1.0)
        for end, body in (("a", a), ("b", b)):
            place = (np.linalg.inv(free.pose(q, body)) @ point)[:3]
            builder.add_frame(f"{end}{i}", body=body, placement=(np.eye(3), place))
        builder.connect(f"a{i}", f"b{i}")
        loops.append((f"a{i}", f"b{i}"))
    single = [joint.name for joint in free.joints if joint.type.nq == joint.type.nv == 1]
    if len(single) >= 2:
        follower, leader = (str(name) for name in rng.choice(single, 2, replace=False))
        values = free.q_to_dict(q)
        offset = float(values[follower] - 1.7 * values[leader])
        builder.couple(follower, to=leader, ratio=1.7, offset=offset)
        couplings.append((follower, leader, 1.7))
    try:
        return builder.build(near=free.q_to_dict(q)), loops, couplings
    except kt.errors.ModelError as error:
        if "same body" in str(error) or "freedom" in str(error):
            return None
        raise


@pytest.mark.parametrize("seed", range(10))
def test_dynamics_with_multipliers(seed: int) -> None:
    made = closed(seed)
    if made is None:
        return  # a loop inside one body, or one that holds everything
    robot, loops, couplings = made
    if any(loop.singular or loop.condition > 1e4 for loop in robot.loops(robot.neutral())):
        return
    rng = np.random.default_rng(seed)
    q, v, tau = robot.neutral(), *rng.normal(size=(2, robot.nv))
    open_, order = robot.spanning_tree, robot.tree_order
    q_t, rates = robot.to_tree(q), robot.joint_rates.engine("reference")(q, v)[order]
    of = {name: getattr(open_, name).engine("reference") for name in ("mass_matrix", "bias_forces", "jacobian_dot_v")}
    rows, drift = [], []
    for ends in loops:
        J = open_.jacobian.engine("reference")(q_t, ends, reference="local_world_aligned")[:, 3:]
        k = of["jacobian_dot_v"](q_t, rates, ends, reference="local_world_aligned")[:, 3:]
        rows.append(J[0] - J[1])
        drift.append(k[0] - k[1])
    for follower, leader, ratio in couplings:
        row = np.zeros((1, open_.nv))
        row[0, open_.joint(follower).v_start], row[0, open_.joint(leader).v_start] = 1.0, -ratio
        rows.append(row)
        drift.append(np.zeros(1))
    K, k = np.concatenate(rows), np.concatenate(drift)
    assert_close(K @ rates, np.zeros(len(K)), 1e-9, scale=peak(rates))
    M, h = of["mass_matrix"](q_t), of["bias_forces"](q_t, rates)
    G = robot.coupling.engine("reference")(q)[order]
    # forces of the independent joints act on themselves
    applied = np.linalg.lstsq(G.T, tau, rcond=None)[0]
    inverse = np.linalg.inv(M)
    lam = np.linalg.lstsq(K @ inverse @ K.T, -(K @ inverse @ (applied - h) + k), rcond=1e-10)[0]
    expected = inverse @ (applied - h + K.T @ lam)
    a = robot.forward_dynamics.engine("reference")(q, v, tau)
    found = robot.joint_accelerations.engine("reference")(q, v, a)[order]
    assert_close(found, expected, 1e-7)
    assert_close(robot.inverse_dynamics.engine("reference")(q, v, a), tau, 1e-8, scale=peak(tau) + 10.0)


ROBOTS = {
    "hand": (lambda: hand(coupled=True), "ball", "nail"),
    "suspended": (suspended, None, None),
    "whip": (whip, "tool", "hub"),
}


@cache
def robot(name: str) -> kt.Model:
    return ROBOTS[name][0]()


@cache
def tasks(name: str, reference: str = "local") -> Any:
    """A frame, one relative to another, and the centre of mass."""
    of = robot(name)
    far, near = ROBOTS[name][1] or of.frames[-1], ROBOTS[name][2] or of.frames[1]
    between = kt.RelativeTask(near, far, (1, 3, 4))
    return of.tasks([kt.Task(far, (2, 3, 4)), between, kt.CenterOfMassTask((3, 4))], reference=reference)


def states(of: kt.Model) -> tuple[Any, Any]:
    return of.random_configuration(1, 3), np.random.default_rng(1).uniform(-1, 1, (3, of.nv))


@pytest.mark.parametrize("name", ROBOTS)
def test_definitions(name: str) -> None:
    of, made = robot(name), tasks(name).engine("reference")
    q, v = (x[0] for x in states(of))
    frame, near = made.tasks[0].frame, made.tasks[1].frame_a
    J, M = made.jacobian(q), of.mass_matrix(q)
    assert made.method == "pv_osim"
    assert_close(J[:3], of.jacobian(q, frame)[[2, 3, 4]], bound(of.nv))
    A, B = of.pose(q, near), of.pose(q, frame)
    into, both = A[:3, :3].T, of.jacobian(q, [near, frame], reference=LWA)
    apart = both[1] - both[0]
    apart[3:] += np.cross(B[:3, 3] - A[:3, 3], both[0, :3].T).T
    turned = np.concatenate([into @ apart[:3], into @ apart[3:]])
    assert_close(J[3:6], turned[[1, 3, 4]], bound(of.nv))
    tolerance = bound(of.nv, condition(M))
    solved = np.linalg.solve(M, J.T)
    assert_close(made.inverse_inertia(q), J @ solved, tolerance)
    assert_close(made.core.recursions.response(q), solved, tolerance)
    # the velocity of the centre of mass, from the power of gravity
    free = of.with_gravity(np.zeros(3)).gravity_forces.engine("reference")(q)  # springs
    up = of.with_gravity((-1.0, 0.0, 0.0)).gravity_forces.engine("reference")(q) - free
    assert_close(J[6] * of.mass, up, bound(of.nv), float(np.abs(up).max() + np.abs(free).max()))  # springs cancel
    h = 1e-6
    rate = (made.jacobian(of.integrate(q, v, h)) - made.jacobian(of.integrate(q, v, -h))) @ v / (2 * h)
    assert_close(made.jacobian_dot_v(q, v), rate, 1e-7, peak(rate) + 1.0)


@pytest.mark.parametrize("reference", ["world", LWA])
def test_references(reference: str) -> None:
    of, made = robot("hand"), tasks("hand", reference).engine("reference")
    q, v = (x[0] for x in states(of))
    frame = made.tasks[0].frame
    assert_close(made.jacobian(q)[:3], of.jacobian(q, frame, reference=reference)[[2, 3, 4]], bound(of.nv))
    drift = of.jacobian_dot_v(q, v, frame, reference=reference)[[2, 3, 4]]
    assert_close(made.jacobian_dot_v(q, v)[:3], drift, bound(of.nv), peak(drift) + 1.0)


def test_engines_agree_and_bits_do_not_depend_on_the_batch() -> None:
    of = gripper()
    made = of.tasks([kt.Task("tip", (2, 3, 4)), kt.RelativeTask("link1", "right", (4,)), kt.CenterOfMassTask((5,))])
    q, v = states(of)
    expected, M = made.engine("reference"), of.mass_matrix(q[0])
    tolerance = bound(of.nv, condition(M) ** 1.5)
    for name in ("inverse_inertia", "jacobian", "inertia", "jacobian_dot_v"):
        function, of_reference = getattr(made, name), getattr(expected, name)
        given = (q, v) if name == "jacobian_dot_v" else (q,)
        found = function(*given)
        assert_close(found[0], of_reference(*(x[0] for x in given)), tolerance, peak(found[0]))
        for i in range(3):
            assert np.array_equal(function(*(x[i] for x in given)), found[i])
        out = np.empty_like(found)
        assert function(*given, out=out) is out
        assert np.array_equal(out, found)
    assert np.array_equal(pickle.loads(pickle.dumps(made.inertia))(q), made.inertia(q))
    assert made.inverse_inertia.count().multiplications > 0


def test_forces_accelerate_tasks() -> None:
    """With τ = JᵀF, Λ ẍ + bias = F, if all rows can move; ẍ from forward dynamics."""
    of = gripper()
    made = of.tasks([kt.Task("tip", (3,))], singular="raise")
    q, v = (x[0] for x in states(of))
    F = np.array([0.7])
    inertia, consistent, nullspace = made.dynamics(q)
    J = made.jacobian(q)
    a = of.forward_dynamics(q, v, J.T @ F)
    motion = J @ a + made.jacobian_dot_v(q, v)
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    assert_close(inertia @ motion + made.bias(q, v), F, tolerance, peak(made.bias(q, v)) + 1.0)
    assert_close(J @ consistent, np.eye(1), tolerance)
    assert_close(nullspace, np.eye(of.nv) - consistent @ J, tolerance)
    assert_close(consistent, made.core.recursions.response(q) @ inertia, tolerance)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", ROBOTS)
def test_inertia_inverse_and_null_space(name: str, engine: str) -> None:
    """One kernel for all three, with a relative task whose ends a cluster or a beam may move apart."""
    of = robot(name)
    far, near = ROBOTS[name][1] or of.frames[-1], ROBOTS[name][2] or of.frames[1]
    made = of.tasks([kt.RelativeTask(near, far, (3,)), kt.CenterOfMassTask((5,))]).engine(engine)
    q, recursions = states(of)[0][0], made.core.recursions
    inertia, _, consistent, nullspace = recursions.dynamics(q, made.reach)
    J, A = made.jacobian(q), made.inverse_inertia(q)
    tolerance = bound(of.nv, condition(of.mass_matrix(q)) * float(np.linalg.cond(A)))
    assert_close(inertia @ A, np.eye(2), tolerance)
    assert_close(consistent, recursions.response(q) @ inertia, tolerance)
    assert_close(nullspace, np.eye(of.nv) - consistent @ J, tolerance)


def ball_joints() -> kt.Model:
    """A floating base with joints of three degrees of freedom, on rails."""
    builder = kt.Builder(gravity=(0, 0, -9.81))
    body: dict[str, Any] = {"mass": 1.5, "com": (0.1, 0.0, 0.05), "inertia": np.diag((0.2, 0.3, 0.4))}
    place = (np.eye(3), (0.3, -0.2, 0.1))
    builder.add_body("rail", joint="prismatic", axis=(1, 0, 0), placement=(np.eye(3), (5.0, 4.0, 0.0)), **body)
    builder.add_body("base", parent="rail", joint="spherical", placement=place, **body)
    for side in ("left", "right"):
        builder.add_body(f"{side}_ball", parent="base", joint="spherical", placement=place, **body)
        builder.add_body(side, parent=f"{side}_ball", axis=(0, 1, 0), placement=place, armature=0.2, **body)
    builder.add_body("box", joint="floating", **body)
    return builder.build()


LAWS: dict[str, tuple[Any, list[Any]]] = {
    **{
        name: (ROBOTS[name][0], [kt.Task(ROBOTS[name][1], (3,)), kt.CenterOfMassTask((5,))])
        for name in ("hand", "whip")
    },
    "rigid": (ball_joints, [kt.Task("left", (3, 4)), kt.CenterOfMassTask((5,))]),
    "rigid, in the common frame": (
        ball_joints,
        [kt.RelativeTask("box", "left", (0, 1, 4)), kt.CenterOfMassTask((3, 5)), kt.Task("right", (2, 3))],
    ),
}


def where(of: kt.Model, task: Any, q: Any) -> Any:
    """The position that a task is about, (3,)."""
    if isinstance(task, kt.CenterOfMassTask):
        return of.center_of_mass(q)
    if isinstance(task, kt.Task):
        return of.pose(q, task.frame)[:3, 3]
    near, far = of.pose(q, [task.frame_a, task.frame_b])
    return near[:3, :3].T @ (far[:3, 3] - near[:3, 3])


@pytest.mark.parametrize("name", LAWS)
def test_the_law_moves_tasks_as_wanted(name: str) -> None:
    """With its torques, joints accelerate as it says, and rows by b, whatever springs and gravity do."""
    make, wanted = LAWS[name]
    of, rng = make(), np.random.default_rng(0)
    made = of.tasks(wanted, reference=LWA)
    recursions, (q, v) = made.core.recursions, (x[0] for x in states(of))
    rows, frames = recursions.rows, len(recursions.sites)
    posture, stiffness = of.random_configuration(5), rng.uniform(0.5, 2.0, (of.nv, 2))
    target = np.tile(np.eye(4), (frames, 1, 1))
    target[:, :3, 3] = rng.uniform(-1, 1, (frames, 3))
    given = q, v, posture, stiffness, target, rng.normal(size=(rows, 2)), rng.uniform(1, 9, (rows, 2))
    step = recursions.control_step("sine", moving=True)
    tau, force, residual, _, a0, fault, a = step(*given, made.reach, np.full(rows, 1e-9))
    assert fault == 0.0
    of_reference = step.engine("reference")(*given, made.reach, np.full(rows, 1e-9))
    tolerance = bound(of.nv, condition(of.mass_matrix(q)) * float(np.linalg.cond(made.inverse_inertia(q))))
    size = float(np.abs(a).max() + np.abs(a0).max() + np.abs(residual).max())
    assert_close(of.forward_dynamics(q, v, tau), a, tolerance, size)
    assert_close(recursions.acceleration(q, v, a), recursions.acceleration(q, v, a0) + residual, tolerance, size)
    assert_close(made.inverse_inertia(q) @ force, residual, tolerance, size)
    for one, other in zip((tau, force, residual, a0, a), (of_reference[i] for i in (0, 1, 2, 4, 6)), strict=True):
        assert_close(one, other, tolerance, size + peak(other))
    # errors and velocities of the rows
    feed, gains = given[5], given[6]
    rest = recursions.residual(q, v, target, feed, gains)[0]
    drift = made.jacobian_dot_v(q, v)
    still = recursions.residual(q, np.zeros(of.nv), target, np.zeros((rows, 2)), np.ones((rows, 2)))[0]  # the error
    places = iter(target[[site.part != "near" for site in recursions.sites], :3, 3])
    ways = [next(places) - where(of, task, q) for task in made.tasks]
    chosen = [(way, row) for way, task in zip(ways, made.tasks, strict=True) for row in task.rows]
    linear = [i for i, (_, row) in enumerate(chosen) if row >= 3]
    assert_close(still[linear], np.array([chosen[i][0][chosen[i][1] - 3] for i in linear]), bound(of.nv), 10.0)
    b = feed[:, 1] + gains[:, 0] * still + gains[:, 1] * (feed[:, 0] - made.jacobian(q) @ v)
    assert_close(rest, b - drift, tolerance, size + peak(b))
    assert_close(residual, b - recursions.acceleration(q, v, a0), tolerance, size + peak(b))


METHODS = [method for method in ALGORITHMS if takes_any_node(method)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ROBOTS)
def test_methods_for_any_node(name: str, method: str) -> None:
    """Single frames, relative tasks and the centre of mass, on clusters, beams and outlets."""
    of, made = robot(name), tasks(name)
    q = states(of)[0]
    found, expected = (of.tasks(made.tasks, method=one).inverse_inertia(q) for one in (method, "definition"))
    J, M = made.jacobian(q), of.mass_matrix(q)
    tolerance = bound(of.nv, condition(M))
    assert_close(found, expected, tolerance, peak(expected))
    assert_close(found, J @ np.linalg.solve(M, np.swapaxes(J, 1, 2)), tolerance, peak(expected))


@pytest.mark.parametrize("method", METHODS)
def test_nodes_with_more_than_six_degrees_of_freedom(method: str) -> None:
    """A beam with eight modes between two bodies."""
    builder = kt.Builder("rod").add_body("hub", mass=1.0, inertia=0.1 * np.eye(3), axis=(0, 1, 0))
    builder.add_flexible("rod", kt.Beam(length=1.0, EI=50.0, rhoA=0.8, modes=4, planes="yz"), parent="hub")
    builder.add_body("tool", parent="rod/tip", mass=0.3, inertia=0.01 * np.eye(3), com=(0.1, 0.02, 0), axis=(0, 1, 0))
    of = builder.build()
    assert max(kind.nv for kind in of.mechanism.kinds) == 8
    made = of.tasks([kt.Task("tool", (2, 3, 4)), kt.RelativeTask("hub", "tool", (4, 5))], method=method)
    q = of.random_configuration(1)
    J, M = made.jacobian(q), of.mass_matrix(q)
    tolerance = bound(of.nv, condition(M))
    for engine in ("native", "reference") if method == "pv_osim" else ("reference",):
        of_engine = made.engine(engine)
        found, response = of_engine.inverse_inertia(q), of_engine.core.recursions.response(q)
        assert_close(found, J @ np.linalg.solve(M, J.T), tolerance, peak(found))
        assert_close(response, np.linalg.solve(M, J.T), tolerance, peak(response))


@pytest.mark.parametrize("method", METHODS)
def test_methods_for_nodes_of_users(method: str) -> None:
    """A cart on a track, which a floating base carries, with bodies on the cart."""
    of = on_a_track()
    made = of.tasks([*of.frames[:1], of.frames[-1]], method=method).engine("reference")
    q = of.random_configuration(1)
    J, M = made.jacobian(q), of.mass_matrix(q)
    found = made.inverse_inertia(q)
    assert_close(found, J @ np.linalg.solve(M, J.T), bound(of.nv, condition(M)), peak(found))


@algorithm(q=("q",), first=("frames",), outputs=("first",))
def mobilities(tree: Tree, q: Indexed, first: Indexed) -> None:
    """V of all nodes, the diagonal of Ω: what `chang_khatib` and `rjk` compute before any row."""
    tree.world.V = Compliance.zero()
    task_space.place(tree, q)
    for k, parent in tree.gather():
        task_space.hinge(k, parent)
    for k, parent in tree.scatter():
        k.V = mobility.beyond(parent.V, k)
    for frame, carrier in tree.frames():
        first[frame] = carrier.V.data[0]


#: Operations for a frame with three rows: `pv_osim`, `efpa`, `chang_khatib`, and mobilities alone.
OPERATIONS = {
    "hand": (3213, 4014, 13394, 6657),
    "suspended": (2973, 3741, 12642, 6561),
    "whip": (3131, 3797, 6575, 5321),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_mobilities_alone_take_more_operations_than_sums(name: str) -> None:
    """Why `rjk` is for rigid bodies only: both it and `chang_khatib` begin with the diagonal of Ω."""
    of = robot(name)
    sites = [site for site in tasks(name).core.recursions.sites if site.part == "frame"]
    texts = [*(inverse_inertia(method, "local") for method in ("pv_osim", "efpa", "chang_khatib")), mobilities]
    assert tuple(count(text, of.mechanism, sites).total for text in texts) == OPERATIONS[name]
    page = (Path(__file__).parents[2] / "docs" / "operational_space_methods.md").read_text(encoding="utf-8")
    assert " | ".join(f"{number:,}" for number in OPERATIONS[name]) in page


@pytest.mark.parametrize("method", [method for method in ALGORITHMS if method not in METHODS])
def test_methods_for_rigid_bodies_only(method: str) -> None:
    with pytest.raises(kt.errors.UnsupportedError, match=f"method '{method}' is for trees of rigid bodies"):
        robot("hand").tasks(["ball"], method=method)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("seed", range(3))
def test_views_of_rigid_bodies(seed: int, method: str) -> None:
    """Each text gives the same in own coordinates and in the common frame of the tree, whatever the joints."""
    of = random_mechanism("rigid", mixed(8, seed), seed).kinetree()
    frames = [of.bodies[-1].name, of.bodies[len(of.bodies) // 2].name, of.bodies[0].name]
    relative = kt.RelativeTask(frames[2], frames[0], (0, 4))
    made = of.tasks([kt.Task(frames[0]), relative, kt.Task(frames[1], "position"), kt.CenterOfMassTask()])
    recursions, q = made.core.recursions, of.random_configuration(seed)
    text = inverse_inertia(method, "local", recursions._parts)
    own, common = (run(one, of.mechanism, recursions.sites, [q])[0] for one in (text, in_common_frame(text)))
    expected = made.engine("reference").inverse_inertia(q)
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    for found in (own, common):
        assert_close(found, expected, tolerance, peak(expected))


def test_propagators_take_more_operations_than_sums() -> None:
    """EFPA's way outward costs more than sums at nodes on the way inward."""
    of = kt.zoo.asimo35()
    sites = [of.site(frame) for frame in ("right_hand", "left_hand", "right_foot", "left_foot")]
    sums, propagators = (count(inverse_inertia(method, "local"), of.mechanism, sites) for method in ("pv_osim", "efpa"))
    assert (sums.multiplications, sums.additions) == (9748, 8555)
    assert propagators.total > 1.1 * sums.total


def planar() -> kt.Model:
    """A four-bar, whose loop has one row more than it needs, with a pen on its coupler."""
    builder = four_bar().connect("tip", "pin").independent("crank_joint")
    return builder.add_frame("pen", body="coupler", placement=(np.eye(3), (0.4, 0.2, 0.0))).build(near=NEAR)


@pytest.mark.parametrize(
    ("make", "frame", "loops", "rank"),
    [
        (planar, "pen", [("tip", "pin")], 2),
        (lambda: built("stewart_pair"), "plate", [("a0", "b0"), ("a1", "b1")], 6),
    ],
    ids=["four-bar", "stewart pair"],
)
def test_closed_chains(make: Any, frame: str, loops: list[tuple[str, str]], rank: int) -> None:
    """[W12] §VI: Λ⁻¹ of a closed chain by embedding is that of the open tree, with loops as contacts eliminated."""
    of = make()
    q = of.neutral()
    held = of.spanning_tree.tasks([frame], contacts=[kt.RelativeTask(*ends, "position") for ends in loops])
    there = held.at(of.to_tree(q))
    assert there.contact_rank == rank
    tolerance = bound(of.nv, condition(of.spanning_tree.mass_matrix(of.to_tree(q))))
    assert_close(of.tasks([frame]).inverse_inertia(q), there.inverse_inertia, tolerance)


oracle("daqp")

BENT = np.array([0.3, -0.5, 0.9, 0.2, 0.03])


def test_operational_space_control_is_khatibs_law() -> None:
    """τ = Jᵀ(Λ (b − J̇v) + …) + Nᵀ…: the task accelerates as asked for, and the rest follows the posture."""
    robot, rng = gripper(), np.random.default_rng(1)
    q, v = BENT, 0.3 * rng.normal(size=robot.nv)
    goal = control.Goal(kt.Task("tip", "position"), kp=100.0, kd=20.0)
    arm = control.OperationalSpace(robot, [goal], posture=control.Posture(np.zeros(5), kp=9.0, kd=6.0))
    target = robot.pose(q, "tip")[:3, 3] + np.array([0.03, -0.02, 0.05])
    tau = arm(q, v, {"tip": target}).tau
    J = robot.jacobian(q, "tip", reference=LWA)[3:]
    M = robot.mass_matrix(q)
    b = 100.0 * (target - robot.pose(q, "tip")[:3, 3]) - 20.0 * J @ v
    drift = robot.jacobian_dot_v(q, v, "tip", reference=LWA)[3:]
    a0 = 9.0 * robot.difference(q, np.zeros(5)) - 6.0 * v
    assert_close(tau, khatib(M, robot.bias_forces(q, v), J, drift, b, a0)[0], 1e-9)
    many = arm(np.stack([q, q]), np.stack([v, v]), {"tip": target}).tau
    assert np.array_equal(many, np.stack([tau, tau]))


def test_differential_inverse_kinematics_is_least_squares() -> None:
    robot, q = gripper(), BENT
    ik = control.DifferentialIK(
        robot, [control.Goal("tip")], posture=np.zeros(5), limits=False, posture_weight=0.1, damping=1e-3, gain=0.7
    )
    target = robot.pose(robot.integrate(q, 0.05 * np.arange(1.0, 6.0)), "tip")
    J, e = robot.jacobian(q, "tip", reference=LWA), control.pose_error(robot.pose(q, "tip"), target, LWA)
    H = J.T @ J + (0.1**2 + 1e-3) * np.eye(5)
    step = np.linalg.solve(H, J.T @ (0.7 * e) + 0.1**2 * robot.difference(q, np.zeros(5)))
    assert_close(ik(q, {"tip": target}, dt=0.05), step / 0.05, 1e-9)
    limited = control.DifferentialIK(robot, [control.Goal("tip")], posture=np.zeros(5))
    speed = limited(q, {"tip": target}, dt=1e-3)
    assert (np.abs(speed) <= robot.velocity_limits * (1.0 + 1e-9)).all()


def test_inverse_kinematics_finds_the_pose_of_a_finger() -> None:
    robot = gripper()
    target = robot.pose(BENT, "tip")
    q, report = control.inverse_kinematics(robot, {"tip": target})
    assert report.success.all()
    assert_close(robot.pose(q, "tip"), target, 1e-5)


def test_whole_body_control_realises_its_motion() -> None:
    robot, v = gripper(), np.full(5, 0.1)
    goals = [
        control.Goal(kt.Task("tip", "position"), kp=50.0, kd=10.0),
        control.Goal(kt.CenterOfMassTask()),
    ]
    body = control.WholeBody(robot, goals, posture=control.Posture(np.zeros(5)))
    targets = {"tip": robot.pose(BENT, "tip")[:3, 3], "center_of_mass": robot.center_of_mass(BENT)}
    command = body(BENT, v, targets)
    assert_close(robot.forward_dynamics(BENT, v, command.tau), command.acceleration, 1e-8)
    assert (np.abs(command.tau) <= robot.effort_limits * (1.0 + 1e-9)).all()


def test_joint_limits_are_kept() -> None:
    """A joint that moves towards its limit brakes as k²(q_hi − q) − 2k v allows."""
    robot = gripper()
    joint = next(j for j in robot.joints if j.nq == j.nv == 1 and np.isfinite(robot.upper_limits[j.q_start]))
    q, v = BENT.copy(), np.zeros(robot.nv)
    q[joint.q_start], v[joint.v_start] = robot.upper_limits[joint.q_start] - 0.01, 0.5
    arm = control.OperationalSpace(
        robot, [kt.Task("tip", "position")], posture=control.Posture(BENT), bounds=control.Bounds(position=15.0)
    )
    beyond = q.copy()
    beyond[joint.q_start] += 0.5
    command = arm(q, v, {"tip": robot.pose(beyond, "tip")[:3, 3]})
    assert command.limited[joint.v_start]
    assert_close(command.acceleration[joint.v_start], 15.0**2 * 0.01 - 30.0 * 0.5, 1e-6)
    assert_close(robot.forward_dynamics(q, v, command.tau), command.acceleration, 1e-8)
