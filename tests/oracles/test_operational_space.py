"""Operational space, control and constrained dynamics of random trees and real robots, against Pinocchio and MuJoCo.

Λ⁻¹ by every method against Pinocchio's Delassus matrix and MuJoCo's solver; what follows from it, and the textbook's
law of control, with Pinocchio's M, C + g, J and J̇v; accelerations under constraints and their derivatives
against `constraintDynamics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.mjcf import mjcf
from kinetree import control
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.algorithms.tasks.control_law import control_law
from kinetree.language.mechanism import Site
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.definition import khatib
from tests.laws.cases import transposed
from tests.laws.test_control import luh
from tests.laws.test_control_on_trees import KD, KD0, KP, KP0, independent_tasks, state
from tests.oracles.pinocchio_twin import REFERENCES, Twin, mirrored, pin, robots, upright
from tests.oracles.test_mujoco import MECHANISMS, Pair, mujoco
from tests.oracles.test_pinocchio import make
from tests.tolerance import Array, assert_close, bound, condition, peak, solving_bound
from tests.trees import mixed, random_mechanism

POSITION = (3, 4, 5)
#: Eight tasks on each robot: tips first, then inner bodies, then second frames on the bodies of others.
TASKS = {
    "Panda": (
        *("panda_hand_tcp", "panda_leftfinger", "panda_rightfinger", "panda_link4"),
        *("panda_hand", "panda_joint2", "panda_link8", "panda_link1"),
    ),
    "ANYmal": (
        *("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
        *("base", "LF_THIGH", "face_front", "LF_SHANK"),
    ),
    "Talos": (
        *("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link"),
        *("torso_2_link", "leg_left_6_link", "imu_link", "base_link"),
    ),
    "G1": (
        *("left_rubber_hand", "right_rubber_hand", "left_ankle_roll_link", "right_ankle_roll_link"),
        *("head_link", "logo_link", "left_knee_link", "waist_yaw_link"),
    ),
}
COUNTS = (1, 2, 4, 8)


def tolerance(robot: kt.Model, q: Array) -> float:
    return bound(robot.nv, condition(robot.mass_matrix(q)))


def delassus(model: Any, q: Array, tasks: Sequence[tuple[int, bool]]) -> Array:
    """Pinocchio's matrix of contacts, angular rows first, at frames by number, of some only the position."""
    contacts = pin.StdVec_RigidConstraintModel()
    for number, position in tasks:
        frame = model.frames[number]
        kind = pin.ContactType.CONTACT_3D if position else pin.ContactType.CONTACT_6D
        contacts.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL))
    data = pin.StdVec_RigidConstraintData()
    for contact in contacts:
        data.append(contact.createData())
    matrix = np.array(pin.computeDelassusMatrix(model, model.createData(), q, contacts, data, 0.0))
    order: list[int] = []
    for _, position in tasks:
        order += [len(order) + i for i in (range(3) if position else (3, 4, 5, 0, 1, 2))]
    return matrix[np.ix_(order, order)]


@pytest.mark.parametrize("method", ALGORITHMS)
def test_pinocchio_on_a_random_tree(method: str) -> None:
    """All joint kinds that it has, six rows and three by turns, two tasks on one body, inner bodies."""
    mechanism = upright(random_mechanism("delassus", mixed(10, 42), 42, tips=3))
    robot = mechanism.kinetree()
    twin = Twin.of(mechanism, robot)
    names = ["link9", "tip0", "link4", "tip1", "link4", "link1"]
    positions = [i % 2 == 1 for i in range(len(names))]
    sites = tuple(
        replace(robot.site(name), rows=POSITION) if position else robot.site(name)
        for name, position in zip(names, positions, strict=True)
    )
    q = robots.state_pool(robot, 1, seed=3)[0][0]
    asked = [(twin.frames[name], position) for name, position in zip(names, positions, strict=True)]
    expected = delassus(twin.model, twin.order.to_q(q), asked)
    (result,) = reference.run(inverse_inertia(method, "local"), robot.mechanism, sites, [q])
    assert_close(result, expected, tolerance(robot, q))


