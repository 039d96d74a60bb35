"""Identities of operational space: J J̄ = 1, N² = N, J M⁻¹ Nᵀ = 0, Λ ẍ + bias = F, and those with contacts.

All compare with the definition, J M⁻¹ Jᵀ with the dense M⁻¹ of `mass_matrix_inverse`, which is tested elsewhere. Λ,
J̄ and N out of one kernel are those of dense matrices; random tasks and contacts, singular or not, are those of
their dense definition (`tests/fuzz/tasks.py` hunts further); the order of tasks changes the order of results and
nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularTaskError, UnknownNameError
from kinetree.language.setup import Rows
from tests.fuzz.tasks import Problem, check, problems
from tests.laws.cases import REFERENCES, H, model, times, transposed
from tests.tolerance import EPS, Array, assert_close, bound, condition, peak, refused
from tests.trees import random_mechanism

SHAPES: tuple[tuple[int, ...], ...] = ((), (3, 3))

#: Tasks of each mechanism that it can follow, as far as random configurations go. Mechanisms with many kinds of joints
#: have few kinds of tasks, so that they share kernels.
TASKS: dict[str, tuple[Any, ...]] = {
    "one": (kt.Task("link0", (2,)),),
    "every kind": (kt.Task("link2", (1, 5)), "link5", kt.Task("link8", "position", (0.1, -0.2, 0.3))),
    "forest": (kt.Task("link7", "position"), kt.Task("link3", (3, 0)), kt.RelativeTask("link14", "link6", "position")),
    "10 km away": (
        kt.Task("link5", "position"),
        kt.Task("link2", (3, 0)),
        kt.RelativeTask("link7", "link9", "position"),
    ),
    "legged": (
        "link7",
        kt.CenterOfMassTask((3, 4)),
        kt.RelativeTask("link5", "link12", (5, 0)),
        kt.Task("link3", "orientation"),
    ),
    "humanoid24": (kt.RelativeTask("left_hand", "right_hand"), kt.CenterOfMassTask(), kt.Task("left_foot", "position")),
    "asimo35": ("left_foot", "right_foot"),
}

#: Few, because each reference is compiled; 10 km away, that of the world mixes kilometres with metres.
SEEN_FROM_ALL_REFERENCES = ("one", "legged", "humanoid24", "asimo35")


class Scene:
    """A mechanism with tasks at random states, and the definitions of what is tested."""

    def __init__(self, name: str, shape: tuple[int, ...], tasks: tuple[Any, ...], reference: str = "local") -> None:
        self.robot, self.shape, self.tasks, self.reference = model(name), shape, tasks, reference
        rng = np.random.default_rng(7)
        self.q = self.robot.random_configuration(rng, shape)
        self.v, self.tau = rng.uniform(-1.0, 1.0, (2, *shape, self.robot.nv))
        self.space = self.at(self.q)
        self.Minv = self.robot.mass_matrix_inverse(self.q)
        solving_M, solving = (condition(A) for A in (self.robot.mass_matrix(self.q), self.space.inverse_inertia))
        self.tolerance = bound(self.robot.nv, solving_M)
        #: Where Λ⁻¹ is inverted too. The worst case is the product of both, but then nothing would be left to test:
        #: rounding errors of the sweeps are not spread as the worst case would have them.
        self.solving = bound(self.robot.nv, solving_M + solving)

    def at(self, q: Array, **options: Any) -> kt.tasks.TaskState:
        return self.robot.tasks(self.tasks, reference=self.reference, **options).at(q, self.v)


@cache
def scene(name: str, shape: tuple[int, ...] = (), reference: str = "local") -> Scene:
    return Scene(name, shape, TASKS[name], reference)


every_scene = pytest.mark.parametrize(
    ("name", "shape", "reference"),
    [
        (name, shape, reference)
        for name in TASKS
        for shape in SHAPES
        for reference in REFERENCES
        if reference == "local" or (shape == () and name in SEEN_FROM_ALL_REFERENCES)
    ],
)


@every_scene
def test_inverse_inertia_is_its_definition(name: str, shape: tuple[int, ...], reference: str) -> None:
    s = scene(name, shape, reference)
    J = s.space.jacobian
    assert J.shape[:-2] == shape
    assert J.shape[-1] == s.robot.nv
    dense = J @ s.Minv @ transposed(J)
    scale = peak(np.abs(J) @ np.abs(s.Minv) @ np.abs(transposed(J)))
    assert_close(s.space.inverse_inertia, dense, s.tolerance, scale)
    assert np.all(s.space.inverse_inertia == transposed(s.space.inverse_inertia))
    least = np.linalg.eigvalsh(s.space.inverse_inertia)[..., 0]
    assert np.all(least > -s.tolerance * scale)


@every_scene
def test_identities_of_inverse_and_null_space(name: str, shape: tuple[int, ...], reference: str) -> None:
    s = scene(name, shape, reference)
    space, J = s.space, s.space.jacobian
    rows = J.shape[-2]
    assert np.all(space.rank == rows)
    N, consistent = space.nullspace, space.dynamically_consistent_inverse
    assert_close(J @ consistent, np.broadcast_to(np.eye(rows), (*shape, rows, rows)), s.solving)
    assert_close(space.inertia @ space.inverse_inertia, J @ consistent, s.solving)
    assert_close(N @ N, N, s.solving)
    zero = J @ s.Minv @ transposed(N)
    assert_close(zero, np.zeros_like(zero), s.solving, peak(J @ s.Minv))
    assert_close(consistent, s.Minv @ transposed(J) @ space.inertia, s.solving)
    assert np.all(space.inertia == transposed(space.inertia))


@every_scene
def test_the_tasks_equation_of_motion(name: str, shape: tuple[int, ...], reference: str) -> None:
    """Under τ = JᵀF + Nᵀτ₀ the tasks accelerate as if there were nothing but F: Λ ẍ + bias = F."""
    s = scene(name, shape, reference)
    space, J = s.space, s.space.jacobian
    F = np.random.default_rng(3).uniform(-1.0, 1.0, J.shape[:-1])
    tau = times(transposed(J), F) + times(transposed(space.nullspace), s.tau)
    x_rate = times(J, s.robot.forward_dynamics(s.q, s.v, tau)) + space.jacobian_dot_v
    scale = peak(space.bias, np.abs(space.inertia) @ np.abs(x_rate)[..., None])
    assert_close(times(space.inertia, x_rate) + space.bias, F, s.solving, scale)


@every_scene
def test_jacobian_rate_times_velocity(name: str, shape: tuple[int, ...], reference: str) -> None:
    """J̇v is the derivative of J along the motion, by central differences."""
    s = scene(name, shape, reference)
    step = EPS ** (1 / 3)
    ends = [s.at(s.robot.integrate(s.q, s.v, sign * step)).jacobian for sign in (1.0, -1.0)]
    expected = times(ends[0] - ends[1], s.v) / (2 * step)
    far = max(1.0, peak(s.q))  # what rounding of q is worth
    assert_close(s.space.jacobian_dot_v, expected, 300 * step**2 * far, max(1.0, peak(ends[0])))


@pytest.mark.parametrize("name", ["legged"])
def test_rows_are_those_of_jacobian(name: str) -> None:
    robot = model(name)
    q = robot.random_configuration(2, (4,))
    for reference in REFERENCES:
        space = robot.tasks(["tip0", kt.Task("tip1", (4, 0))], reference=reference).at(q)
        both = [robot.jacobian(q, "tip0", reference), robot.jacobian(q, "tip1", reference)[..., [4, 0], :]]
        assert_close(space.jacobian, np.concatenate(both, axis=-2), bound(robot.nv))


def test_an_offset_is_a_frame() -> None:
    robot = model("humanoid24")
    q = robot.random_configuration(0, (3,))
    wrist = robot.jacobian(q, "left_wrist_link")
    at_hand = robot.tasks([kt.Task("left_wrist_link", offset=(0, 0, -0.16))]).at(q)
    assert_close(at_hand.jacobian, robot.jacobian(q, "left_hand"), bound(robot.nv))
    assert not np.allclose(wrist, at_hand.jacobian, rtol=1e-13)


def test_relative_task_is_the_rate_of_the_relative_pose() -> None:
    robot = model("humanoid24")
    reference = robot.pose.engine("reference")
    rng = np.random.default_rng(5)
    q, v = robot.random_configuration(rng), rng.uniform(-1, 1, robot.nv)
    moving = reference(q + 1j * H * v, ["left_hand", "right_hand"])  # all joints are revolute
    a, b = moving
    relative = np.block([[a[:3, :3].T @ b[:3, :3], a[:3, :3].T @ (b[:3, 3] - a[:3, 3])[:, None]], [np.eye(4)[3:]]])
    rate = relative.imag / H
    turn = rate[:3, :3] @ relative.real[:3, :3].T
    expected = [turn[2, 1], turn[0, 2], turn[1, 0], *rate[:3, 3]]
    space = robot.tasks([kt.RelativeTask("left_hand", "right_hand")]).at(q)
    assert_close(space.jacobian @ v, np.array(expected), bound(robot.nv))


def test_center_of_mass_task() -> None:
    robot = model("humanoid24")
    q = robot.random_configuration(1, (2,))
    space = robot.tasks([kt.CenterOfMassTask(), "left_hand"]).at(q)
    assert_close(space.jacobian[..., :3, :], robot.center_of_mass_jacobian(q), bound(robot.nv))
    assert_close(space.jacobian[..., 3:, :], robot.jacobian(q, "left_hand"), bound(robot.nv))


def test_distance_loses_no_digits() -> None:
    """The same relative task near the world's origin and 10 km away from it."""
    from tests.trees import mixed, random_mechanism

    near = random_mechanism("near", mixed(10, 10), 10).kinetree()
    far = random_mechanism("far", mixed(10, 10), 10, base=(6e3, -8e3, 40.0)).kinetree()
    q = near.random_configuration(4, (5,))
    task = [kt.RelativeTask("link7", "link9")]
    one, other = (robot.tasks(task).at(q).inverse_inertia for robot in (near, far))
    assert_close(one, other, bound(near.nv, condition(near.mass_matrix(q))))


