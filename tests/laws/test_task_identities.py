"""Identities of operational space: J J̄ = 1, N² = N, J M⁻¹ Nᵀ = 0, Λ ẍ + bias = F, and those with contacts.

All compare with the definition, J M⁻¹ Jᵀ with the dense M⁻¹ of `mass_matrix_inverse`, which is tested elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.laws.cases import Array, model
from tests.laws.test_dynamics import H, peak
from tests.tolerance import EPS, assert_close, bound, condition

REFERENCES = ("local", "world", "local_world_aligned")
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


def transposed(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def times(matrix: Array, vector: Array) -> Array:
    return (matrix @ vector[..., None])[..., 0]


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