@dataclass(frozen=True, eq=False)
class Real:
    """A robot of the benchmarks with its tasks. Floating ones have the same joint kinds, so they share kernels."""

    robot: robots.Robot
    numbers: tuple[int, ...]
    sites: tuple[Site, ...]
    q: Array

    @classmethod
    @cache
    def load(cls, name: str) -> Real:
        robot = robots.load(name)
        numbers = tuple(_number(robot.pinocchio, task) for task in TASKS[name])
        names = {number: name for name, number in robot.frames}
        sites = tuple(robot.model.site(names[number]) for number in numbers)
        return cls(robot, numbers, sites, robots.state_pool(robot.model, 2, seed=4)[0])

    def computed(self, method: str, count: int) -> Array:
        """By the library, for the first tasks."""
        sites = self.sites[:count]
        return np.asarray(bind(inverse_inertia(method, "local"), self.robot.model.mechanism, sites, method)(self.q))

    @cached_property
    def by_mujoco(self) -> Array:
        """For all tasks."""
        frames = [self.robot.pinocchio.frames[number] for number in self.numbers]
        bodies = ["world", *(part.name for part in self.robot.parts)]
        places = [(bodies[frame.parentJoint], frame.placement.homogeneous) for frame in frames]
        model = mujoco.MjModel.from_xml_string(mjcf(self.robot.name, self.robot.parts, sites=places))
        data = mujoco.MjData(model)
        # MuJoCo numbers sites body by body.
        order = sorted(range(len(frames)), key=lambda i: frames[i].parentJoint)
        results = []
        for q in self.q:
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            J = np.zeros((6 * len(frames), model.nv))
            for site, i in enumerate(order):
                linear, angular = np.zeros((2, 3, model.nv))
                mujoco.mj_jacSite(model, data, linear, angular, site)
                axes = data.site_xmat[site].reshape(3, 3).T
                J[6 * i : 6 * i + 6] = np.concatenate([axes @ angular, axes @ linear])
            results.append(solved_by_mujoco(model, data, J))
        return np.stack(results)


def _number(model: Any, name: str) -> int:
    """Of a link's frame, or of a joint's."""
    kind = pin.FrameType.BODY if model.existFrame(name, pin.FrameType.BODY) else pin.FrameType.JOINT
    return int(model.getFrameId(name, kind))


def solved_by_mujoco(model: Any, data: Any, J: Array) -> Array:
    """J M⁻¹ Jᵀ, whatever velocities MuJoCo takes for a free joint."""
    mujoco.mj_crb(model, data)
    mujoco.mj_factorM(model, data)
    solved = np.zeros_like(J)
    mujoco.mj_solveM(model, data, solved, J)
    result: Array = solved @ J.T
    return result


@cache
def by_pinocchio(real: Real, count: int) -> Array:
    """For the first tasks."""
    asked = [(number, False) for number in real.numbers[:count]]
    return np.stack([delassus(real.robot.pinocchio, real.robot.order.to_q(q), asked) for q in real.q])


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_as_described(name: str) -> None:
    """A test of the test: inner bodies, and bodies with several tasks."""
    real = Real.load(name)
    carriers = [site.node for site in real.sites]
    parents = set(real.robot.model.mechanism.parents)
    assert len(set(carriers)) < len(carriers)
    assert any(node in parents for node in carriers)
    assert any(node not in parents for node in carriers)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", TASKS)
def test_pinocchio_on_real_robots(name: str, method: str) -> None:
    real = Real.load(name)
    for count in COUNTS:
        assert_close(real.computed(method, count), by_pinocchio(real, count), tolerance(real.robot.model, real.q))


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", TASKS)
def test_mujoco_on_real_robots(name: str, method: str) -> None:
    real = Real.load(name)
    expected = real.by_mujoco
    for count in COUNTS:
        rows = slice(6 * count)
        assert_close(real.computed(method, count), expected[:, rows, rows], tolerance(real.robot.model, real.q))


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_mujoco_on_random_trees(name: str, method: str) -> None:
    pair = Pair.of(MECHANISMS[name]())
    robot, model, data = pair.robot, pair.model, pair.data
    q = robot.random_configuration(np.random.default_rng(5))
    pair.set(q, np.zeros(robot.nv))
    tasks = [link for link in (f"link{i}" for i in (0, 2, 3, 5)) if link in robot.frames]
    J = np.zeros((6 * len(tasks), robot.nv))
    for i, task in enumerate(tasks):
        body = model.body(task).id
        axes = data.xmat[body].reshape(3, 3).T
        linear, angular = np.zeros((2, 3, robot.nv))
        mujoco.mj_jacBody(model, data, linear, angular, body)
        J[6 * i : 6 * i + 6] = np.concatenate([axes @ angular, axes @ linear])
    sites = tuple(robot.site(task) for task in tasks)
    (result,) = reference.run(inverse_inertia(method, "local"), robot.mechanism, sites, [q])
    assert_close(result, solved_by_mujoco(model, data, J), tolerance(robot, q))