@pytest.mark.parametrize("method", kt.tasks.METHODS)
@pytest.mark.parametrize("name", ["legged"])
def test_methods_give_the_same(name: str, method: str) -> None:
    s = scene(name)
    tasks = [task for task in s.tasks if isinstance(task, (str, kt.Task))]
    function = s.robot.tasks(tasks, method=method).inverse_inertia
    expected = s.robot.tasks(tasks).at(s.q).inverse_inertia
    assert_close(function(s.q), expected, s.tolerance)
    assert_close(function.engine("reference")(s.q), expected, s.tolerance)


def test_batches_are_samples_side_by_side() -> None:
    for name in ("every kind", "humanoid24"):
        s = scene(name, (3, 3))
        names = (
            "inverse_inertia",
            "inertia",
            "jacobian",
            "dynamically_consistent_inverse",
            "nullspace",
            "bias",
            "rank",
        )
        for i in ((0, 0), (2, 1)):
            one = s.robot.tasks(s.tasks).at(s.q[i], s.v[i])
            for quantity in names:
                assert_close(getattr(one, quantity), getattr(s.space, quantity)[i], s.solving)
        function = s.robot.tasks(s.tasks).inertia
        home = np.empty_like(s.space.inertia)
        assert function(s.q, out=home) is home
        assert_close(home, s.space.inertia, s.solving)  # another order of pivots


