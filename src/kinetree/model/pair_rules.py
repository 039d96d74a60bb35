"""Which bodies and shapes a robot's file keeps from colliding, or makes collide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Names = tuple[str, str]


class PairRules(NamedTuple):
    """Exceptions to what may collide otherwise: `<exclude>` and `<pair>` of MJCF files.

    Attributes:
        excluded: Pairs of bodies whose shapes do not collide.
        included: Pairs of shapes that may collide even if bodies that a joint connects carry them, their bodies are
            excluded, or their masks have no common bit.
    """

    excluded: tuple[Names, ...] = ()
    included: tuple[Names, ...] = ()

    def among(self, bodies: Iterable[str], shapes: Iterable[str]) -> PairRules:
        """Those between some bodies, and between some shapes."""
        bodies, shapes = set(bodies), set(shapes)
        return PairRules(
            tuple(pair for pair in self.excluded if bodies.issuperset(pair)),
            tuple(pair for pair in self.included if shapes.issuperset(pair)),
        )

    def joined(self, other: PairRules, prefix: str, parent: Callable[[str], str]) -> PairRules:
        """With those of a robot that is attached: `prefix` renames its shapes, `parent` its bodies."""
        bodies = ((parent(a), parent(b)) for a, b in other.excluded)
        shapes = ((prefix + a, prefix + b) for a, b in other.included)
        return PairRules((*self.excluded, *bodies), (*self.included, *shapes))


#: No exceptions.
NO_RULES = PairRules()
