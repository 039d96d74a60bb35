"""Operational space and its control as they are defined, in dense NumPy: oracles for tasks of every kind.

`Composition` puts together tasks of two frames or of the centre of mass. All frames that occur are taken with six rows
in world axes at their own origin. A small matrix C(q) makes the rows that were asked for out of these, so that
J = C J₀, Λ⁻¹ = C Λ₀⁻¹ Cᵀ and M⁻¹Jᵀ = (M⁻¹J₀ᵀ) Cᵀ. C holds rotations and distances between frames, never their distance
from the world's origin (unless the reference is "world").

`Definition` is for singular tasks and for contacts. With M = L Lᵀ and Y = J L⁻ᵀ, Λ⁻¹ = Y Yᵀ. All that is decided about
directions is decided by the singular values of Y, whose rows are weighted: their squares are the eigenvalues of the
weighted Λ⁻¹, and small ones are exact to eps, not to its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.language.algorithm import algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.runtime.function import Function
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import stack
from kinetree.tasks.recursions import TaskFunction
from kinetree.tasks.state import REDUNDANT
from kinetree.tasks.task_types import AnyTask, sites_of
from tests.tolerance import Array, peak

_ALIGNED = "local_world_aligned"


@in_common_frame
@algorithm(
    q=("q",),
    rotation=("frames", 3, 3),
    position=("frames", 3),
    origin=("frames", 3),
    outputs=("rotation", "position", "origin"),
)
def placements(tree: Any, q: Any, rotation: Any, position: Any, origin: Any) -> None:
    """Poses of frames in the frame of their tree, in world axes, and the place of its origin in the world."""
    for k, _ in tree.scatter():
        k.weight(q[k])

    for frame, carrier in tree.frames():
        rotation[frame] = frame.X.E.T
        position[frame] = frame.X.r
        origin[frame] = tree.pose(frame, carrier).r - frame.X.r


@in_common_frame
@algorithm(q=("q",), v=("v",), acceleration=(3,), outputs=("acceleration",))
def center_of_mass_dot_v(tree: Any, q: Any, v: Any, acceleration: Any) -> None:
    """Acceleration of the centre of mass when all joint accelerations are zero, without gravity."""
    tree.world.V = Motion.zero()
    tree.world.alpha = Motion.zero()
    tree.world.whole = np.zeros(4)

    for k, parent in tree.scatter():
        k.weight(q[k])
        own = k.H @ v[k]
        k.V = parent.V + own
        k.alpha = parent.alpha + k.V.cross(own)
        force = k.M @ k.alpha + k.V.cross(k.M @ k.V)
        k.whole = stack(k.M.mass, force.linear)

    for k, parent in tree.gather():
        parent.whole += k.whole

    acceleration[...] = tree.world.whole[1:] / tree.world.whole[0]


class Placement(NamedTuple):
    """Where m frames are: rotations to world axes, positions in their trees, origins of their trees."""

    rotation: Array
    position: Array
    origin: Array

    def distance(self, a: int, b: int) -> Array:
        """From frame a to frame b, in world axes."""
        inside: Array = self.position[..., b, :] - self.position[..., a, :]
        between: Array = self.origin[..., b, :] - self.origin[..., a, :]
        return inside + between


class Composition:
    """Rows of any tasks of a robot."""

    def __init__(self, robot: kt.Model, tasks: Sequence[str | AnyTask], reference: str = "local") -> None:
        self.robot, self.reference = robot, reference
        self.tasks = [kt.Task(task) if isinstance(task, str) else task for task in tasks]
        self.numbers: dict[kt.Task, int] = {}
        for task in self.tasks:
            for frame in _frames(task):
                self.numbers.setdefault(frame, len(self.numbers))
        self.with_mass = any(isinstance(task, kt.CenterOfMassTask) for task in self.tasks)

    def _place(self, q: Array) -> Placement:
        sites = tuple(site for frame in self.numbers for site in sites_of(frame, self.robot.site))
        return Placement(*TaskFunction("placements", self.robot.mechanism, placements, sites)(q))

    def _base(self, q: Array, v: Array | None = None) -> kt.tasks.TaskState:
        return self.robot.tasks(list(self.numbers), reference=_ALIGNED).at(q, v)

    def jacobian(self, q: Array) -> Array:
        """J = C J₀, (…, r, nv)."""
        parts = [self._base(q).jacobian] if self.numbers else []
        if self.with_mass:
            parts.append(self.robot.center_of_mass_jacobian(q))
        return self._combination(q) @ np.concatenate(parts, axis=-2)

    def response(self, q: Array) -> Array:
        """M⁻¹Jᵀ, (…, nv, r)."""
        return self.robot.mass_matrix_inverse(q) @ np.swapaxes(self.jacobian(q), -1, -2)

    def inverse_inertia(self, q: Array) -> Array:
        """Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r)."""
        return self.jacobian(q) @ self.response(q)

    def _combination(self, q: Array) -> Array:
        """C(q), (…, r, 6 m + 3)."""
        place = self._place(q) if self.numbers else None
        width = 6 * len(self.numbers)
        C = np.zeros((*q.shape[:-1], sum(len(task.rows) for task in self.tasks), width + 3 * self.with_mass))
        first = 0
        for task in self.tasks:
            rows = np.array(task.rows, dtype=int)
            part = C[..., first : first + len(rows), :]
            first += len(rows)
            if place is None or isinstance(task, kt.CenterOfMassTask):
                part[..., width:] = np.eye(6)[rows, 3:]
                continue
            numbers = [self.numbers[frame] for frame in _frames(task)]
            for number, block in zip(numbers, self._blocks(task, numbers, place), strict=True):
                part[..., 6 * number : 6 * number + 6] += block[..., rows, :]
        return C

    def _blocks(self, task: AnyTask, numbers: list[int], place: Placement) -> list[Array]:
        """What to multiply the motion of each of a task's frames with, (…, 6, 6)."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        none = np.zeros(3)
        if isinstance(task, kt.RelativeTask):
            return [-_motion_transform(R, place.distance(*numbers)), _motion_transform(R, none)]
        if self.reference == "local":
            return [_motion_transform(R, none)]
        upright = np.broadcast_to(np.eye(3), R.shape)
        if self.reference == _ALIGNED:
            return [_motion_transform(upright, none)]
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return [_motion_transform(upright, -position)]

    def drift(self, q: Array, v: Array) -> Array:
        """J̇v: the rates of the rows when joint accelerations are zero, (…, r)."""
        drifts = []
        if self.numbers:
            place, base = self._place(q), self._base(q, v)
            V = (base.jacobian @ v[..., None])[..., 0].reshape(*v.shape[:-1], -1, 6)
            A = base.jacobian_dot_v.reshape(*v.shape[:-1], -1, 6)
        for task in self.tasks:
            rows = np.array(task.rows, dtype=int)
            if isinstance(task, kt.CenterOfMassTask):
                mass = Function("center_of_mass_dot_v", self.robot.mechanism, center_of_mass_dot_v)
                drifts.append(mass(q, v)[..., rows - 3])
                continue
            numbers = [self.numbers[frame] for frame in _frames(task)]
            w, u, dw, du = V[..., numbers, :3], V[..., numbers, 3:], A[..., numbers, :3], A[..., numbers, 3:]
            drifts.append(self._drift(task, numbers, place, w, u, dw, du)[..., rows])
        return np.concatenate(drifts, axis=-1)

    def _drift(
        self, task: AnyTask, numbers: list[int], place: Placement, w: Array, u: Array, dw: Array, du: Array
    ) -> Array:
        """J̇v of one task, all six rows. In world axes: w, u velocities and dw, du accelerations of its frames."""
        R = np.swapaxes(place.rotation[..., numbers[0], :, :], -1, -2)
        w0, u0, dw0, du0 = w[..., 0, :], u[..., 0, :], dw[..., 0, :], du[..., 0, :]
        if isinstance(task, kt.RelativeTask):
            d, turn, rate = place.distance(*numbers), w[..., 1, :] - w0, u[..., 1, :] - u0
            slide = rate - np.cross(w0, d)
            angular = dw[..., 1, :] - dw0 - np.cross(w0, turn)
            linear = du[..., 1, :] - du0 - np.cross(dw0, d) - np.cross(w0, rate) - np.cross(w0, slide)
            return _joined(_turned(R, angular), _turned(R, linear))
        if self.reference == "local":
            return _joined(_turned(R, dw0), _turned(R, du0 - np.cross(w0, u0)))
        if self.reference == _ALIGNED:
            return _joined(dw0, du0)
        position = place.position[..., numbers[0], :] + place.origin[..., numbers[0], :]
        return _joined(dw0, du0 + np.cross(u0, w0) + np.cross(position, dw0))


