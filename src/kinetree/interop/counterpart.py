"""Conversion of a robot's coordinates, vectors and matrices to and from another library.

Other libraries have a tree in which every joint has coordinates of its own. Neither library is imported here.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.model.coordinates import checked, numbers
from kinetree.model.joint import Joint
from kinetree.model.model import Model
from kinetree.runtime.arguments import require_shape
from kinetree.spatial.reproducible import product
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Codec:
    """A joint whose coordinates differ from the other library's only in their order."""

    kind: str  # Kinetree's kind of joint
    columns: tuple[int, ...]  # for each of the other library's velocities, the index of the same one in Kinetree
    order: tuple[int, ...]  # for each of the other library's coordinates, the index of the same one in Kinetree
    # whether the other library's first three velocities are linear in world axes instead of body axes
    world_linear: bool = False

    @property
    def nq(self) -> int:
        """Number of coordinates in the other library."""
        return len(self.order)

    def to_q(self, q: Array) -> Array:
        """Kinetree's coordinates in the other library's representation."""
        return q[..., list(self.order)]

    def from_q(self, q: Array) -> Array:
        """The other library's coordinates in Kinetree's representation."""
        return q[..., list(np.argsort(self.order))]


@dataclass(frozen=True)
class CosineSine(Codec):
    """A joint whose last coordinate is an angle [rad], which the other library represents by its cosine and sine.

    Angles are converted back to ±π; the number of turns is lost.
    """

    @property
    def nq(self) -> int:
        return len(self.order) + 1

    def to_q(self, q: Array) -> Array:
        return np.concatenate([q[..., :-1], np.cos(q[..., -1:]), np.sin(q[..., -1:])], axis=-1)

    def from_q(self, q: Array) -> Array:
        return np.concatenate([q[..., :-2], np.arctan2(q[..., -1:], q[..., -2:-1])], axis=-1)


def same(kind: str, nv: int) -> Codec:
    """A joint with the same representation in both libraries and nq = nv."""
    places = tuple(range(nv))
    return Codec(kind, places, places)


class OpenTree:
    """Coordinates of a robot's spanning tree, in its order; those of the robot if no joint depends on others."""

    def __init__(self, robot: Model) -> None:
        self._same = not robot.joint_constraints
        self.robot, self.tree = robot, robot if self._same else robot.spanning_tree
        q: list[int] = []  # for each coordinate of the robot, its index in the tree
        v: list[int] = []  # and for each velocity
        for joint in robot.joints:
            there = self.tree.joint(joint.name)
            q += range(there.q_start, there.q_start + joint.nq)
            v += [there.v_start + i for i in joint.independent or range(joint.nv)]
        self._q, self._v = (np.array(places, dtype=np.intp) for places in (q, v))

    def q(self, q: Any) -> Array:
        """Configurations of the tree, (…, nq of the tree)."""
        q = checked("q", q, self.robot.nq, real=True)
        return q if self._same else self.robot.to_tree(q)

    def v(self, v: Any, q: Any) -> Array:
        """Velocities of the tree."""
        v = checked("v", v, self.robot.nv)
        return v if self._same else self.robot.to_tree(self._needed("q", q), v)[1]

    def v_or_none(self, v: Any, q: Any) -> Array | None:
        """The same, if there is a velocity."""
        return None if v is None else self.v(v, q)

    def a(self, a: Any, v: Any, q: Any) -> Array:
        """Accelerations of the tree."""
        a = checked("a", a, self.robot.nv)
        return a if self._same else self.robot.to_tree(self._needed("q", q), self._needed("v", v), a)[2]

    def tau(self, tau: Any) -> Array:
        """Forces on the tree's joints that act like given ones: those of independent joints."""
        own: Array = checked("tau", tau, self.robot.nv)
        if self._same:
            return own
        every = np.zeros((*own.shape[:-1], self.tree.nv), dtype=own.dtype)
        every[..., self._v] = own
        return every

    def own_q(self, q: Array) -> Array:
        """The robot's part of a configuration of the tree. It is not closed: where loops are open, they stay so."""
        return q if self._same else q[..., self._q]

    def own_v(self, v: Array) -> Array:
        """Velocities or accelerations of the robot's independent joints."""
        return v if self._same else v[..., self._v]

    def own_tau(self, tau: Array, q: Any) -> Array:
        """The robot's forces that act like forces on all joints of the tree."""
        found: Array = tau if self._same else self.own_columns(tau[..., None, :], q)[..., 0, :]
        return found

    def own_columns(self, rows: Array, q: Any) -> Array:
        """Rows per velocity of the tree as rows per velocity of the robot, X G, (…, r, nv)."""
        if self._same:
            return rows
        G = self.robot.coupling(self._needed("q", q))[..., self.robot.tree_order, :]
        return product(rows, G)

    def require_same(self, what: str) -> None:
        """Raise if joints depend on others."""
        if not self._same:
            raise UnsupportedError(
                f"{what} of {self.robot.name!r} do not determine those of all its joints, of which some depend on "
                f"others: {self.robot.joint_constraints[0]}. Convert those of robot.spanning_tree, with G = "
                "robot.coupling(q)[robot.tree_order], M = Gᵀ M_tree G and J = J_tree G"
            )

    def _needed(self, name: str, given: Any) -> Any:
        if given is None:
            raise InputError(
                f"joints of {self.robot.name!r} depend on others, so converting needs the state: pass {name}="
            )
        return given