#: How many of the tasks of each robot; more, and some could not be followed independently.
FOLLOWED = {"Panda": 1, "ANYmal": 4, "Talos": 4, "G1": 4}
#: All rows of its feet would be more than it has degrees of freedom.
ROWS = {"ANYmal": "position"}


@dataclass(frozen=True, eq=False)
class Case:
    """A robot at three states, and what Pinocchio says of it."""

    space: kt.tasks.TaskState
    J: Array
    M_inverse: Array
    drift: Array
    bias_forces: Array
    #: Of what needs M⁻¹ alone, and of what needs Λ too, see `tests/laws/test_task_identities.py`.
    tolerance: float
    solving: float

    @classmethod
    @cache
    def of(cls, name: str, reference: str) -> Case:
        real, count = Real.load(name), FOLLOWED[name]
        robot, order, model = real.robot.model, real.robot.order, real.robot.pinocchio
        q, v, _ = robots.state_pool(robot, 3, seed=6)
        tasks = [kt.Task(site.name, ROWS.get(name, "all")) for site in real.sites[:count]]
        rows = np.concatenate([[6 * i + row for row in task.rows] for i, task in enumerate(tasks)])
        found: list[list[Array]] = [[], [], [], []]
        for one, rate in zip(q, v, strict=True):
            for into, value in zip(found, _at(model, order, one, rate, real.numbers[:count], reference), strict=True):
                into.append(value)
        J, M_inverse, drift, bias = map(np.stack, found)
        J, drift = J[:, rows], drift[:, rows]
        inertias = condition(robot.mass_matrix(q)), condition(J @ M_inverse @ transposed(J))
        space = robot.tasks(tasks, reference=reference).at(q, v)
        tolerances = bound(robot.nv, inertias[0]), bound(robot.nv, sum(inertias))
        return cls(space, J, M_inverse, drift, bias, *tolerances)


def _at(model: Any, order: Any, q: Array, v: Array, frames: tuple[int, ...], reference: str) -> tuple[Array, ...]:
    """J, M⁻¹, J̇v and C + g, in Kinetree's order."""
    data, view = model.createData(), REFERENCES[reference]
    theirs, rates = order.to_q(q), order.to_v(v)
    inverse = mirrored(pin.computeMinverse(model, data, theirs))
    pin.computeJointJacobians(model, data, theirs)
    J = [order.from_jacobian(pin.getFrameJacobian(model, data, frame, view)) for frame in frames]
    bias = order.from_tau(pin.rnea(model, data, theirs, rates, np.zeros(model.nv)))
    pin.computeJointJacobiansTimeVariation(model, data, theirs, rates)
    pin.updateFramePlacements(model, data)
    drift = [
        order.from_spatial(pin.getFrameJacobianTimeVariation(model, data, frame, view) @ rates) for frame in frames
    ]
    return np.concatenate(J), order.from_matrix(inverse), np.concatenate(drift), bias


every_case = pytest.mark.parametrize(
    ("name", "reference"), [*((name, "local") for name in TASKS), ("Talos", "local_world_aligned"), ("Talos", "world")]
)


@every_case
def test_quantities_are_those_of_pinocchio(name: str, reference: str) -> None:
    c = Case.of(name, reference)
    assert_close(c.space.jacobian, c.J, c.tolerance)
    dense = c.J @ c.M_inverse @ transposed(c.J)
    assert_close(c.space.inverse_inertia, dense, c.tolerance)
    inertia = np.linalg.inv(dense)
    assert_close(c.space.inertia, inertia, c.solving)
    consistent = c.M_inverse @ transposed(c.J) @ inertia
    assert_close(c.space.dynamically_consistent_inverse, consistent, c.solving)
    assert_close(c.space.nullspace, np.eye(c.J.shape[-1]) - consistent @ c.J, c.solving)
    assert_close(c.space.jacobian_dot_v, c.drift, c.tolerance)
    felt = (transposed(consistent) @ c.bias_forces[..., None] - inertia @ c.drift[..., None])[..., 0]
    assert_close(c.space.bias, felt, c.solving)
    assert np.all(c.space.rank == c.J.shape[-2])