# Contacts


@pytest.mark.parametrize("shape", SHAPES)
def test_contacts(shape: tuple[int, ...]) -> None:
    """[SK05]: with N_c = 1 − J̄_c J_c, everything of a task is that of J_t N_c."""
    robot = model("asimo35")
    rng = np.random.default_rng(11)
    q, (v, tau) = robot.random_configuration(rng, shape), rng.uniform(-1, 1, (2, *shape, robot.nv))
    feet, hands = ["left_foot", "right_foot"], [kt.Task("left_hand", "position"), kt.CenterOfMassTask((3,))]
    space = robot.tasks(hands, contacts=feet).at(q, v)
    Minv, held = robot.mass_matrix_inverse(q), robot.tasks(feet).at(q, v)
    free = robot.tasks(hands).at(q, v)
    solving = condition(robot.mass_matrix(q)) + condition(held.inverse_inertia)
    tolerance = bound(robot.nv, solving)
    assert_close(space.contact_nullspace, held.nullspace, tolerance)
    J = free.jacobian @ held.nullspace
    assert_close(space.jacobian, J, tolerance)
    assert_close(space.inverse_inertia, J @ Minv @ transposed(J), tolerance)
    tolerance = bound(robot.nv, solving + condition(space.inverse_inertia))
    N, rows = space.nullspace, J.shape[-2]
    assert_close(
        J @ space.dynamically_consistent_inverse, np.broadcast_to(np.eye(rows), (*shape, rows, rows)), tolerance
    )
    assert_close(N @ N, N, tolerance)
    for still in (held.jacobian @ N, free.jacobian @ N, held.jacobian @ space.dynamically_consistent_inverse):
        assert_close(still, np.zeros_like(still), tolerance)
    # The motion: contacts answer so that they do not accelerate; the task feels F and nothing of τ₀.
    F = rng.uniform(-1, 1, J.shape[:-1])
    pushed = times(transposed(J), F) + times(transposed(N), tau) - robot.bias_forces(q, v)
    a_free = times(Minv, pushed)
    answer = times(held.inertia, -(times(held.jacobian, a_free) + held.jacobian_dot_v))
    a = a_free + times(Minv @ transposed(held.jacobian), answer)
    x_rate = times(free.jacobian, a) + free.jacobian_dot_v
    scale = peak(space.bias, x_rate, answer)
    assert_close(times(space.inertia, x_rate) + space.bias, F, tolerance, scale)