# both libraries put the linear part of twists, wrenches and Jacobians first
_SWAPPED = [3, 4, 5, 0, 1, 2]


class CoordinatePlace(NamedTuple):
    """The position and representation of a joint's coordinates in the other library."""

    q: int  # index of its first coordinate in the configuration
    v: int  # index of its first component in the velocity
    codec: Codec


class Counterpart(ABC):
    """Converts between a robot and another library's model of it. Leading axes are batch axes.

    `to_…` converts from Kinetree to the other library, `from_…` converts back. Additional arguments `q` and `v` are
    always Kinetree's. They are needed only if the other library's velocities are not a permutation of Kinetree's, as
    for MuJoCo's free joints.

    The other library has coordinates for all joints. If joints of the robot depend on others, through couplings or
    loops, `to_q`, `to_v` and `to_a` give those of all joints, and `from_q`, `from_v` and `from_a` read those that the
    robot's have; `to_tau` puts forces on the independent joints, and `from_tau` gives forces that act like those of
    all joints. These conversions need q, and that of accelerations v.

    Attributes:
        robot: Kinetree's model.
        nq: Number of coordinates in the other library's configuration.
        nv: Number of its velocities.
    """

    #: The other library, for messages.
    library: str

    def __init__(self, robot: Model, nq: int, places: Mapping[str, CoordinatePlace]) -> None:
        # places of all moving joints, by name in Kinetree
        self._open = OpenTree(robot)
        tree = self._open.tree
        self.robot, self.nq, self.nv = robot, nq, tree.nv
        self._groups = _grouped(tree.joints, places)
        columns = np.empty(tree.nv, dtype=np.intp)  # for each of their velocities, the index of ours
        for joint in tree.joints:
            place = places[joint.name]
            columns[place.v : place.v + joint.nv] = joint.v_start + np.array(place.codec.columns)
        self._columns, self._back = columns, np.argsort(columns)
        self._turning = [
            (joint, places[joint.name].v) for joint in tree.joints if places[joint.name].codec.world_linear
        ]

    # -- configurations -----------------------------------------------------------------------------------------------

    def to_q(self, q: Any) -> Array:
        """Configurations, (…, nq), in the other library's coordinates, (…, their nq)."""
        q = self._open.q(q)
        result = np.empty((*q.shape[:-1], self.nq), dtype=q.dtype)
        for codec, ours, theirs in self._groups:
            result[..., theirs] = codec.to_q(q[..., ours])
        return result

    def from_q(self, q: Any) -> Array:
        """The other library's configurations, (…, their nq), in Kinetree's coordinates, (…, nq)."""
        q = checked(f"{self.library}'s q", q, self.nq, real=True)
        result = np.empty((*q.shape[:-1], self._open.tree.nq), dtype=q.dtype)
        for codec, ours, theirs in self._groups:
            result[..., ours] = codec.from_q(q[..., theirs])
        return self._open.own_q(result)

    # -- vectors over degrees of freedom ------------------------------------------------------------------------------

    def to_v(self, v: Any, q: Any = None) -> Array:
        """Velocities, (…, nv), in the other library's order and axes."""
        return self._to(self._open.v(v, q), q)

    def from_v(self, v: Any, q: Any = None) -> Array:
        """The other library's velocities, (…, nv), in Kinetree's order and axes."""
        return self._open.own_v(self._from(checked(f"{self.library}'s v", v, self.nv), q))

    def to_tau(self, tau: Any, q: Any = None) -> Array:
        """Joint forces, (…, nv), in the other library's order and axes."""
        return self._to(self._open.tau(tau), q)

    def from_tau(self, tau: Any, q: Any = None) -> Array:
        """The other library's joint forces, (…, nv), in Kinetree's order and axes."""
        every = self._from(checked(f"{self.library}'s tau", tau, self.nv), q)
        return self._open.own_tau(every, q)

    def to_a(self, a: Any, v: Any = None, q: Any = None) -> Array:
        """Accelerations, (…, nv), converted to the rates of change of the other library's velocities."""
        drift = self._drift(self._open.v_or_none(v, q))
        return self._to(self._open.a(a, v, q) + drift, q)

    def from_a(self, a: Any, v: Any = None, q: Any = None) -> Array:
        """The other library's accelerations, (…, nv), converted to the rates of change of Kinetree's velocities."""
        every = self._from(checked(f"{self.library}'s a", a, self.nv), q)
        return self._open.own_v(every - self._drift(self._open.v_or_none(v, q) if self._turning else None))

    def bias_forces(self, q: Any, v: Any) -> Array:
        """The other library's bias forces, (…, nv): its joint forces at zero acceleration of its coordinates.

        If both libraries' accelerations differ only in order, this equals `to_tau(robot.bias_forces(q, v))`.
        """
        at, rates = self._open.q(q), self._open.v(v, q)
        return self._to(self._open.tree.inverse_dynamics(at, rates, -self._drift(rates) + np.zeros(self.nv)), q)

    # -- matrices -----------------------------------------------------------------------------------------------------

    def to_matrix(self, matrix: Any, q: Any = None) -> Array:
        """Mass matrices or their inverses, (…, nv, nv), in the other library's order and axes."""
        self._open.require_same("mass matrices")
        return self._on_both_sides(self._to, "matrix", matrix, q)

    def from_matrix(self, matrix: Any, q: Any = None) -> Array:
        """The other library's mass matrices or their inverses, (…, nv, nv), in Kinetree's order and axes."""
        self._open.require_same("mass matrices")
        return self._on_both_sides(self._from, f"{self.library}'s matrix", matrix, q)

    def _on_both_sides(self, change: Callable[..., Array], name: str, matrix: Any, q: Any) -> Array:
        half = change(_of_shape(name, matrix, (self.nv, self.nv)), q, rows=True)
        return np.asarray(np.swapaxes(change(np.swapaxes(half, -1, -2), q, rows=True), -1, -2))

    def to_jacobian(self, jacobian: Any, q: Any = None) -> Array:
        """Jacobians of frames, (…, 6, nv), with the other library's columns, linear rows first."""
        self._open.require_same("Jacobians")
        return self._to(_of_shape("jacobian", jacobian, (6, self.nv))[..., _SWAPPED, :], q, rows=True)

    def from_jacobian(self, jacobian: Any, q: Any = None) -> Array:
        """The other library's Jacobians, (…, 6, nv), linear rows first, in Kinetree's order, angular rows first."""
        theirs = _of_shape(f"{self.library}'s jacobian", jacobian, (6, self.nv))
        every = self._from(theirs, q, rows=True)[..., _SWAPPED, :]
        return self._open.own_columns(every, q)

    @staticmethod
    def to_spatial(x: Any) -> Array:
        """Twists or wrenches, (…, 6), with the linear part first."""
        return checked("spatial vector", x, 6)[..., _SWAPPED]

    @staticmethod
    def from_spatial(x: Any) -> Array:
        """Twists or wrenches with the linear part first, (…, 6), with the angular part first."""
        return Counterpart.to_spatial(x)

    # -- frames -------------------------------------------------------------------------------------------------------

    #: What the other library calls the frames that both models have, in Kinetree's order.
    _named: Mapping[str, Any]

    @property
    def frames(self) -> tuple[str, ...]:
        """Frames that both models have, in Kinetree's order."""
        return tuple(self._named)

    @abstractmethod
    def read_poses(self, data: Any, frames: Sequence[str] | None = None) -> Array:
        """Poses of frames in the world as computed by the other library, (m, 4, 4).

        Args:
            data: The other library's data, updated by the caller.
            frames: Names of frames; by default `frames`.
        """

    def _chosen(self, frames: Any) -> tuple[str, ...]:
        """The given names of frames, or all of them."""
        if frames is None:
            return self.frames
        if isinstance(frames, str) or not isinstance(frames, (Sequence, np.ndarray)) or np.ndim(frames) != 1:
            raise InputError(f"frames is {type(frames).__name__}; pass a list of names")
        return tuple(frames)

    def _known(self, frame: str) -> Any:
        """What the other library calls a frame."""
        if not isinstance(frame, str) or frame not in self._named:
            raise UnknownNameError(f"frame of both Kinetree's robot and {self.library}'s model", frame, self.frames)
        return self._named[frame]

    # -- change of basis v = T v′: a permutation, and a rotation of the linear part of free joints --------------------

    def _to(self, x: Array, q: Any, rows: bool = False) -> Array:
        """Tᵀ x, along the last axis; x may have an axis for the rows of a matrix."""
        result: Array = x[..., self._columns]
        for joint, start, R in self._rotations(q, rows):
            result = _with(result, start, product(R, x[..., joint.v_start + 3 : joint.v_start + 6, None]))
        return result

    def _from(self, x: Array, q: Any, rows: bool = False) -> Array:
        """T x, along the last axis."""
        result: Array = x[..., self._back]
        for joint, start, R in self._rotations(q, rows):
            result = _with(result, joint.v_start + 3, product(np.swapaxes(R, -1, -2), x[..., start : start + 3, None]))
        return result

    def _rotations(self, q: Any, rows: bool) -> list[tuple[Joint, int, Array]]:
        """Each joint with linear velocity in world axes there, with its index there and its rotation."""
        q = None if q is None else self._open.q(q)
        if not self._turning:
            return []
        if q is None:
            raise InputError(
                f"{self.library} expresses the linear velocity of free joints in world axes, so converting it needs "
                "the configuration: pass q="
            )
        q = q[..., None, :] if rows else q
        with np.errstate(all="ignore"):
            return [
                (joint, start, matrix_of(q[..., joint.q_start + 3 : joint.q_start + 7]))
                for joint, start in self._turning
            ]

    def _drift(self, v: Any) -> Array:
        """ω × v of joints with linear velocity in world axes there, else zero: a − T a′ = −ω × v."""
        if not self._turning:
            return np.zeros(self.nv)
        if v is None:
            raise InputError(
                f"{self.library} expresses the linear acceleration of free joints in world axes, so converting it "
                "needs the velocity: pass v="
            )
        drift = np.zeros_like(v)
        for joint, _ in self._turning:
            own = v[..., joint.v_slice]
            drift[..., joint.v_start + 3 : joint.v_start + 6] = np.cross(own[..., :3], own[..., 3:])
        return np.asarray(drift)


