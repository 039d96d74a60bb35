"""Distances of pairs of shapes of given poses, as one kernel for the classes of pairs that occur.

Pairs come in runs: a shape, and consecutive others. So a single sample computes the pairs of a run in lanes, and what
belongs to the first shape is read once. Results have the pairs along their last axis, in the order of the runs.

    class               first                   second
    points              sphere                  sphere, capsule
    segments            capsule                 capsule
    sphere_boxes        sphere                  box
    capsule_boxes       capsule                 box
    boxes               box                     box
    sphere_cylinders    sphere                  cylinder
    capsule_cylinders, capsule_ellipsoids, …    every other pair with a cylinder or ellipsoid: `convex_distances`
    planes              sphere, capsule, box    plane
    cylinder_planes     cylinder                plane
    ellipsoid_planes    ellipsoid               plane

A shape has a pose, and six numbers: half edges h (only h_z for capsules, none for spheres; of cylinders the radius
twice, and the half length; semi-axes of ellipsoids), radius r around these, |u|² and 1/|u|² of the half axis u = h_z z,
0 for spheres. A plane is the half-space below the plane z = 0 of its pose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from kinetree.kernels.box_distances import box_box, point_box, segment_box
from kinetree.kernels.branchless import less
from kinetree.kernels.convex_distances import SIZES, convex
from kinetree.kernels.depths import Rows
from kinetree.kernels.distances import (
    Found,
    Segment,
    Vector,
    above_plane,
    apart,
    cross,
    cylinder_above_plane,
    dot,
    ellipsoid_above_plane,
    from_segment,
    minus,
    nearest_parameters,
    plus,
    point_cylinder,
    point_segment,
    rounded,
    segments,
    times,
)
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.language.tree import Indexed

#: How many numbers describe a shape.
NUMBERS = 6


class PosedShape:
    """A shape in the world: its centre, the columns of its rotation, half edges, radius."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    @property
    def c(self) -> Vector:
        """Its centre."""
        return self._read("x"), self._read("y"), self._read("z")

    def axis(self, i: int) -> Vector:
        """A column of its rotation."""
        return self._read(f"{i}x"), self._read(f"{i}y"), self._read(f"{i}z")

    @property
    def axes(self) -> tuple[Vector, Vector, Vector]:
        """All of them."""
        return self.axis(0), self.axis(1), self.axis(2)

    @property
    def h(self) -> Vector:
        """Its half edges."""
        return self._read("h0"), self._read("h1"), self._read("h2")

    @property
    def r(self) -> Any:
        """Its radius."""
        return self._read("r")

    @property
    def segment(self) -> Segment:
        """The core of a sphere or capsule."""
        return self.c, (self._read("ux"), self._read("uy"), self._read("uz")), self._read("uu"), self._read("iu")

    @property
    def across(self) -> Vector:
        """A vector across the core of a capsule."""
        return self._read("ax"), self._read("ay"), self._read("az")

    def inside(self, v: Vector) -> Vector:
        """A vector in its axes."""
        x, y, z = self.axes
        return dot(x, v), dot(y, v), dot(z, v)

    def outside(self, found: Found) -> Found:
        """A result in the world's axes."""
        d, n, pa, pb = found
        return d, self.turned(n), self.placed(pa), self.placed(pb)

    def turned(self, v: Vector) -> Vector:
        """A vector in the axes of the world."""
        x, y, z = self.axes
        return plus(plus(times(v[0], x), v[1], y), v[2], z)

    def placed(self, p: Vector) -> Vector:
        """A point in the world."""
        return plus(self.turned(p), 1.0, self.c)


def _points(a: PosedShape, b: PosedShape) -> Found:
    return point_segment(a.segment, b.segment, b.across)


def _segments(a: PosedShape, b: PosedShape) -> Found:
    return segments(a.segment, b.segment, b.across)


def _sphere_boxes(a: PosedShape, b: PosedShape) -> Found:
    return b.outside(point_box(b.inside(minus(a.c, b.c)), b.h))


def _capsule_boxes(a: PosedShape, b: PosedShape) -> Found:
    return b.outside(segment_box(b.inside(minus(a.c, b.c)), b.inside(a.segment[1]), b.h))


def _boxes(a: PosedShape, b: PosedShape) -> Found:
    x, y, z = a.axes
    return b.outside(box_box(b.inside(minus(a.c, b.c)), (b.inside(x), b.inside(y), b.inside(z)), a.h, b.h))


def _planes(a: PosedShape, b: PosedShape) -> Found:
    n = b.axis(2)
    return above_plane(a.c, a.axes, a.h, n, dot(b.c, n))


def _sphere_cylinders(a: PosedShape, b: PosedShape) -> Found:
    return b.outside(point_cylinder(b.inside(minus(a.c, b.c)), b.h))