def test_contacts_that_hold_a_direction_twice() -> None:
    robot = model("asimo35")
    q = robot.random_configuration(3)
    twice = ["left_foot", kt.Task("left_foot", "position", (0.1, 0.0, 0.0))]
    once = robot.tasks(["left_hand"], contacts=twice[:1]).at(q)
    again = robot.tasks(["left_hand"], contacts=twice).at(q)
    assert_close(again.inverse_inertia, once.inverse_inertia, 1e-8)
    assert_close(again.nullspace, once.nullspace, 1e-8)


def test_a_task_that_contacts_hold_has_rank_zero() -> None:
    robot = model("asimo35")
    q = robot.random_configuration(3, (4,))
    space = robot.tasks(["left_foot"], contacts=["left_foot"], singular="truncated").at(q)
    assert np.all(space.rank == 0)
    assert np.all(space.inertia == 0.0)


#: Rows of frames only, so that one kernel has it all.
FRAMES: dict[str, tuple[Any, ...]] = {
    **{name: tuple(task for task in tasks if isinstance(task, (str, kt.Task))) for name, tasks in TASKS.items()},
    "forest": (kt.Task("link7", "position"), kt.Task("link3", (1, 5)), "link14"),
    "10 km away": (kt.Task("link2", (1, 5)), kt.Task("link7", "position"), "link9"),
    "legged": ("link7", kt.Task("link12", "orientation"), kt.Task("link5", (3, 0))),
    "humanoid24": ("right_hand", "left_hand", kt.Task("left_foot", "position"), kt.Task("waist_yaw_link", (4, 2))),
    "asimo35": ("right_foot", "left_hand", kt.Task("head", (1,)), "left_foot"),
}
QUANTITIES = ("inertia", "dynamically_consistent_inverse", "nullspace")