def matched(
    robot: Model,
    theirs: Mapping[str, tuple[str, ...]],
    joints: Mapping[str, str] | None,
    library: str,
) -> dict[str, str]:
    """The other library's joint for each moving joint of the robot, one to one.

    `theirs` has the kinds that each of its joints can have here, `joints` its names of joints with other names there.
    """
    given = dict(joints or {})
    ours = tuple(joint.name for joint in robot.joints)
    for name in given:
        if name not in ours:
            raise UnknownNameError("moving joint", name, ours)
    pairs = {name: given.get(name, name) for name in ours if given.get(name, name) in theirs}
    # libraries name the joint of a floating base differently
    left = [joint for joint in robot.joints if joint.name not in pairs and joint.name not in given]
    rest = [name for name in theirs if name not in pairs.values()]
    free = [name for name in rest if "floating" in theirs[name]]
    if len(free) == 1 and [joint.kind for joint in left].count("floating") == 1:
        pairs[next(joint.name for joint in left if joint.kind == "floating")] = free[0]
    missing = [name for name in ours if name not in pairs]
    spare = [name for name in theirs if name not in pairs.values()]
    if missing or spare:
        raise InputError(
            f"not the same robot: joints without a counterpart are {_listed(missing)} of {robot.name!r} and "
            f"{_listed(spare)} of {library}'s model. Give joints={{'name here': 'name there'}}, or lock with reduced()"
        )
    for name, other in pairs.items():
        if robot.joint(name).kind not in theirs[other]:
            raise InputError(
                f"joint {name!r} is {robot.joint(name).kind}, but joint {other!r} of {library}'s model is "
                f"{' or '.join(theirs[other])}"
            )
    return pairs


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "") if names else "none"