@every_case
def test_identities(name: str, reference: str) -> None:
    """J J̄ = 1, N² = N, J N = 0 and J M⁻¹ Nᵀ = 0 with Pinocchio's J and M⁻¹; Λ⁻¹ symmetric and positive."""
    c = Case.of(name, reference)
    space, N, rows = c.space, c.space.nullspace, c.J.shape[-2]
    one = np.broadcast_to(np.eye(rows), (len(c.J), rows, rows))
    assert_close(c.J @ space.dynamically_consistent_inverse, one, c.solving)
    assert_close(space.inertia @ space.inverse_inertia, one, c.solving)
    assert_close(N @ N, N, c.solving)
    for zero in (c.J @ N, c.J @ c.M_inverse @ transposed(N)):
        assert_close(zero, np.zeros_like(zero), c.solving, peak(c.J @ c.M_inverse))
    assert np.array_equal(space.inverse_inertia, transposed(space.inverse_inertia))
    assert np.linalg.eigvalsh(space.inverse_inertia).min() > 0.0


@pytest.mark.parametrize("name", ["Panda"])
def test_textbook(name: str) -> None:
    real = Real.load(name)
    robot, model, order = real.robot.model, real.robot.pinocchio, real.robot.order
    frame, number = real.sites[0].name, real.numbers[0]
    q, v, _ = (x[0] for x in robots.state_pool(robot, 1, seed=9))
    rng = np.random.default_rng(1)
    posture = robot.integrate(q, 0.2 * rng.normal(size=robot.nv))
    pose = robot.pose(robot.integrate(q, 0.1 * rng.normal(size=robot.nv)), frame)
    arm = control.OperationalSpace(robot, [control.Goal(frame, kp=400.0)], posture=control.Posture(posture), cut=1e-6)
    tau = arm(q, v, {frame: pose}).tau

    data, q_, v_ = model.createData(), order.to_q(q), order.to_v(v)
    pin.computeAllTerms(model, data, q_, v_)
    pin.updateFramePlacements(model, data)
    M = mirrored(data.M)
    aligned = pin.LOCAL_WORLD_ALIGNED
    angular_first = [3, 4, 5, 0, 1, 2]
    J = pin.getFrameJacobian(model, data, number, aligned)[angular_first]
    pin.forwardKinematics(model, data, q_, v_, np.zeros(model.nv))
    drift = np.array(pin.getFrameClassicalAcceleration(model, data, number, aligned))[angular_first]
    T = data.oMf[number]
    b = 400.0 * luh(T.homogeneous, pose) - 40.0 * J @ v_
    a0 = 25.0 * pin.difference(model, q_, order.to_q(posture)) - 10.0 * v_
    expected, A, _ = khatib(M, np.array(data.nle), J, drift, b, a0)
    assert_close(order.to_v(tau), expected, bound(robot.nv, condition(M) + condition(A)))


@pytest.mark.parametrize("name", ["every kind 28", "every kind 29", "every kind, armature", "forest", "long"])
def test_textbook_on_random_trees(name: str) -> None:
    """Some rows of several frames, with everything that depends on the robot from Pinocchio."""
    pair = make(name)
    robot, twin = pair.robot, pair.twin
    posture, q, v = state(robot, 4)
    tasks = independent_tasks(robot, q)
    law = control.OperationalSpace(
        robot, [control.Goal(task, KP, KD) for task in tasks], posture=control.Posture(posture, KP0, KD0), undriven=[],
        cut=1e-9,
    )  # fmt: skip

    model, data, q_, v_ = twin.model, pair.data, twin.order.to_q(q), twin.order.to_v(v)
    aligned, angular_first = pin.LOCAL_WORLD_ALIGNED, [3, 4, 5, 0, 1, 2]
    numbers = [twin.frames[task.frame] for task in tasks]
    rows = [list(task.rows) for task in tasks]
    pin.framesForwardKinematics(model, data, twin.order.to_q(posture))
    wanted = [pin.SE3(data.oMf[i]).homogeneous for i in numbers]
    M, h = mirrored(pin.crba(model, data, q_)), np.array(pin.nonLinearEffects(model, data, q_, v_))
    pin.computeJointJacobians(model, data, q_)
    pin.forwardKinematics(model, data, q_, v_, np.zeros(model.nv))
    pin.updateFramePlacements(model, data)
    J = np.concatenate(
        [
            pin.getFrameJacobian(model, data, i, aligned)[angular_first][own]
            for i, own in zip(numbers, rows, strict=True)
        ]
    )
    drifts = [np.array(pin.getFrameClassicalAcceleration(model, data, i, aligned))[angular_first] for i in numbers]
    drift = np.concatenate([one[own] for one, own in zip(drifts, rows, strict=True)])
    errors = [luh(data.oMf[i].homogeneous, T)[own] for i, T, own in zip(numbers, wanted, rows, strict=True)]
    b = KP * np.concatenate(errors) - KD * J @ v_
    a0 = twin.order.to_v(KP0 * robot.difference(q, posture) - KD0 * v)
    expected, A, scale = khatib(M, h, J, drift, b, a0)
    assert_close(twin.order.to_v(law(q, v).tau), expected, bound(robot.nv, condition(M) + condition(A)), scale=scale)