def frames_of(name: str, shape: tuple[int, ...] = ()) -> Scene:
    return Scene(name, shape, FRAMES[name])


def dense(s: Scene) -> tuple[Any, Any, Any]:
    """Λ as another recursion and another order of pivots give it; J̄ and N from it by their definitions."""
    inertia, J = s.space.inertia, s.space.jacobian
    consistent = s.Minv @ transposed(J) @ inertia
    return inertia, consistent, np.eye(s.robot.nv) - consistent @ J


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FRAMES)
def test_same_as_dense_matrices(name: str, shape: tuple[int, ...]) -> None:
    s = frames_of(name, shape)
    results = s.robot.tasks(s.tasks).dynamics(s.q)
    assert results._fields == QUANTITIES
    for result, expected in zip(results, dense(s), strict=True):
        assert_close(result, expected, s.solving)
    assert np.all(results.inertia == transposed(results.inertia))
    assert_close(s.robot.tasks(s.tasks).inertia(s.q), s.space.inertia, s.solving)


@pytest.mark.parametrize("name", ["every kind", "humanoid24"])
def test_engines_and_lanes_agree(name: str) -> None:
    s = frames_of(name, (19,))
    for function in (s.robot.tasks(s.tasks).dynamics, s.robot.tasks(s.tasks).inertia):
        whole = function(s.q)
        whole = whole if isinstance(whole, tuple) else (whole,)
        for i in (0, 18):
            one, interpreted = function(s.q[i]), function.engine("reference")(s.q[i])
            for a, b, c in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, interpreted)), whole, strict=True):
                assert np.array_equal(a, c[i])  # the same bits, alone or in a batch
                assert_close(b, a, s.solving)


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_inertia_by_every_method(method: str) -> None:
    s = frames_of("every kind")
    assert_close(s.robot.tasks(s.tasks, method=method).inertia(s.q), s.space.inertia, s.solving)


@pytest.mark.parametrize("name", ["humanoid24", "legged"])
def test_relative_tasks_and_the_center_of_mass(name: str) -> None:
    s = scene(name, (3, 3))
    results = s.robot.tasks(s.tasks).dynamics(s.q)
    homes = tuple(np.empty_like(result) for result in results)
    given = s.robot.tasks(s.tasks).dynamics(s.q, out=homes)
    for home, result, expected in zip(given, results, dense(s), strict=True):
        assert_close(result, expected, s.solving)
        assert np.array_equal(home, result)


def test_results_go_where_they_are_wanted() -> None:
    s = frames_of("humanoid24", (5,))
    function = s.robot.tasks(s.tasks).dynamics
    expected = function(s.q)
    homes = tuple(np.empty((5, *result.shape[1:][::-1])).swapaxes(-1, -2) for result in expected)
    given = function(s.q, out=homes)
    for home, result, wanted in zip(homes, given, expected, strict=True):
        assert result is home
        assert np.array_equal(home, wanted)
    refused(r"dynamics: out \(dynamically_consistent_inverse\)", function, s.q, out=(homes[0], homes[0], homes[2]))


def singular_batch() -> tuple[kt.Model, Any, list[Any]]:
    """The third of five samples stretches a leg, the last is not a number."""
    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(0, (5,))
    q[2], q[4] = robot.neutral(), np.nan
    return robot, q, ["left_foot", "left_hand"]


