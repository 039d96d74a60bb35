"""Contacts of shapes of given poses and velocities: those that can close within a time step, one after another.

    broad     pairs whose bounding spheres, each with what its body can move in the step, stay apart are left out; of
              boxes also those that a plane along one of their faces keeps apart
    narrow    candidates of the others (`kinetree.kernels.manifolds`)
    compact   candidates whose gap is at most `margin` and what they can approach in the step become contacts

So what cannot be touched costs one comparison, and nothing in what follows: contacts of a sample are the first of c
rows, whatever the number of pairs. Those that are too many are counted, and left out.

A contact has twelve numbers: its point, half-way between two bodies, or of the body that touches the world; its normal
from the second body to the first, its gap, μ, the nodes of both bodies counted from 1 on (0 for the world), the larger
one of these, and the number of its candidate. Rows that are not used are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from kinetree.kernels.branchless import above, larger, less, smaller, where
from kinetree.kernels.distances import Vector, cross, dot, minus, plus
from kinetree.kernels.field_probes import PROBED
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.kernels.manifolds import MANIFOLDS, SEVERAL, PosedHull
from kinetree.kernels.pair_distances import PosedShape, field_of
from kinetree.language.tree import Indexed
from kinetree.spatial.scalar import magnitude, sqrt

#: Numbers of a shape: those of `pair_distances`, and the radius of the sphere around it.
SIZES = 7
#: Numbers of a contact.
CONTACT = 12
#: Kinds of pairs, as lists of the kernel.
CLASSES = {"_".join(kinds): found for kinds, found in MANIFOLDS.items()}
#: The one whose first shape has vertices.
HULL = "hull_plane"
#: Those that are worth a better test first.
BESIDE_BOXES = ("capsule_box", "box_box", "box_box_rounded")

_ARGUMENTS: dict[str, Any] = {
    "T": ("n", 4, 4), "sizes": ("n", SIZES), "twist": ("n", 6), "U": ("m", 4, 4), "others": ("m", SIZES),
    "twists": ("m", 6), "vertices": ("w", 3), "probed": ("f", PROBED), "of": ("s", 3), "number": ("c",),
    "limits": (2,), "laws": (2, 5),
    "contacts": ("c", CONTACT), "count": (), "law": (5,),
}  # fmt: skip


@cache
def contact_discovery(classes: tuple[str, ...]) -> Kernel:
    """The kernel for some kinds of pairs.

    Its lists are `near` and `above` of the broad phase, for pairs of solids and with planes: a shape, the first of
    consecutive others, the first pair, and how many follow it; `fields`, candidates that are probes of height fields
    (`kinetree.kernels.field_probes`); and one for each class: two shapes, their pair, and the first of their
    candidates; of hulls also the first of their `vertices`, and how many follow it.

    `of` are μ and the nodes of the bodies of each candidate, from 1 on; `number` counts from zero on; `limits` are dt
    and the margin. `law` is the first of two laws if all contacts are on bodies of their own and against the world,
    else the second.
    """

    def text(
        k: Workspace, T: Indexed, sizes: Indexed, twist: Indexed, U: Indexed, others: Indexed, twists: Indexed,
        vertices: Indexed, probed: Indexed, of: Indexed, number: Indexed, limits: Indexed, laws: Indexed,
        contacts: Indexed, count: Indexed, law: Indexed,
    ) -> None:  # fmt: skip
        dt, margin = limits[...]
        far, moved = _broad(k, T, sizes, twist, U, others, twists, dt, margin)
        fields = [k.array("s") for _ in range(8)]  # point, normal, gap, and whether it is out of reach
        for s in k.s:
            fields[7][s] = 1.0
        for one in classes:
            manifold, _ = CLASSES[one]
            for (i,), (j,), (p,), slots, *corners in getattr(k, one):
                a, b = _posed(T[i], sizes[i]), _posed(U[j], others[j])
                if one == HULL:
                    read, of_hull = partial(field_of, T[i], sizes[i]), (k, vertices, *corners)
                    a = PosedHull(read, partial(farthest, *of_hull), partial(farthest_off, *of_hull))
                skip = k.scalar(far[p])
                if one in BESIDE_BOXES:
                    for _ in k.once.until(skip):
                        skip[...] = less(_slabs(a, b), margin + moved[0][i] + moved[1][j], skip[...], 1.0)
                        far[p] = skip[...]
                        skip[...] = 1.0
                    skip[...] = far[p]
                for _ in k.once.until(skip):
                    for s, (gap, normal, point) in zip(slots, manifold(a, b), strict=True):
                        reach = margin + dt * _speed(point, a.c, twist[i], b.c, twists[j])
                        off = where(skip[...], 1.0, less(gap, reach, 0.0, 1.0))
                        for field, value in zip(fields, (*point, *normal, gap, off), strict=True):
                            field[s] = value
                    skip[...] = 1.0
        for (s,), (f,) in k.fields:
            for field, value in zip(fields, probed[f], strict=True):
                field[s] = value
        _compact(k, fields, of, number, laws, contacts, count, law)

    text.__name__ = text.__qualname__ = "_".join(("contacts", *classes))  # it identifies the compiled code
    pairs = {"n": 1, "m": 1, "p": 1, "t": 1}
    lists = {one: {"n": 1, "m": 1, "p": 1, "s": CLASSES[one][1]} for one in classes}
    if HULL in lists:
        lists[HULL] |= {"w": 1, "e": 1}
    return kernel(
        **_ARGUMENTS, outputs=("contacts", "count", "law"), sparse=("contacts",),
        lists={"near": pairs, "above": pairs, "fields": {"s": 1, "f": 1}, **lists}, rounds=("p", "t", "e", "once"),
    )(text)  # fmt: skip


def _posed(pose: Any, sizes: Any) -> PosedShape:
    return PosedShape(lambda name: field_of(pose, sizes, name))


def farthest(k: Workspace, vertices: Indexed, first: Any, last: Any, directions: Sequence[Vector]) -> list[Vector]:
    """Of consecutive vertices, the first one that is farthest along each direction."""
    (w,), (e,) = first, last
    best = [(k.scalar(-np.inf), [k.scalar(0.0) for _ in range(3)]) for _ in directions]
    for t in k.e.through(e):
        vertex = tuple(vertices[w + t])
        for (high, place), direction in zip(best, directions, strict=True):
            height = dot(direction, vertex)
            for entry, x in zip(place, vertex, strict=True):
                entry[...] = above(height, high[...], x, entry[...])
            high[...] = above(height, high[...], height, high[...])
    return [tuple(entry[...][()] for entry in place) for _, place in best]


def farthest_off(
    k: Workspace, vertices: Indexed, first: Any, last: Any, direction: Vector, out: Vector, plane: Any, least: Any
) -> list[tuple[Vector, Any]]:
    """Of consecutive vertices, those farthest along a direction that are not in a plane; and whether there are any."""
    (w,), (e,) = first, last
    best = [(k.scalar(-np.inf), [k.scalar(0.0) for _ in range(3)]) for _ in range(SEVERAL)]
    for t in k.e.through(e):
        vertex = tuple(vertices[w + t])
        height = above(magnitude(dot(out, vertex) - plane), least, dot(direction, vertex), -np.inf)
        for high, place in best:  # each takes the place of a lower one, which moves on
            was = high[...][()], [entry[...][()] for entry in place]
            hit = above(height, was[0], 1.0, 0.0)
            for entry, x, old in zip(place, vertex, was[1], strict=True):
                entry[...] = where(hit, x, old)
            high[...] = where(hit, height, was[0])
            height = where(hit, was[0], height)
            vertex = tuple(where(hit, old, x) for x, old in zip(vertex, was[1], strict=True))
    return [(tuple(entry[...][()] for entry in place), above(high[...], -np.inf, 1.0, 0.0)) for high, place in best]


def _broad(
    k: Workspace, T: Indexed, sizes: Indexed, twist: Indexed, U: Indexed, others: Indexed, twists: Indexed,
    dt: Any, margin: Any,
) -> tuple[Indexed, tuple[Indexed, Indexed]]:  # fmt: skip
    """For each pair, 1 if it cannot touch within the step; how far anything of each shape can move in it."""
    reach, lines, far = k.array("n"), [k.array("m") for _ in range(7)], k.array("p")
    moved = k.array("n"), k.array("m")
    for i in k.n:
        moved[0][i] = _moved(sizes[i], twist[i], dt)
        reach[i] = sizes[i][6] + moved[0][i]
    for j in k.m:
        pose = U[j]
        moved[1][j] = _moved(others[j], twists[j], dt)
        row = (*pose[:3, 3], others[j][6] + moved[1][j], *pose[:3, 2])
        for line, value in zip(lines, row, strict=True):
            line[j] = value
    for (i,), (j,), (p,), (last,) in k.near:
        x, y, z = T[i][:3, 3]
        own = reach[i] + margin
        for t in k.t.through(last):
            dx, dy, dz = x - lines[0][j + t], y - lines[1][j + t], z - lines[2][j + t]
            both = own + lines[3][j + t]
            far[p + t] = less(both * both, dx * dx + dy * dy + dz * dz, 1.0, 0.0)
    for (i,), (j,), (p,), (last,) in k.above:
        x, y, z = T[i][:3, 3]
        own = reach[i] + margin
        for t in k.t.through(last):
            dx, dy, dz = x - lines[0][j + t], y - lines[1][j + t], z - lines[2][j + t]
            up = dx * lines[4][j + t] + dy * lines[5][j + t] + dz * lines[6][j + t]
            far[p + t] = less(own, up, 1.0, 0.0)
    return far, moved


def _moved(sizes: Any, twist: Any, dt: Any) -> Any:
    """How far anything of a shape can move within a step."""
    turning, moving = (sqrt(part @ part) for part in (twist[:3], twist[3:]))
    return dt * (moving + turning * sizes[6])


def _slabs(a: PosedShape, b: PosedShape) -> Any:
    """The largest gap of a box b and the box around a that has its axes."""
    found = None
    c, axes = b.inside(minus(a.c, b.c)), [b.inside(axis) for axis in a.axes]
    for i in range(3):
        reach = sum(magnitude(axis[i]) * h for axis, h in zip(axes, a.h, strict=True))
        gap = magnitude(c[i]) - reach - b.h[i] - a.r - b.r
        found = gap if found is None else larger(found, gap)
    return found


def _speed(point: Vector, ca: Vector, a: Any, cb: Vector, b: Any) -> Any:
    """The relative speed of two bodies at a point."""
    v = [plus(tuple(x[3:]), 1.0, cross(tuple(x[:3]), minus(point, c))) for c, x in ((ca, a), (cb, b))]
    apart = minus(v[0], v[1])
    return sqrt(dot(apart, apart))


def _compact(
    k: Workspace, fields: list[Indexed], of: Indexed, number: Indexed, laws: Indexed, contacts: Indexed,
    count: Indexed, law: Indexed,
) -> None:  # fmt: skip
    """Copy the candidates that are within reach to the first rows; count them, and choose the law."""
    total, candidate, shared = k.scalar(0.0), k.scalar(0.0), k.scalar(0.0)
    for s in k.s:
        off = k.scalar(fields[7][s])
        for _ in k.once.until(off):
            mu, first, second = of[s]
            moving, still = larger(first, second), smaller(first, second)
            x, y, z, nx, ny, nz, gap = (field[s][()] for field in fields[:7])
            # bodies that touch the world do so with points of their own
            aside = (less(second, 0.5, 0.5, 0.0) - less(first, 0.5, 0.5, 0.0)) * gap
            point = plus((x, y, z), aside, (nx, ny, nz))
            row = [*point, nx, ny, nz, gap, mu, first, second, moving, candidate[...]]
            here = where(off[...], -1.0, total[...])
            # a body that touches another one, or touches twice
            shared[...] = shared[...] + where(off[...], 0.0, less(still, 0.5, 0.0, 1.0))
            past = k.scalar(off[...])
            for j in k.c.until(past):
                was = contacts[j]
                away, apart = number[j] - here, was[10] - moving
                hit = less(away * away, 0.25, 1.0, 0.0)
                shared[...] = shared[...] + where(past[...], 0.0, less(apart * apart, 0.25, 1.0, 0.0))
                contacts[j] = np.array([where(hit, new, old) for new, old in zip(row, was, strict=True)])
                past[...] = less(number[j], here - 0.5, past[...], 1.0)
            total[...] = total[...] + where(off[...], 0.0, 1.0)
            off[...] = 1.0
        candidate[...] = candidate[...] + 1.0
    count[...] = total[...]
    law[...] = np.array([less(shared[...], 0.5, a, b) for a, b in zip(*laws[...], strict=True)])