def _grouped(joints: Sequence[Joint], places: Mapping[str, CoordinatePlace]) -> list[tuple[Codec, Array, Array]]:
    """Joints grouped by codec, with the indices of their coordinates here and there, (count, nq) each."""
    groups: dict[Codec, list[Joint]] = {}
    for joint in joints:
        groups.setdefault(places[joint.name].codec, []).append(joint)
    return [
        (
            codec,
            np.array([np.arange(joint.nq) + joint.q_start for joint in members]),
            np.array([np.arange(codec.nq) + places[joint.name].q for joint in members]),
        )
        for codec, members in groups.items()
    ]


def _with(x: Array, start: int, part: Array) -> Array:
    """A copy of x, broadcast if needed, with three entries of its last axis replaced by a column."""
    batch = np.broadcast_shapes(x.shape[:-1], part.shape[:-2])
    result = np.array(np.broadcast_to(x, (*batch, x.shape[-1])))
    result[..., start : start + 3] = part[..., 0]
    return result


def _of_shape(name: str, matrix: Any, core: tuple[int, int]) -> Array:
    array = numbers(name, matrix)
    require_shape(name, array.shape, core)
    return array


def reserved(name: str, taken: set[str]) -> str:
    """A name that is not taken, with a number as suffix if necessary; it is from now on."""
    count, tried = 1, name
    while tried in taken:
        count += 1
        tried = f"{name} ({count})"
    taken.add(tried)
    return tried