@pytest.mark.parametrize("policy", ["damped", "truncated"])
def test_singular_samples_keep_to_themselves(policy: str) -> None:
    robot, q, tasks = singular_batch()
    space = robot.tasks(tasks, singular=policy).at(q)
    assert space.rank[2] < 12
    solving = bound(robot.nv, condition(robot.mass_matrix(q[:2]))) * np.max(np.linalg.cond(space.inverse_inertia[:2]))
    function = robot.tasks(tasks, singular=policy).dynamics
    results = function(q)
    for result, quantity in zip(results, QUANTITIES, strict=True):
        expected = getattr(space, quantity)
        assert np.array_equal(result[2], expected[2])
        assert np.all(np.isnan(result[4]))
        assert np.all(np.isfinite(result[:4]))
        assert_close(result[:2], expected[:2], solving)
    alone = robot.tasks(tasks, singular=policy).at(q[2])
    for result, quantity in zip(function(q[2]), QUANTITIES, strict=True):
        assert np.array_equal(result, getattr(alone, quantity))
    assert np.array_equal(robot.tasks(tasks, singular=policy).inertia(q)[2], space.inertia[2])


def test_refused_samples_are_named() -> None:
    robot, q, tasks = singular_batch()
    for function in (robot.tasks(tasks, singular="raise").dynamics, robot.tasks(tasks, singular="raise").inertia):
        raised = refused(r"samples \(2,\)", function, q, error=SingularTaskError)
        assert raised.samples == ((2,),)
        function(q[:2])


def test_compiled_and_counted() -> None:
    s = frames_of("humanoid24")
    for function in (s.robot.tasks(s.tasks).dynamics, s.robot.tasks(s.tasks).inertia):
        function.compile()
        assert (
            function.count().multiplications
            > s.robot.tasks(s.tasks, method="pv_osim").inverse_inertia.count().additions
        )
    refused("engine", s.robot.tasks(s.tasks).inertia.engine, "none", error=UnknownNameError)
    refused("policy", s.robot.tasks, s.tasks, singular="ignored", error=UnknownNameError)


ROBOT = random_mechanism("tree", ["floating", *["revolute"] * 13], 0, branching=0.5).kinetree()
TOPOLOGY = ROBOT.mechanism.topology
BODIES = {ROBOT.site(body.name).node: body.name for body in ROBOT.bodies}


def outward(backwards: bool) -> list[int]:
    """Nodes, each before those that it carries, with siblings in order or backwards."""
    ordered: list[int] = []
    waiting = [k for k in range(len(TOPOLOGY)) if ROBOT.mechanism.parents[k] < 0]
    while waiting:
        k = waiting.pop(0)
        ordered.append(k)
        children = list(TOPOLOGY.children[k])
        waiting = (children[::-1] if backwards else children) + waiting
    return ordered


def tasks_in(nodes: list[int]) -> list[Any]:
    """A task on every second node, two on every sixth, with six rows or three."""
    tasks: list[Any] = []
    for k in nodes:
        if k % 2 == 0:
            tasks.append(kt.Task(BODIES[k], "all" if k % 4 else "position"))
        if k % 6 == 0:
            tasks.append(kt.Task(BODIES[k], "orientation", (0.1, 0.2, 0.3)))
    return tasks


ORDERS = {
    "as numbered": tasks_in(outward(False)),
    "siblings backwards": tasks_in(outward(True)),
    "tips first": tasks_in(outward(False)[::-1]),
    "mixed": [tasks_in(outward(False))[i] for i in np.random.default_rng(0).permutation(len(tasks_in(outward(False))))],
}


def sites(tasks: list[Any]) -> tuple[Any, ...]:
    return ROBOT.tasks(tasks).core.recursions.sites


def places(tasks: list[Any]) -> list[int]:
    """Where the rows of tasks are among those of the first order."""
    first = ORDERS["as numbered"]
    starts = np.cumsum([0, *(len(task.rows) for task in first)])
    return [starts[first.index(task)] + i for task in tasks for i in range(len(task.rows))]


def test_which_orders_are_kept() -> None:
    assert any(len(children) > 1 for children in TOPOLOGY.children)
    kept = {name: Rows(ROBOT.mechanism, sites(tasks)).in_order for name, tasks in ORDERS.items()}
    assert kept == {"as numbered": True, "siblings backwards": True, "tips first": False, "mixed": False}
    assert ORDERS["siblings backwards"] != ORDERS["as numbered"]


