"""Bodies, joints and frames as plain numbers, of which readers of files and `Builder` make a model.

Python builds a tuple of numbers in a fraction of the time that a small array takes, so arrays are made for all bodies
at once. Checks of the arguments of `Builder` are here as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import ModelError, UnknownNameError
from kinetree.language.mechanism import depth_first
from kinetree.model.body import Body, Frame, frozen, frozen_tables
from kinetree.model.joint import Joint, Limits, Spring
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.loops.coupling import Coupling, FunctionCoupling, LinearCoupling, PolynomialCoupling
from kinetree.model.nodes.general import Node, coordinates_of
from kinetree.spatial.reproducible import length, product
from kinetree.spatial.value import Array

#: The first three rows of a pose, one after the other.
Pose = tuple[float, ...]
#: The pose of a frame in itself.
HERE: Pose = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
#: Name of the inertial frame; no body may have it.
WORLD_NAME = "world"
_LAST = (0.0, 0.0, 0.0, 1.0)  # row of a pose


def matrix_of_pose(pose: Pose) -> Array:
    """A pose as an array, (4, 4)."""
    return np.array((*pose, *_LAST)).reshape(4, 4)


@lru_cache(maxsize=4096)  # joints of one robot often have the same damping
def constant(number: float, count: int) -> Array:
    """The same number several times; arrays are shared."""
    return frozen(np.full(count, number), (count,))


@cache
def unlimited(kind: str) -> Limits:
    """No limits, for a kind of joint."""
    return Limits().expanded(KINDS[kind])


_NONE = constant(0.0, 0)


class BodySpec(NamedTuple):
    """A `Body` without its parent and joint; `line` is the one in a file that has lines."""

    name: str
    mass: float = 0.0
    com: Sequence[float] = (0.0,) * 3
    inertia: Sequence[float] = (0.0,) * 9
    line: int | None = None
    gravity_compensation: float = 0.0


class Mimic(NamedTuple):
    """q = multiplier · q(joint) + offset."""

    joint: str
    multiplier: float
    offset: float


class JointSpec(NamedTuple):
    """A `Joint` that has no part of q and v yet; `line` is the one in a file that has lines."""

    name: str
    kind: str
    parent: str
    child: str
    placement: Pose
    axes: Sequence[Sequence[float]]
    limits: Limits
    damping: Array
    friction: Array
    armature: Array
    pitch: float = 0.0
    node: Node | None = None
    mimic: Mimic | None = None
    line: int | None = None
    spring: Spring | None = None

    @classmethod
    def fixed(cls, name: str, parent: str, child: str, placement: Pose = HERE, line: int | None = None) -> JointSpec:
        """A fixed joint."""
        return cls(
            name, "fixed", parent, child, placement, (), unlimited("fixed"), _NONE, _NONE, _NONE, line=line
        )  # fmt: skip

    @property
    def type(self) -> JointKind:
        """The formulas of its kind."""
        return KINDS[self.kind] if self.node is None else coordinates_of(self.node)


class FrameSpec(NamedTuple):
    """A `Frame`."""

    name: str
    body: str
    placement: Pose


def made(
    bodies: Sequence[BodySpec], joints: Sequence[JointSpec], frames: Iterable[FrameSpec] = ()
) -> tuple[list[Body], list[Joint], list[Frame]]:
    """The parts of a model, of checked numbers; bodies are given depth first, with the joint in front of each."""
    coms, inertias, placements, axes = frozen_tables(
        ([body.com for body in bodies], (3,)),
        ([body.inertia for body in bodies], (3, 3)),
        ([(*joint.placement, *_LAST) for joint in joints], (4, 4)),
        ([axis for joint in joints for axis in joint.axes], (3,)),
    )
    made_bodies, made_joints = [], []
    q = v = axis = 0
    for body, joint, com, inertia, placement in zip(bodies, joints, coms, inertias, placements, strict=True):
        kind, parent = joint.type, joint.parent
        made_bodies.append(
            Body.trusted(
                name=body.name,
                parent=parent,
                joint=joint.name,
                mass=body.mass,
                com=com,
                inertia=inertia,
                gravity_compensation=body.gravity_compensation,
            )
        )
        made_joints.append(
            Joint.trusted(
                name=joint.name,
                kind=joint.kind,
                parent=parent,
                child=body.name,
                placement=placement,
                axes=axes[axis : axis + kind.axes],
                pitch=joint.pitch,
                armature=joint.armature,
                limits=joint.limits,
                damping=joint.damping,
                friction=joint.friction,
                q_start=q,
                v_start=v,
                node=joint.node,
                spring=joint.spring,
            )
        )
        q, v, axis = q + kind.nq, v + kind.nv, axis + kind.axes
    return made_bodies, made_joints, [Frame(f.name, f.body, matrix_of_pose(f.placement)) for f in frames]


class NamedSpecs:
    """Parts with unique names, in any order."""

    def __init__(self) -> None:
        self.bodies: dict[str, BodySpec] = {}
        self.frames: dict[str, FrameSpec] = {}
        self.joints: dict[str, JointSpec] = {}  # by the body behind them
        self.children: dict[str, str] = {}  # the body behind each joint, by the joint's name

    def add(self, body: BodySpec, joint: JointSpec) -> None:
        """Add a body and its joint, whose names are free."""
        self.bodies[body.name], self.joints[body.name] = body, joint
        self.children[joint.name] = body.name

    def refuse_taken(self, name: str, what: str) -> None:
        """Raise unless a body or frame may have a name."""
        if not isinstance(name, str) or not name:
            raise ModelError(f"a {what} needs a name, which must be a non-empty string; got {name!r}")
        if name == WORLD_NAME:
            raise ModelError(f"no {what} may be called {WORLD_NAME!r}, the name of the inertial frame")
        if name in self.bodies or name in self.frames:
            taken = "body" if name in self.bodies else "frame"
            raise ModelError(
                f"{what} {name!r}: a {taken} has that name already; names of bodies and frames must differ"
            )

    def refuse_taken_joint(self, name: str, owner: str) -> None:
        """Raise unless a joint may have a name."""
        if name in self.children:
            taken = self.children[name]
            raise ModelError(f"{owner}: a joint {name!r} exists already, in front of {taken!r}; rename one")

    def joint(self, name: str, what: str) -> JointSpec:
        """A joint by name; `what` needs it."""
        if name not in self.children:
            raise UnknownNameError(f"joint (needed for {what})", name, tuple(self.children))
        return self.joints[self.children[name]]

    def ordered(self) -> tuple[list[BodySpec], list[JointSpec]]:
        """All bodies with their joints, depth first, siblings in the order in which they were added."""
        children: dict[str, list[str]] = {name: [] for name in (WORLD_NAME, *self.bodies)}
        for name, joint in self.joints.items():
            siblings = children.get(joint.parent)
            if siblings is None:
                raise self._no_body(joint.parent, f"parent of body {name!r}")
            siblings.append(name)
        for frame in self.frames.values():
            if frame.body not in children:
                raise self._no_body(frame.body, f"body of frame {frame.name!r}")
        order = depth_first(children[WORLD_NAME], children)
        if len(order) < len(self.bodies):
            cycle = " → ".join(self._cycle(set(order)))
            raise ModelError(f"bodies form a cycle, each carried by the next: {cycle}; attach one of them to the world")
        return [self.bodies[name] for name in order], [self.joints[name] for name in order]

    def _no_body(self, name: str, role: str) -> UnknownNameError:
        return UnknownNameError(f"body (needed as {role})", name, (WORLD_NAME, *self.bodies))

    def _cycle(self, reached: set[str]) -> list[str]:
        """The bodies of one cycle, each followed by its parent, the first one repeated."""
        name = next(name for name in self.bodies if name not in reached)
        path: list[str] = []
        while name not in path:
            path.append(name)
            name = self.joints[name].parent
        return [*path[path.index(name) :], name]


#: Axes that are not given.
Z = (0.0, 0.0, 1.0)
# A rotation with at least six correct digits is orthonormalised, others are rejected.
_ORTHONORMAL, _REFUSED = 1e-14, 1e-6
_EXPECTED = "pass a 4×4 pose, a pair (R, p), a position (3,), or None"
_NOT_FINITE = "placement has NaN or infinite entries"


def coupling_of(joint: Any, to: Any, ratio: Any, offset: Any, poly: Any, function: Any) -> Coupling:
    """A coupling from the arguments of `Builder.couple`; names are those that the user gave."""
    what = "couple()"
    if isinstance(joint, Mapping):
        if to is not None or ratio is not None or poly is not None or function is not None:
            raise ModelError(f"{what}: a mapping of joints takes offset= only")
        if len(joint) < 2:
            raise ModelError(f"{what}: a coupling takes two joints or more; got {dict(joint)!r}")
        coefficients = [float(finite(c, 1, f"{what}: the coefficient of {name!r}")[0]) for name, c in joint.items()]
        if not all(coefficients):
            raise ModelError(f"{what}: a coefficient is zero; leave that joint out of {dict(joint)!r}")
        return LinearCoupling(tuple(joint), np.array(coefficients), float(finite(offset, 1, f"{what}: offset")[0]))
    leaders = (to,) if isinstance(to, str) else tuple(to) if isinstance(to, Sequence) else ()
    if not isinstance(joint, str) or not leaders or not all(isinstance(name, str) for name in leaders):
        raise ModelError(f"{what}: name the joint that follows, and with to= the one that leads; got {joint!r}, {to!r}")
    if joint in leaders:
        raise ModelError(f"{what}: joint {joint!r} cannot follow itself")
    what = f"{what}: joint {joint!r}"
    if sum(given is not None for given in (ratio, poly, function)) != 1:
        raise ModelError(f"{what} needs exactly one of ratio=, poly= and function=")
    if function is not None:
        if not callable(function) or offset != 0.0:
            raise ModelError(f"{what}: function= takes a function of the leaders, which includes any offset")
        coupling = FunctionCoupling((joint, *leaders), function)
        _ = coupling.follower  # traces the function
        return coupling
    if len(leaders) != 1:
        raise ModelError(f"{what} follows several joints; give function=, or a mapping of joints to coefficients")
    if poly is not None:
        if offset != 0.0:
            raise ModelError(f"{what}: the offset of a polynomial is its first coefficient; leave offset= out")
        numbers = finite(poly, np.size(poly), f"{what}: poly")
        if len(numbers) < 2 or not numbers[1:].any():
            raise ModelError(f"{what}: poly= needs the coefficients of a polynomial that is not constant, lowest first")
        return PolynomialCoupling((joint, *leaders), numbers)
    slope = float(finite(ratio, 1, f"{what}: ratio")[0])
    if slope == 0.0:
        raise ModelError(f"{what}: the ratio is zero, so it never moves; make it a fixed joint")
    return LinearCoupling((joint, *leaders), np.array([1.0, -slope]), float(finite(offset, 1, f"{what}: offset")[0]))


def axes_of(kind: JointKind, axis: Any, axes: Any, owner: str) -> tuple[tuple[float, ...], ...]:
    """Unit axes."""
    if axis is not None and kind.axes != 1:
        fix = "pass axes=(first, second)" if kind.axes == 2 else "leave it out"
        raise ModelError(f"{owner}: a {kind.name} joint takes no axis=; {fix}")
    if axes is not None and kind.axes != 2:
        raise ModelError(f"{owner}: only a universal joint takes axes=; this one is {kind.name}")
    if kind.axes == 0:
        return ()
    if kind.axes == 1:
        return (Z if axis is None else direction(axis, owner),)
    if axes is not None and not isinstance(axes, (Sequence, np.ndarray)):
        raise ModelError(f"{owner}: axes is a pair of directions, (first, second); got {axes!r}")
    given = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)) if axes is None else tuple(axes)
    if len(given) != 2:
        raise ModelError(f"{owner}: a universal joint takes two axes, got {len(given)}")
    first, second = (direction(one, owner) for one in given)
    if length(np.cross(first, second)) < 1e-6:
        raise ModelError(f"{owner}: the two axes of a universal joint are parallel; use a revolute joint")
    return first, second


def pitch_of(kind: JointKind, pitch: Any, owner: str) -> float:
    """Advance of a helical joint [m/rad]; zero for others."""
    if kind.name != "helical":
        if pitch is not None:
            raise ModelError(f"{owner}: only a helical joint takes pitch=; this one is {kind.name}")
        return 0.0
    if pitch is None:
        raise ModelError(f"{owner}: a helical joint needs pitch=, its advance in metres per radian")
    return float(finite(pitch, 1, f"{owner}: pitch")[0])


def finite(values: Any, count: int, what: str, *, each: bool = False) -> Array:
    """`count` finite numbers; one number stands for all of them, unless each has to be given."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} {values!r} is not made of numbers") from None
    if array.shape != (count,) and (each or array.shape not in ((), (1,))):
        raise ModelError(f"{what} has shape {array.shape}, must be ({count},)")
    if not np.isfinite(array).all():
        raise ModelError(f"{what} {values!r} has NaN or infinite entries")
    return np.full(count, array)