def _cylinder_planes(a: PosedShape, b: PosedShape) -> Found:
    n = b.axis(2)
    return cylinder_above_plane(a.c, a.axes, a.h, n, dot(b.c, n))


def _ellipsoid_planes(a: PosedShape, b: PosedShape) -> Found:
    n = b.axis(2)
    return ellipsoid_above_plane(a.c, a.axes, a.h, n, dot(b.c, n))


def _no_terms(_: PosedShape) -> list[Rows]:
    return []


def _segment_terms(a: PosedShape) -> list[Rows]:
    return [(a.segment[1],)]


def _box_terms(a: PosedShape) -> list[Rows]:
    return [(times(h, axis),) for h, axis in zip(a.h, a.axes, strict=True)]


def _cylinder_terms(a: PosedShape) -> list[Rows]:
    (x, y, z), (r, _, h) = a.axes, a.h
    return [(times(r, x), times(r, y)), (times(h, z),)]


def _ellipsoid_terms(a: PosedShape) -> list[Rows]:
    return [tuple(times(h, axis) for h, axis in zip(a.h, a.axes, strict=True))]


_ROUND = ("x", "y", "z", "ux", "uy", "uz", "r", "uu", "iu", "ax", "ay", "az")
_POSED = ("x", "y", "z", *(f"{i}{j}" for i in range(3) for j in "xyz"))
_LEVEL = ("x", "y", "z", "2x", "2y", "2z", "r")
#: What each class with a closed form computes, and the fields that it reads of the second shape.
CLASSES: dict[str, tuple[Callable[[PosedShape, PosedShape], Found], tuple[str, ...]]] = {
    "points": (_points, _ROUND),
    "segments": (_segments, _ROUND),
    "sphere_boxes": (_sphere_boxes, (*_POSED, "h0", "h1", "h2", "r")),
    "capsule_boxes": (_capsule_boxes, (*_POSED, "h0", "h1", "h2", "r")),
    "boxes": (_boxes, (*_POSED, "h0", "h1", "h2", "r")),
    "sphere_cylinders": (_sphere_cylinders, (*_POSED, "h0", "h1", "h2", "r")),
    "planes": (_planes, _LEVEL),
    "cylinder_planes": (_cylinder_planes, _LEVEL),
    "ellipsoid_planes": (_ellipsoid_planes, _LEVEL),
}
#: Distances of cores alone, which take less than what `CLASSES` compute.
_ALONE: dict[str, Callable[[PosedShape, PosedShape], Any]] = {
    "points": lambda a, b: apart(a.segment, b.segment, from_segment(a.c, b.segment)),
    "segments": lambda a, b: apart(a.segment, b.segment, nearest_parameters(a.segment, b.segment)[-1]),
}
#: Classes without a closed form: the terms of both shapes.
CONVEX: dict[str, tuple[Callable[[PosedShape], list[Rows]], Callable[[PosedShape], list[Rows]]]] = {
    "capsule_cylinders": (_segment_terms, _cylinder_terms),
    "box_cylinders": (_box_terms, _cylinder_terms),
    "cylinders": (_cylinder_terms, _cylinder_terms),
    "sphere_ellipsoids": (_no_terms, _ellipsoid_terms),
    "capsule_ellipsoids": (_segment_terms, _ellipsoid_terms),
    "box_ellipsoids": (_box_terms, _ellipsoid_terms),
    "cylinder_ellipsoids": (_cylinder_terms, _ellipsoid_terms),
    "ellipsoids": (_ellipsoid_terms, _ellipsoid_terms),
}


def fields_of(one: str) -> tuple[str, ...]:
    """The fields of the second shape that a class reads."""
    return CLASSES[one][1] if one in CLASSES else (*_POSED, "h0", "h1", "h2", "r")


def rounds_of(classes: Iterable[str]) -> dict[str, int]:
    """The sizes that kernels of some classes have besides those of their pairs."""
    return SIZES if any(one in CONVEX for one in classes) else {}


def measured(k: Workspace, one: str, a: PosedShape, b: PosedShape) -> Found:
    """The distance of two shapes of a class."""
    if one in CLASSES:
        return rounded(CLASSES[one][0](a, b), a.r, b.r)
    first, second = CONVEX[one]
    d, n, pa, pb = convex(k, minus(a.c, b.c), first(a), second(b))
    return rounded((d, n, plus(pa, 1.0, b.c), plus(pb, 1.0, b.c)), a.r, b.r)


def field_of(T: Any, numbers: Any, name: str) -> Any:
    """A field of a shape from its pose, (4, 4), and its numbers, (6,)."""
    if name in "xyz":
        return T["xyz".index(name), 3]
    if name[0] in "012":
        return T["xyz".index(name[1]), int(name[0])]
    if name in ("ax", "ay", "az"):
        return T["xyz".index(name[1]), 0]
    if name in ("ux", "uy", "uz"):
        return numbers[2] * T["xyz".index(name[1]), 2]
    return numbers[("h0", "h1", "h2", "r", "uu", "iu").index(name)]