@cache
def by_definition() -> tuple[Any, Any, float]:
    """Configurations, Λ⁻¹ of the mixed order at the first one, and how far from it a right result may be."""
    q = ROBOT.random_configuration(1, (9,))
    expected = ROBOT.tasks(ORDERS["mixed"], method="definition").inverse_inertia.engine("reference")(q[0])
    return q, expected, bound(ROBOT.nv, condition(ROBOT.mass_matrix(q)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_inverse_inertia(method: str, order: str) -> None:
    q, expected, tolerance = by_definition()
    back = np.argsort(places(ORDERS["mixed"]))
    rows = back[places(ORDERS[order])]
    function = ROBOT.tasks(ORDERS[order], method=method).inverse_inertia
    result = function(q)
    assert_close(result[0], expected[np.ix_(rows, rows)], tolerance)
    assert np.array_equal(function(q[0]), result[0])
    assert_close(function.engine("reference")(q[8]), result[8], tolerance)


@pytest.mark.parametrize("order", ORDERS)
def test_other_quantities(order: str) -> None:
    tasks = [task for task in ORDERS[order] if task.frame in (BODIES[4], BODIES[8], BODIES[10])]
    same = [task for task in ORDERS["mixed"] if task in tasks]
    q, v = ROBOT.random_configuration(2), np.random.default_rng(2).uniform(-1, 1, ROBOT.nv)
    space, other = ROBOT.tasks(tasks).at(q, v), ROBOT.tasks(same).at(q, v)
    starts = dict(zip(same, np.cumsum([0, *(len(task.rows) for task in same)]), strict=False))
    rows = [starts[task] + i for task in tasks for i in range(len(task.rows))]
    assert space.rank == len(rows)
    tolerance = bound(ROBOT.nv, condition(ROBOT.mass_matrix(q))) * float(np.linalg.cond(space.inverse_inertia))
    assert_close(space.jacobian, other.jacobian[rows], bound(ROBOT.nv))
    assert_close(space.jacobian_dot_v, other.jacobian_dot_v[rows], bound(ROBOT.nv))
    assert_close(space.inertia, other.inertia[np.ix_(rows, rows)], tolerance)
    assert_close(space.dynamically_consistent_inverse, other.dynamically_consistent_inverse[:, rows], tolerance)
    assert_close(space.nullspace, other.nullspace, tolerance)


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_the_centre_of_mass_may_come_last(method: str) -> None:
    frames = [task for task in ORDERS["as numbered"] if task.frame in (BODIES[4], BODIES[10])]
    q = ROBOT.random_configuration(3)
    first = ROBOT.tasks([kt.CenterOfMassTask(), *frames], method="definition").inverse_inertia.engine("reference")(q)
    last = ROBOT.tasks([*frames, kt.CenterOfMassTask()], method=method).inverse_inertia(q)
    assert_close(np.roll(last, 3, (0, 1)), first, bound(ROBOT.nv, condition(ROBOT.mass_matrix(q))))


def found(seed: int) -> Problem:
    return next(problems(seed))


@pytest.mark.parametrize("seed", [0, 1, 4, 8, 14, 16])
def test_tasks_and_contacts_are_those_of_the_definition(seed: int) -> None:
    counts, wrong = check(found(seed), 60)
    assert not wrong, wrong[:3]
    assert counts["cases"] == 60
    assert counts["ambiguous"] <= 6


def test_contacts_that_are_dependent_and_nearly_so_at_once() -> None:
    """Four rows of contacts, of rank three, whose third direction has an eigenvalue of 3e-8.

    Taken from J M⁻¹ Jᵀ alone, its eigenvector would be mixed with the direction that nothing moves by eps/3e-8.
    """
    counts, wrong = check(found(1012), 5000, only=[513, 4509])
    assert not wrong
    assert counts["redundant contacts"] == 2
    assert counts["worst contact_inertia"] < 50_000, "more than a twentieth of the tolerance"
