"""Which shapes of a robot and its surroundings may collide, and why the others are left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.kernels.pair_distances import CONVEX, NUMBERS
from kinetree.model.pair_rules import NO_RULES, Names, PairRules
from kinetree.model.shapes import COMPILED, MEASURED, Capsule, SolidShape
from kinetree.model.specs import WORLD_NAME
from kinetree.spatial.value import Array

#: Reasons for which a pair is left out.
SAME_BODY = "on the same moving body"
ADJACENT = "on bodies that a joint connects"
FIXED = "both fixed to the world"
DISABLED = "disabled by the SRDF file"
EXCLUDED = "excluded by the file"
MASKED = "without a common bit in their masks"
AT_NEUTRAL = "collide at the neutral configuration"
ALWAYS = "collide at all sampled configurations"
AT_KEYFRAME = "collide at a keyframe, by larger shapes around them,"
BY_HAND = "left out by without()"
NOT_CHOSEN = "left out by only()"

#: The class of a pair (`kinetree.kernels.pair_distances`) by the kinds of its shapes.
_CLASS = {
    ("sphere", "sphere"): "points",
    ("sphere", "capsule"): "points",
    ("capsule", "capsule"): "segments",
    ("sphere", "box"): "sphere_boxes",
    ("capsule", "box"): "capsule_boxes",
    ("box", "box"): "boxes",
    ("sphere", "cylinder"): "sphere_cylinders",
    ("capsule", "cylinder"): "capsule_cylinders",
    ("box", "cylinder"): "box_cylinders",
    ("cylinder", "cylinder"): "cylinders",
    ("sphere", "ellipsoid"): "sphere_ellipsoids",
    ("capsule", "ellipsoid"): "capsule_ellipsoids",
    ("box", "ellipsoid"): "box_ellipsoids",
    ("cylinder", "ellipsoid"): "cylinder_ellipsoids",
    ("ellipsoid", "ellipsoid"): "ellipsoids",
    ("sphere", "plane"): "planes",
    ("capsule", "plane"): "planes",
    ("box", "plane"): "planes",
    ("cylinder", "plane"): "cylinder_planes",
    ("ellipsoid", "plane"): "ellipsoid_planes",
}
#: The class of all others, those of hulls and height fields, which are not compiled, and come last.
HULLS = "hulls"
_CLASSES = (*dict.fromkeys(_CLASS.values()), HULLS)


class Runs(NamedTuple):
    """Pairs as `pair_distances` takes them: the lists of its classes, and its sizes."""

    classes: tuple[str, ...]
    lists: Mapping[str, tuple[tuple[int, int, int, int], ...]]
    longest: int


def _core(shape: SolidShape) -> str:
    """The kind of a shape; a capsule without length is a sphere."""
    return "sphere" if isinstance(shape, Capsule) and shape.half[2] == 0.0 else shape.kind


def _class_of(a: SolidShape, b: SolidShape) -> str:
    return _CLASS.get((_core(a), _core(b)), HULLS)


class CollisionPairs(Sequence[Names]):
    """Pairs of shapes, by name, in the order of results; created by `robot.collision_pairs`.

    Attributes:
        shapes: All shapes, in the order in which pairs name them: spheres, capsules, boxes, cylinders, ellipsoids,
            hulls, planes, height fields.
        excluded: The reason of each pair that is left out, by the names of its shapes.
    """

    def __init__(self, shapes: Iterable[SolidShape], chosen: Iterable[Names], excluded: Mapping[Names, str]) -> None:
        self.shapes = tuple(sorted(shapes, key=lambda shape: MEASURED.index(_core(shape))))
        place = {shape.name: i for i, shape in enumerate(self.shapes)}
        found: dict[str, list[tuple[int, int]]] = {one: [] for one in _CLASSES}
        for names in chosen:
            i, j = sorted(place[name] for name in names)
            found[_class_of(self.shapes[i], self.shapes[j])].append((i, j))
        self._by_class = {one: sorted(pairs) for one, pairs in found.items() if pairs}
        #: Numbers of the two shapes of each pair, (p, 2).
        self.numbers: Array = np.array([p for pairs in self._by_class.values() for p in pairs], dtype=int).reshape(
            -1, 2
        )
        self.numbers.setflags(write=False)
        self.excluded = MappingProxyType({self._sorted(names, place): reason for names, reason in excluded.items()})

    @staticmethod
    def _sorted(names: Names, place: Mapping[str, int]) -> Names:
        a, b = sorted(names, key=lambda name: place[name])
        return a, b

    @cached_property
    def names(self) -> tuple[Names, ...]:
        """The names of the two shapes of each pair. Normals point from the second to the first."""
        return tuple((self.shapes[i].name, self.shapes[j].name) for i, j in self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return self.names[index]

    def __repr__(self) -> str:
        return f"<pairs: {len(self)}, of {len(self.shapes)} shapes; {len(self.excluded)} excluded>"

    def _key(self) -> tuple[Any, ...]:
        return self.shapes, self.numbers.tobytes()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, CollisionPairs) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return CollisionPairs, (self.shapes, self.names, dict(self.excluded))

    def without(self, *names: str) -> CollisionPairs:
        """The pairs without those of one shape, or of one shape and another; shapes or bodies, by name.

        Raises:
            UnknownNameError: If there is no such shape or body.
        """
        of = self._of("without", names)
        return self._left(dict.fromkeys((pair for pair in self.names if pair in of), BY_HAND))

    def only(self, *names: str) -> CollisionPairs:
        """The pairs of one shape, or of one shape and another, and no others; shapes or bodies, by name.

        Raises:
            UnknownNameError: If there is no such shape or body.
        """
        of = self._of("only", names)
        return self._left(dict.fromkeys((pair for pair in self.names if pair not in of), NOT_CHOSEN))

    def _of(self, function: str, names: Sequence[str]) -> set[Names]:
        """The pairs of one shape or body, or of one and another."""
        if not 1 <= len(names) <= 2:
            raise InputError(f"{function}() takes the name of a shape or body, or two of them; got {len(names)}")
        one, *rest = (self._named(name) for name in names)
        return {
            (a, b) for a, b in self.names if any(x in one and (not rest or y in rest[0]) for x, y in ((a, b), (b, a)))
        }

    def _left(self, out: Mapping[Names, str]) -> CollisionPairs:
        """The pairs that are not left out."""
        return CollisionPairs(self.shapes, [pair for pair in self.names if pair not in out], {**self.excluded, **out})

    def _named(self, name: str) -> set[str]:
        found = {shape.name for shape in self.shapes if name in (shape.name, shape.body)}
        if not found:
            known = dict.fromkeys(each for shape in self.shapes for each in (shape.name, shape.body) if each)
            raise UnknownNameError("shape or body", name, tuple(known))
        return found

    @cached_property
    def compiled(self) -> CollisionPairs:
        """Those without hulls and height fields, which come first."""
        if HULLS not in self._by_class:
            return self
        count = len(self) - len(self._by_class[HULLS])
        shapes = [shape for shape in self.shapes if shape.kind in COMPILED]
        return CollisionPairs(shapes, self.names[:count], {})

    @cached_property
    def iterated(self) -> slice | None:
        """Internal. The pairs that are compiled without a closed form; None if there are none."""
        classes = [_class_of(self.shapes[i], self.shapes[j]) for i, j in self.numbers.tolist()]
        found = [k for k, one in enumerate(classes) if one in CONVEX]
        return slice(found[0], found[-1] + 1) if found else None

    @cached_property
    def runs(self) -> Runs:
        """Internal. A shape and consecutive others, whose pairs are consecutive too."""
        if HULLS in self._by_class:
            i, j = self._by_class[HULLS][0]
            a, b = self.shapes[i], self.shapes[j]
            raise UnsupportedError(
                f"distances of {a.kind} {a.name!r} and {b.kind} {b.name!r} are not compiled, as this needs; put "
                "capsules around hulls: robot.with_shapes(geometry.fit(robot.shapes)); leave out height fields"
            )
        lists: dict[str, tuple[tuple[int, int, int, int], ...]] = {}
        count, longest = 0, 1
        for one, pairs in self._by_class.items():
            rows: list[list[int]] = []
            for i, j in pairs:
                if rows and rows[-1][0] == i and rows[-1][1] + rows[-1][3] + 1 == j:
                    rows[-1][3] += 1
                else:
                    rows.append([i, j, count, 0])
                count += 1
            longest = max(longest, *(row[3] + 1 for row in rows))
            lists[one] = tuple((i, j, p, last) for i, j, p, last in rows)
        return Runs(tuple(lists), lists, longest)

    @cached_property
    def sizes(self) -> Array:
        """Internal. The six numbers of each shape that `pair_distances` takes, (n, 6); zeros for a hull."""
        found = np.zeros((len(self.shapes), NUMBERS))
        for row, shape in zip(found, self.shapes, strict=True):
            if shape.kind not in COMPILED:
                continue
            square = shape.half[2] ** 2
            row[:] = *shape.half, shape.around, square, 1.0 / square if square > 0.0 else 0.0
        return found


def excluded_by_structure(
    shapes: Sequence[SolidShape],
    carriers: Mapping[str, str],
    parents: Mapping[str, str],
    disabled: Iterable[frozenset[str]],
    rules: PairRules = NO_RULES,
) -> dict[Names, str]:
    """Pairs that are left out without looking at distances, with reasons.

    Args:
        shapes: All shapes.
        carriers: The moving body that carries each shape, by name; "world" for what is fixed there.
        parents: The moving body that carries each moving body.
        disabled: Pairs of bodies between which there are no collisions.
        rules: Exceptions that the robot's file makes.
    """
    with_shapes, above = {WORLD_NAME, *carriers.values()}, dict[str, str]()
    for body, parent in parents.items():  # parents come first
        above[body] = parent if parent in with_shapes else above[parent]
    disabled, found = set(disabled), dict[Names, str]()
    excluded, included = (set(map(frozenset, pairs)) for pairs in rules)
    for k, a in enumerate(shapes):
        for b in shapes[k + 1 :]:
            one, other = carriers[a.name], carriers[b.name]
            listed = frozenset((a.name, b.name)) in included
            if one == other or {a.kind, b.kind} <= {"plane", "height field"}:
                found[a.name, b.name] = FIXED if one == WORLD_NAME else SAME_BODY
            elif not listed and WORLD_NAME not in (one, other) and (above[one] == other or above[other] == one):
                found[a.name, b.name] = ADJACENT  # but a robot may collide with the world that it stands on
            elif (bodies := frozenset((str(a.body), str(b.body)))) in disabled:
                found[a.name, b.name] = DISABLED
            elif listed:
                continue
            elif bodies in excluded:
                found[a.name, b.name] = EXCLUDED
            elif (0, 0) in (a.masks, b.masks):  # even with shapes that have none, such as those of a scene
                found[a.name, b.name] = MASKED
            elif a.masks is not None and b.masks is not None:
                (type_a, affinity_a), (type_b, affinity_b) = a.masks, b.masks
                if not type_a & affinity_b and not type_b & affinity_a:
                    found[a.name, b.name] = MASKED
    return found


def warn_of(reasons: Mapping[Names, str], stacklevel: int, category: type[Warning]) -> None:
    """Name the pairs that are left out because they collide."""
    for reason in (AT_NEUTRAL, ALWAYS, AT_KEYFRAME):
        pairs = [f"{a}–{b}" for (a, b), why in reasons.items() if why == reason]
        if pairs:
            shown = ", ".join(pairs[:40]) + (f", … ({len(pairs)} in all)" if len(pairs) > 40 else "")
            warnings.warn(
                f"pairs of shapes that {reason} are left out: {shown}. Smaller shapes would keep them; "
                "collision_pairs(keep_colliding=True) does as well",
                category,
                stacklevel=stacklevel + 1,
            )