@cache
def pair_distances(classes: tuple[str, ...], detailed: bool) -> Kernel:
    """The kernel for some classes of pairs, with normals and nearest points or without.

    Args:
        classes: Names of `CLASSES` and `CONVEX`. Each is a list of runs: the first shape, the first of the others,
            the first pair, and the number of pairs without one.
        detailed: Whether there are results n, (3, p), and p_a and p_b, (2, 3, p), besides d, (p,).
    """
    wanted = dict.fromkeys(name for one in classes for name in fields_of(one))

    def text(k: Any, T: Any, numbers: Any, U: Any, others: Any, *results: Any) -> None:
        lines = {name: k.array("m") for name in wanted}
        for j in k.m:
            pose, own = U[j], others[j]
            for name, line in lines.items():
                line[j] = field_of(pose, own, name)
        for one in classes:
            for (i,), (j,), (p,), (last,) in getattr(k, one):
                pose, own = T[i], numbers[i]
                a = PosedShape(lambda name, pose=pose, own=own: field_of(pose, own, name))  # type: ignore[misc]
                for t in k.t.through(last):
                    b = PosedShape(lambda name, at=j + t: lines[name][at][()])  # type: ignore[misc]
                    if not detailed and one in _ALONE:
                        results[0][p + t] = _ALONE[one](a, b) - a.r - b.r
                        continue
                    d, n, pa, pb = measured(k, one, a, b)
                    results[0][p + t] = d
                    if detailed:
                        results[1][p + t] = np.array(n)
                        results[2][p + t] = np.array([pa, pb])

    def distances(k: Any, T: Any, numbers: Any, U: Any, others: Any, d: Any, normal: Any, points: Any) -> None:
        text(k, T, numbers, U, others, d, normal, points)

    def clearances(k: Any, T: Any, numbers: Any, U: Any, others: Any, d: Any) -> None:
        text(k, T, numbers, U, others, d)

    run: Any = distances if detailed else clearances
    run.__name__ = run.__qualname__ = "_".join((run.__name__, *classes))  # it identifies the compiled code
    outputs = ("d", "normal", "points") if detailed else ("d",)
    axes: dict[str, Any] = {"d": ("p",), "normal": (3, "p"), "points": (2, 3, "p")}
    return kernel(
        T=("n", 4, 4),
        numbers=("n", NUMBERS),
        U=("m", 4, 4),
        others=("m", NUMBERS),
        **{output: axes[output] for output in outputs},
        outputs=outputs,
        lists={key: {"n": 1, "m": 1, "p": 1, "t": 1} for key in classes},
        rounds=("t", *rounds_of(classes)),
    )(run)


@kernel(
    points=("k", 2, 3), normal=("k", 3), screws=("v", 6), moved=("k", "v"), rows=("k", "v"), outputs=("rows",),
)  # fmt: skip
def distance_rows(
    k: Workspace, points: Indexed, normal: Indexed, screws: Indexed, moved: Indexed, rows: Indexed
) -> None:
    """The derivatives nᵀ(J_a − J_b) of distances by the velocities.

    p_a − p_b is parallel to n, so both ends have the same wrench (p × n, n) about the world's origin. `screws` are
    those of the joints there; `moved` is 1 for those that move the first shape alone, −1 for the second, else 0.
    """
    for i in k.k:
        n = normal[i]
        moment = cross(points[i][0], n)
        for c in k.v:
            s = screws[c]
            rows[i, c] = moved[i, c] * (dot(moment, s[:3]) + dot(n, s[3:]))


@kernel(
    d=("p",), normal=(3, "p"), points=(2, 3, "p"), twists=("p", 2, 6), after=("p",), limits=(4,), broken=(),
    outputs=("broken",), sparse=("broken",),
)  # fmt: skip
def damper_check(
    k: Workspace, d: Indexed, normal: Indexed, points: Indexed, twists: Indexed, after: Indexed, limits: Indexed,
    broken: Indexed,
) -> None:  # fmt: skip
    """How many pairs a step brings closer than a velocity damper permits, or leaves too close.

    `twists` are those of both bodies in the step, about the world's origin; `after` are the distances after it.
    `limits` are the share γ of what is left that a step may take, the distance that is kept, by how much a step may end
    below it, and the distance within which pairs count.
    """
    share, kept, spare, within = limits[...]
    for i in k.p:
        n, (first, second) = normal[i], twists[i]
        V = first - second
        rate = dot(cross(points[i][0], n), V[:3]) + dot(n, V[3:])
        too_fast = less(rate, share * (kept - d[i]), 1.0, 0.0)
        least = less(d[i], kept, d[i], kept) - spare
        broken[...] = broken[...] + less(d[i], within, less(after[i], least, 1.0, too_fast), 0.0)
