"""What kinds of joints have in common.

A `JointKind` defines the coordinates of a joint and how velocities change them. For the recursions, it consists of
`stages`: `Stage`s in series, each with a joint map that is constant in the frame that it moves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kinetree.spatial import screw
from kinetree.spatial.hinge import JointMap
from kinetree.spatial.motion import Motion
from kinetree.spatial.rotation import turn_about_z
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array


class PlainCoordinates:
    """Coordinates that are plain numbers, with nq = nv: a `language.node.NodeManifold`."""

    def integrate(self, q: Array, step: Array) -> Array:
        return q + step

    def difference(self, q0: Array, q1: Array) -> Array:
        return q1 - q0

    def room(self, q: Array, limit: Array) -> Array:
        return self.difference(q, limit)

    def rates(self, _q: Array, v: Array) -> Array:
        return v

    def transport(self, step: Array) -> Array:
        return np.eye(len(step))

    def right_jacobian(self, step: Array) -> Array:
        return np.eye(len(step))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return np.eye(len(step))

    def bracket(self, x: Array) -> Array:
        return np.zeros((len(x), len(x)))

    def tangent_map(self, q: Array) -> Array:
        return np.eye(len(q))

    def normalize(self, q: Array) -> Array:
        return q


@dataclass(frozen=True)
class JointKind(PlainCoordinates, ABC):
    """A kind of joint, with its coordinates.

    They are plain numbers, unless the joint turns freely: then it is its own `language.node.NodeManifold`. `integrate`
    takes body-frame velocities: the increment acts on the right.

    Attributes:
        name: Its name in `Builder.add_body(joint=…)`.
        nq: Number of configuration coordinates.
        nv: Degrees of freedom.
        axes: Number of axes that the user specifies, each in the link frame.
        angles: For each coordinate, whether it is an angle [rad] rather than a length [m].
        limited: Whether position limits are meaningful for the coordinates.
        own: Number of constants specific to the joint.
    """

    name: ClassVar[str]
    nq: ClassVar[int]
    nv: ClassVar[int]
    axes: ClassVar[int] = 0
    angles: ClassVar[tuple[bool, ...]] = ()
    limited: ClassVar[bool] = True
    own: ClassVar[int] = 0

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """The joint as motions in series, base first; none for a fixed joint."""

    def neutral(self) -> Array:
        """The configuration in which the link frame coincides with the joint's placement, (nq,)."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...], lower: Array, upper: Array) -> Array:
        """Uniformly distributed configurations, (*shape, nq): within finite limits, else in ±π rad or ±1 m."""
        (low, high), share = self.interval(lower, upper), rng.random((*shape, self.nq))
        width = high - low
        # the width may overflow
        numbers: Array = np.where(np.isfinite(width), low + width * share, low * (1.0 - share) + high * share)
        return numbers

    def interval(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The interval of random coordinates within limits."""
        reach = np.where(self.angles, np.pi, 1.0)
        # an interval with one finite limit has the usual width
        low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0 * reach, -reach))
        high = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower + 2.0 * reach, reach))
        return low, high


class Stage(JointKind):
    """A joint whose map H is constant in the frame that it moves: one node of the tree.

    Attributes:
        rotates: Whether it can rotate what it moves.
    """

    rotates: ClassVar[bool] = True

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self,)

    @abstractmethod
    def transform(self, placement: Transform, own: Array, q: Array) -> Transform:
        """Transform from the parent's coordinates to the moved frame's; plain arithmetic on scalars of any type.

        `placement` is the transform at neutral q, `own` are the constants specific to the joint.
        """

    @abstractmethod
    def joint_map(self, own: Array) -> JointMap:
        """H, 6×nv, in the moved frame's coordinates."""

    # Inside clusters, where general nodes have these, too.

    @property
    def coordinates(self) -> JointKind:
        """Its coordinates."""
        return self

    def frame_motion(self, placement: Transform, own: Array, q: Array) -> tuple[Transform, list[Array]]:
        """`transform`, and the columns of H."""
        H = self.joint_map(own)
        return self.transform(placement, own, q), [H.column(c).data for c in range(self.nv)]

    def swerve(self, _own: Array, _q: Array, _v: Array) -> Motion | None:
        """Ḣ v in the moved frame's coordinates, or None for zero."""
        return None


class AxialMotion(NamedTuple):
    """Motion about and along z: sine and cosine of an angle, and a distance [m]; None if the joint has none."""

    turn: tuple[Any, Any] | None = None
    slide: Any = None


class AxialStage(Stage):
    """A joint along z. Frames that it moves may be turned about z and shifted along it: its formulas do not change."""

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    axes: ClassVar[int] = 1

    @abstractmethod
    def motion(self, own: Array, q: Array) -> AxialMotion:
        """The motion from neutral q to q; plain arithmetic on scalars of any type."""

    def transform(self, placement: Transform, own: Array, q: Array) -> Transform:
        (turn, slide), E, r = self.motion(own, q), placement.E, placement.r
        return Transform.of(E if turn is None else turn_about_z(E, *turn), r if slide is None else r + E[2] * slide)


class ScrewStage(Stage):
    """A joint whose velocities are components of a body twist. Its derivatives are the corresponding ones of the twist.

    Attributes:
        screw: Indices of these components among the six of a body twist.
    """

    screw: ClassVar[tuple[int, ...]]

    def twist(self, step: Array) -> Array:
        """A velocity as a twist, (6,)."""
        parts = dict(zip(self.screw, step))
        return np.array([parts.get(i, 0.0) for i in range(6)])

    def transport(self, step: Array) -> Array:
        return self._own(screw.transport(self.twist(step)))

    def right_jacobian(self, step: Array) -> Array:
        return self._own(screw.right_jacobian(self.twist(step)))

    def inverse_right_jacobian(self, step: Array) -> Array:
        return self._own(screw.inverse_right_jacobian(self.twist(step)))

    def bracket(self, x: Array) -> Array:
        return self._own(screw.bracket(self.twist(x)))

    def _own(self, matrix: Array) -> Array:
        own: Array = matrix[np.ix_(self.screw, self.screw)]
        return own


@dataclass(frozen=True)
class Series:
    """The coordinates of some joints or manifolds as those of one node: a `language.node.NodeManifold`."""

    parts: tuple[Any, ...]

    def _parts(self) -> Iterator[tuple[Any, slice, slice]]:
        q = v = 0
        for part in self.parts:
            yield part, slice(q, q + part.nq), slice(v, v + part.nv)
            q, v = q + part.nq, v + part.nv

    def integrate(self, q: Array, step: Array) -> Array:
        return np.concatenate([part.integrate(q[at], step[along]) for part, at, along in self._parts()])

    def difference(self, q0: Array, q1: Array) -> Array:
        return np.concatenate([part.difference(q0[at], q1[at]) for part, at, _ in self._parts()])

    def room(self, q: Array, limit: Array) -> Array:
        return self.difference(q, limit)

    def rates(self, q: Array, v: Array) -> Array:
        return np.concatenate([part.rates(q[at], v[along]) for part, at, along in self._parts()])

    def transport(self, step: Array) -> Array:
        return _diagonal([part.transport(step[along]) for part, _, along in self._parts()])

    def right_jacobian(self, step: Array) -> Array:
        return _diagonal([part.right_jacobian(step[along]) for part, _, along in self._parts()])

    def inverse_right_jacobian(self, step: Array) -> Array:
        return _diagonal([part.inverse_right_jacobian(step[along]) for part, _, along in self._parts()])

    def bracket(self, x: Array) -> Array:
        return _diagonal([part.bracket(x[along]) for part, _, along in self._parts()])

    def tangent_map(self, q: Array) -> Array:
        return _diagonal([part.tangent_map(q[at]) for part, at, _ in self._parts()])

    def normalize(self, q: Array) -> Array:
        return np.concatenate([part.normalize(q[at]) for part, at, _ in self._parts()])


def _diagonal(blocks: list[Array]) -> Array:
    """A block diagonal matrix."""
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    matrix: Array = np.zeros((rows, columns), dtype=np.result_type(*blocks))
    i = j = 0
    for block in blocks:
        matrix[i : i + block.shape[0], j : j + block.shape[1]] = block
        i, j = i + block.shape[0], j + block.shape[1]
    return matrix
