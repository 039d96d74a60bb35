"""Representation of a joint's coordinates in another library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Codec:
    """A joint whose coordinates differ from the other library's only in their order.

    Attributes:
        kind: Kinetree's kind of joint.
        columns: For each of the other library's velocities, the index of the same one in Kinetree.
        order: For each of the other library's coordinates, the index of the same one in Kinetree.
        world_linear: Whether the other library's first three velocities are linear in world axes instead of body axes.
    """

    kind: str
    columns: tuple[int, ...]
    order: tuple[int, ...]
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