def require_instance(caller: str, thing: Any, library: str, name: str, hints: Mapping[str, str]) -> None:
    """Raise unless an object is of a class of another library; it is not if that library was never imported.

    `hints` tell what to pass instead of objects that are often given by mistake, by the names of their classes.
    """
    wanted = getattr(sys.modules.get(library), name, None)
    if isinstance(wanted, type) and isinstance(thing, wanted):
        return
    kind = type(thing)
    hint = hints.get(kind.__name__, "")
    raise InputError(
        f"{caller} takes a {library}.{name}, got {kind.__module__.partition('.')[0]}.{kind.__name__}"
        f"{'; pass ' + hint if hint else ''}"
    )


def require_pair(caller: str, robot: Any, joints: Any) -> None:
    """Raise unless `robot` is a `Model` and `joints` a mapping of names or None."""
    if not isinstance(robot, Model):
        raise InputError(f"{caller} takes a kinetree.Model first, got {type(robot).__name__}")
    if joints is not None and not (
        isinstance(joints, Mapping) and all(isinstance(name, str) for pair in joints.items() for name in pair)
    ):
        raise InputError(f"{caller}: joints is not a dictionary of names; pass {{'name here': 'name there'}}")


#: Objects often given instead of a `mujoco.MjModel`.
MUJOCO_HINTS = {"MjSpec": "spec.compile()", "MjData": "data.model", "str": "files to kinetree.load instead"}
#: Objects often given instead of a `pinocchio.Model`.
PINOCCHIO_HINTS = {"RobotWrapper": "robot.model", "Data": "the model", "str": "files to kinetree.load instead"}