def _frames(task: AnyTask) -> list[kt.Task]:
    """The frames that a task is made of, each with all its rows."""
    if isinstance(task, kt.Task):
        return [kt.Task(task.frame, "all", task.offset)]
    return [kt.Task(task.frame_a), kt.Task(task.frame_b)] if isinstance(task, kt.RelativeTask) else []


def _motion_transform(E: Array, r: Array) -> Array:
    """6×6 matrix that takes motions to axes E and a point at r: [[E, 0], [−E r×, E]]."""
    X = np.zeros((*E.shape[:-2], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = E
    x, y, z = np.moveaxis(np.broadcast_to(r, (*E.shape[:-2], 3)), -1, 0)
    zero = np.zeros_like(x)
    skew = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*E.shape[:-2], 3, 3)
    X[..., 3:, :3] = -E @ skew
    return X


def _turned(E: Array, vector: Array) -> Array:
    turned: Array = (E @ vector[..., None])[..., 0]
    return turned


def _joined(angular: Array, linear: Array) -> Array:
    return np.concatenate([angular, linear], axis=-1)


@dataclass(frozen=True)
class Defined:
    """What is defined at one configuration."""

    quantities: dict[str, Array]
    values: Array  # eigenvalues of the weighted Λ⁻¹, with contacts
    edge: float  # where directions begin to be singular
    contact_values: Array
    contact_edge: float  # where they begin to be redundant
    roots: Array  # square roots of the weights of rows, contacts first
    L: Array  # Cholesky factor of M

    @property
    def rank(self) -> int:
        """Directions that are not singular."""
        return int((self.values > self.edge).sum())

    @property
    def contact_rank(self) -> int:
        """Directions that contacts hold."""
        return int((self.contact_values > self.contact_edge).sum())

    def error(self, name: str, actual: Array) -> float:
        """Largest difference of a quantity, in units in which Λ⁻¹ has entries of at most one and M is the identity."""
        difference, held = actual - self.quantities[name], len(self.contact_values)
        rows, contacts = self.roots[held:], self.roots[:held]
        if name == "inverse_inertia":
            difference = difference / rows[:, None] / rows
        elif name == "inertia":
            difference = difference * rows[:, None] * rows
        elif name == "contact_inertia":
            difference = difference * contacts[:, None] * contacts
        elif name == "jacobian":
            difference = np.linalg.solve(self.L, (difference / rows[:, None]).T)
        elif name == "dynamically_consistent_inverse":
            difference = self.L.T @ difference * rows
        else:
            difference = np.linalg.solve(self.L, (self.L.T @ difference).T)
        return peak(difference)

    def tolerance(self, name: str, error: float, damped: bool) -> float:
        """How large that may be, where M⁻¹ and J are known up to an error.

        Small eigenvalues make it larger: Λ is their reciprocal, and that of the edge in damped directions. Those of
        contacts are known better than their squares.
        """
        kept = self.contact_values[self.contact_values > self.contact_edge]
        held = 1.0 / np.sqrt(kept.min(initial=1.0))
        regular = self.values > self.edge
        felt = self.edge if damped and not regular.all() else self.values[regular].min(initial=1.0)
        power = {"inertia": 2.0, "dynamically_consistent_inverse": 1.5, "nullspace": 1.0}.get(name, 0.0)
        return error * held * (held * held if name == "contact_inertia" else 1.0) / felt**power

    @property
    def ambiguous(self) -> bool:
        """Whether a direction is so close to an edge that rounding decides."""
        far = 1e-2
        return bool(
            (np.abs(self.values - self.edge) < far * self.edge).any()
            or (np.abs(self.contact_values - self.contact_edge) < far * self.contact_edge).any()
        )


class Definition:
    """The dense definition of the functions of some tasks."""

    def __init__(self, tasks: kt.tasks.Tasks) -> None:
        self.tasks, self.robot = tasks, tasks._robot.model
        self.rows = Composition(self.robot, (*tasks.contacts, *tasks.tasks), tasks.reference)

    def at(self, q: Array) -> list[Defined]:
        """All quantities at each of some configurations, (n, nq)."""
        return [self._of(M, J) for M, J in zip(self.robot.mass_matrix(q), self.rows.jacobian(q), strict=True)]

    def _of(self, M: Array, J: Array) -> Defined:
        tasks, held = self.tasks, self.tasks.held
        L = np.linalg.cholesky(M)
        Y = np.linalg.solve(L, J.T).T
        own = (Y * Y).sum(axis=1)
        groups = tasks.core.recursions.groups
        mean = np.array([own[groups == group].mean() for group in groups])
        roots = np.sqrt(mean + tasks.core.recursions.reach)
        roots[roots == 0.0] = 1.0

        U, s, V = np.linalg.svd(Y[:held] / roots[:held, None])
        contact_values = np.pad(s * s, (0, held - len(s)))
        contact_edge = REDUNDANT * max(1.0, contact_values.max(initial=0.0))
        keep = s * s > contact_edge
        V, U = V[: len(s)][keep], U[:, : len(s)][:, keep]
        free = np.eye(len(M)) - V.T @ V
        scaled = U / s[keep] / roots[:held, None]

        Y = Y[held:] @ free
        inverse = np.linalg.inv(L.T)
        U, s, _ = np.linalg.svd(Y / roots[held:, None])
        values = np.pad(s * s, (0, tasks.rows - len(s)))
        edge = tasks.cut * max(1.0, values.max())
        damped = 1.0 / np.where(values > edge, values, (values**2 + edge**2) / (2.0 * edge))
        felt = np.where((values <= edge) & (tasks.singular == "truncated"), 0.0, damped)
        turned = U / roots[held:, None]
        inertia = turned * felt @ turned.T
        consistent = inverse @ Y.T @ inertia
        contact_nullspace = inverse @ free @ L.T
        quantities = {
            "inverse_inertia": Y @ Y.T,
            "inertia": inertia,
            "jacobian": Y @ L.T,
            "dynamically_consistent_inverse": consistent,
            "nullspace": contact_nullspace - consistent @ Y @ L.T,
        }
        if held:
            quantities["contact_inertia"] = scaled @ scaled.T
            quantities["contact_nullspace"] = contact_nullspace
        return Defined(quantities, values, edge, contact_values, contact_edge, roots, L)


def khatib(M: Array, h: Array, J: Array, drift: Array, b: Array, a0: Array) -> tuple[Array, Array, float]:
    """Khatib's τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g), with h = C + g; also Λ⁻¹, and the size of what is added up."""
    inverse = J @ np.linalg.solve(M, J.T)
    force = np.linalg.solve(inverse, b - drift - J @ a0)
    terms = M @ a0, h, J.T @ force
    return sum(terms), inverse, sum(map(peak, terms))