def test_the_reference_engine_agrees() -> None:
    robot = Real.load("Panda").robot.model
    frames = [site.name for site in Real.load("Panda").sites[:2]]
    tasks = robot.tasks([frames[0]], reference="local_world_aligned")
    recursions = tasks.core.recursions
    q, v, a0 = (x[0] for x in robots.state_pool(robot, 1, seed=10))
    rng = np.random.default_rng(2)
    inputs = [q, v, a0, robot.pose(q, [frames[1]]), rng.normal(size=(6, 2)), rng.uniform(size=(6, 2)), tasks.reach]
    inputs.append(np.full(6, 1e-6))
    native = recursions.control_law(*inputs)
    plain = reference.run(control_law(tasks.method, recursions._parts), robot.mechanism, recursions.sites, inputs)
    M = robot.mass_matrix(q)
    A = tasks.inverse_inertia(q)
    for one, other in zip(native[:2], plain[:2], strict=True):
        assert_close(one, other, bound(robot.nv, condition(M) + condition(A)))


#: Frames held to the world, and pairs held to each other.
CASES: dict[str, tuple[str, list[str], list[tuple[str, str]]]] = {
    "Talos on two feet": ("Talos", ["left_sole_link", "right_sole_link"], []),
    "Talos on one foot, hands joined": (
        "Talos",
        ["left_sole_link"],
        [("gripper_left_base_link", "gripper_right_base_link")],
    ),
    "ANYmal on a foot": ("ANYmal", ["LF_FOOT"], []),
}


def constrained(
    real: Real, q: Array, v: Array, tau: Array, world: list[str], pairs: list[tuple[str, str]]
) -> tuple[Array, list[Array]]:
    """Accelerations and, of frames held to the world, their derivatives by Pinocchio, in Kinetree's coordinates."""
    model, order = real.robot.pinocchio, real.robot.order
    numbers = dict(zip(TASKS[real.robot.name], real.numbers, strict=True))
    contacts, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for name in world:
        frame = model.frames[numbers[name]]
        kind = pin.ContactType.CONTACT_6D
        contacts.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL))
    for one, other in pairs:
        a, b = (model.frames[numbers[name]] for name in (one, other))
        # held as they are: the second frame where the first one is now
        state = model.createData()
        pin.forwardKinematics(model, state, order.to_q(q))
        between = state.oMi[b.parentJoint].actInv(state.oMi[a.parentJoint] * a.placement)
        contacts.append(
            pin.RigidConstraintModel(
                pin.ContactType.CONTACT_6D, model, a.parentJoint, a.placement, b.parentJoint, between, pin.LOCAL
            )
        )
    for contact in contacts:
        data.append(contact.createData())
    state = model.createData()
    settings = pin.ProximalSettings(1e-12, 1e-12 if pairs else 0.0, 50 if pairs else 1)
    pin.initConstraintDynamics(model, state, contacts, data)
    a = pin.constraintDynamics(model, state, order.to_q(q), order.to_v(v), order.to_v(tau), contacts, data, settings)
    result: Array = order.from_v(np.array(a))
    if pairs:
        return result, []
    pin.computeConstraintDynamicsDerivatives(model, state, contacts, data, settings)
    swapped = order.from_v(np.arange(len(result), dtype=float)).astype(int)
    return result, [np.array(x)[np.ix_(swapped, swapped)] for x in (state.ddq_dq, state.ddq_dv, state.ddq_dtau)]


@pytest.mark.parametrize("case", CASES)
def test_constrained_dynamics(case: str) -> None:
    name, world, pairs = CASES[case]
    real = Real.load(name)
    robot: Any = real.robot.model
    q, v, tau = (x[0] for x in robots.state_pool(robot, 1, seed=8))
    called = {name: site.name for name, site in zip(TASKS[name], real.sites, strict=True)}
    constraints = [*(called[one] for one in world), *(kt.Weld(called[other], called[one]) for one, other in pairs)]
    held = robot.constraints(constraints, at=q)
    v = held.project_velocity(q, v)
    a, _ = robot.constrained_dynamics(q, v, tau, constraints)
    expected, derivatives = constrained(real, q, v, tau, world, pairs)
    close = solving_bound(robot, q, held.jacobian(q))
    assert_close(a, expected, close)
    for matrix, theirs in zip(held.linearize(q, v, tau), derivatives, strict=False):
        assert_close(matrix, theirs, 10.0 * close)