def non_negative(values: Any, count: int, owner: str, name: str) -> Array:
    """As `finite`, none below zero."""
    if isinstance(values, float) and 0.0 <= values < math.inf:
        return constant(float(values) + 0.0, count)  # many joints have the same
    what = f"{owner}: {name}"
    array = finite(values, count, what)
    if (array < 0.0).any():
        raise ModelError(f"{what} {values!r} is negative")
    return frozen(array, (count,))


def checked_placement(placement: Any, owner: str) -> Array:
    """A 4×4 pose from None, a 4×4 array, or a pair (R, p). `owner` is named in errors."""
    return matrix_of_pose(pose_numbers(placement, owner))


def pose_numbers(placement: Any, owner: str) -> Pose:
    """The numbers of its first three rows."""
    if placement is None:
        return HERE
    try:
        if isinstance(placement, (tuple, list)) and len(placement) == 2:
            R, p = placement
            R = np.asarray(R, dtype=float)
            position = three_floats(p) or np.asarray(p, dtype=float)
        else:
            matrix = np.asarray(placement, dtype=float)
            if matrix.shape == (3,):
                return pose_numbers((np.eye(3), placement), owner)
            if matrix.shape != (4, 4):
                raise ModelError(f"{owner}: placement has shape {matrix.shape}; {_EXPECTED}")
            x, y, z, one = matrix[3].tolist()
            if abs(x) > _REFUSED or abs(y) > _REFUSED or abs(z) > _REFUSED or abs(one - 1.0) > _REFUSED:
                raise ModelError(f"{owner}: the last row of the placement must be 0 0 0 1, it is {matrix[3]}")
            R, position = matrix[:3, :3], matrix[:3, 3]
    except (TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{owner}: placement is not made of numbers; {_EXPECTED}") from None
    if isinstance(position, tuple):
        shape = (3,)
    else:
        shape, position = position.shape, position.tolist()
    if R.shape != (3, 3) or shape != (3,):
        raise ModelError(f"{owner}: placement has parts of shapes {R.shape} and {shape}, must be (3, 3) and (3,)")
    x, y, z = position
    try:
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            raise ModelError(_NOT_FINITE)
        a, b, c, d, e, f, g, h, i = _rotation(R.tobytes())
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from None
    return a, b, c, x, d, e, f, y, g, h, i, z


def three_floats(given: Any) -> tuple[float, float, float] | None:
    """Three finite floats as most people give them, in a tuple; None if they are given in any other way."""
    if type(given) is tuple and len(given) == 3:
        x, y, z = given
        if type(x) is float and type(y) is float and type(z) is float and math.isfinite(x + y + z):
            return given
    return None


@lru_cache(maxsize=1024)  # many bodies are turned alike
def _rotation(matrix: bytes) -> Sequence[float]:
    """The nine numbers of a rotation matrix, orthonormal to rounding."""
    R = np.frombuffer(matrix).reshape(3, 3)
    # plain numbers: NumPy would take ten times as long for so few
    numbers = (a, b, c), (d, e, f), (g, h, i) = R.tolist()
    if not all(map(math.isfinite, chain.from_iterable(numbers))):
        raise ModelError(_NOT_FINITE)
    fault = max(
        abs(a * a + d * d + g * g - 1.0),
        abs(b * b + e * e + h * h - 1.0),
        abs(c * c + f * f + i * i - 1.0),
        abs(a * b + d * e + g * h),
        abs(a * c + d * f + g * i),
        abs(b * c + e * f + h * i),
    )
    if fault > _REFUSED:
        raise ModelError(
            f"the rotation of the placement is not orthonormal (RᵀR differs from 1 by {fault:.1e}); "
            "give it with more digits"
        )
    if a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g) < 0.0:
        raise ModelError("the rotation of the placement is a reflection (determinant −1); flip one axis")
    # Newton's iteration for the polar factor: errors of 1e-12, then 1e-24, then rounding
    for _ in range(3 if fault > _ORTHONORMAL else 0):
        R = 0.5 * product(R, 3.0 * np.eye(3) - product(R.T, R))
    return tuple(R.reshape(-1).tolist())


def direction(axis: Any, owner: str) -> tuple[float, float, float]:
    """A unit vector along a given direction. `owner` is named in errors."""
    plain = three_floats(axis)
    if plain is None:
        try:
            vector = np.asarray(axis, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{owner}: axis {axis!r} is not made of numbers") from None
        if vector.shape != (3,):
            raise ModelError(f"{owner}: an axis has 3 numbers, got shape {vector.shape}")
        if not np.isfinite(vector).all():
            raise ModelError(f"{owner}: axis {vector} has NaN or infinite entries")
        plain = vector.tolist()
    x, y, z = plain
    largest = max(abs(x), abs(y), abs(z))
    if largest == 0.0:
        raise ModelError(f"{owner}: the axis is zero; give a direction, such as (0, 0, 1)")
    x, y, z = x / largest, y / largest, z / largest
    norm = math.sqrt(x * x + y * y + z * z)
    return x / norm, y / norm, z / norm
