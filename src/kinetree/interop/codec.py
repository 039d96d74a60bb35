"""How one joint's numbers are written in another library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Codec:
    """A joint whose configuration is the same in both libraries, but for the order of its numbers.

    Attributes:
        kind: Kinetree's kind of joint.
        columns: For each velocity there, which one of the joint's velocities here it is.
        order: For each number of the configuration there, which one of the joint's numbers here it is.
        world_linear: Whether the first three velocities there are linear, in world axes; here they are in the body's.
    """

    kind: str
    columns: tuple[int, ...]
    order: tuple[int, ...]
    world_linear: bool = False

    @property
    def nq(self) -> int:
        """Numbers in the configuration there."""
        return len(self.order)

    def to_q(self, q: Array) -> Array:
        """From here to there, (…, nq) each."""
        return q[..., list(self.order)]

    def from_q(self, q: Array) -> Array:
        """From there to here."""
        return q[..., list(np.argsort(self.order))]


@dataclass(frozen=True)
class CosineSine(Codec):
    """A joint whose last number is an angle [rad], written as its cosine and sine there.

    An angle comes back within ±π; how often it has gone round is lost.
    """

    @property
    def nq(self) -> int:
        return len(self.order) + 1

    def to_q(self, q: Array) -> Array:
        return np.concatenate([q[..., :-1], np.cos(q[..., -1:]), np.sin(q[..., -1:])], axis=-1)

    def from_q(self, q: Array) -> Array:
        return np.concatenate([q[..., :-2], np.arctan2(q[..., -1:], q[..., -2:-1])], axis=-1)


def same(kind: str, nv: int) -> Codec:
    """A joint that is written alike in both, with as many coordinates as velocities."""
    places = tuple(range(nv))
    return Codec(kind, places, places)
