"""How discovered contacts move with their first bodies: derivatives of points, normals and gaps.

The formulas of `kinetree.kernels.manifolds` on dual numbers, along six screws of the first body about the world's
origin. The second body moves a contact as the first one moves it back: if both move together, points and normals move
along, and gaps stay. So

    δ(x, n, h) = D (ξ_a − ξ_b) + (ω_b × x + v_b, ω_b × n, 0)                                       (1)

with D, which this file computes. A contact is found again by the number of its candidate. Features do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from kinetree.kernels.branchless import less, where
from kinetree.kernels.contact_discovery import CLASSES, CONTACT, HULL, SIZES, farthest, farthest_off
from kinetree.kernels.convex_distances import rate_of, value_of
from kinetree.kernels.distance_rates import moving_field
from kinetree.kernels.distances import Vector
from kinetree.kernels.field_probes import ground_below
from kinetree.kernels.language import Kernel, Workspace, kernel
from kinetree.kernels.manifolds import PosedHull
from kinetree.kernels.pair_distances import PosedShape, field_of
from kinetree.language.tree import Indexed
from kinetree.spatial.dual import Dual
from kinetree.spatial.scalar import sqrt

#: Numbers of a contact that change: its point, its normal and its gap.
CHANGING = 7

_FOUND: dict[str, Any] = {
    "number": ("s",), "contacts": ("c", CONTACT), "screws": ("d", 6), "rates": ("c", "d", CHANGING),
}  # fmt: skip


@cache
def contact_rates(classes: tuple[str, ...]) -> Kernel:
    """The kernel for some kinds of pairs: D of (1) for each contact, (c, 6, 7). Lists are as of `contact_discovery`."""

    def text(
        k: Workspace, T: Indexed, sizes: Indexed, U: Indexed, others: Indexed, vertices: Indexed, number: Indexed,
        contacts: Indexed, screws: Indexed, rates: Indexed,
    ) -> None:  # fmt: skip
        for one in classes:
            manifold, _ = CLASSES[one]
            for (i,), (j,), _, slots, *corners in getattr(k, one):
                none = k.scalar(1.0)
                for c in k.c:
                    none[...] = where(_is(contacts[c], number[slots[0]], number[slots[-1]]), 0.0, none[...])
                for _ in k.once.until(none):
                    for d in k.d:
                        read = partial(moving_field, T[i], sizes[i], screws[d])
                        a = PosedShape(read)
                        if one == HULL:
                            of_hull = k, vertices, *corners
                            lowest = partial(_lowest, partial(farthest, *of_hull))
                            a = PosedHull(read, lowest, partial(_off, partial(farthest_off, *of_hull)))
                        b = PosedShape(partial(field_of, U[j], others[j]))
                        for s, (gap, normal, point) in zip(slots, manifold(a, b), strict=True):
                            for c in k.c:
                                hit = _is(contacts[c], number[s], number[s])
                                new = _rates(contacts[c], point, normal, gap)
                                rates[c, d] = _chosen(hit, new, rates[c, d])
                    none[...] = 1.0

    text.__name__ = text.__qualname__ = "_".join(("contact_rates", *classes))  # it identifies the compiled code
    lists = {one: {"n": 1, "m": 1, "p": 1, "s": CLASSES[one][1]} for one in classes}
    if HULL in lists:
        lists[HULL] |= {"w": 1, "e": 1}
    return kernel(
        T=("n", 4, 4), sizes=("n", SIZES), U=("m", 4, 4), others=("m", SIZES), vertices=("w", 3), **_FOUND,
        outputs=("rates",), sparse=("rates",), lists=lists, rounds=("p", "e", "once"),
    )(text)  # fmt: skip


@kernel(
    T=("n", 4, 4), probe=("f", 4), pose=(4, 4), heights=("a", "b"), rows=("a",), columns=("b",), grid=(5,),
    **_FOUND, before=("c", "d", CHANGING), outputs=("rates",), sparse=("rates",), rounds=("once",),
    lists={"probes": {"n": 1, "f": 1, "s": 1}},
)  # fmt: skip
def field_rates(
    k: Workspace, T: Indexed, probe: Indexed, pose: Indexed, heights: Indexed, rows: Indexed, columns: Indexed,
    grid: Indexed, number: Indexed, contacts: Indexed, screws: Indexed, before: Indexed, rates: Indexed,
) -> None:  # fmt: skip
    """The same of probes above a height field, which does not move; other contacts have what was `before`."""
    base = pose[...]
    for c in k.c:
        for d in k.d:
            rates[c, d] = before[c, d]
    for (i,), (f,), (s,) in k.probes:
        none = k.scalar(1.0)
        for c in k.c:
            none[...] = where(_is(contacts[c], number[s], number[s]), 0.0, none[...])
        for _ in k.once.until(none):
            place, (*at, radius) = T[i], probe[f]
            world = place[:3, 3] + place[:3, :3] @ np.array(at)
            local = base[:3, :3].T @ (world - base[:3, 3])
            h, slopes, twist = ground_below(k, local, heights, rows, columns, grid)
            for d in k.d:
                V = screws[d]
                moved = V[3:] + np.cross(V[:3], world)
                x, y, z = (Dual(p, r) for p, r in zip(local, base[:3, :3].T @ moved, strict=True))
                a, b = Dual(slopes[0], twist * y.rate), Dual(slopes[1], twist * x.rate)
                up = 1.0 / sqrt(1.0 + a * a + b * b)
                height = Dual(h, slopes[0] * x.rate + slopes[1] * y.rate)
                n = [sum(base[r, q] * e for q, e in enumerate((-a * up, -b * up, up))) for r in range(3)]
                gap = (z - height) * up - radius
                point = [Dual(p, r) - (radius + 0.5 * gap) * e for p, r, e in zip(world, moved, n, strict=True)]
                for c in k.c:
                    hit = _is(contacts[c], number[s], number[s])
                    rates[c, d] = _chosen(hit, _rates(contacts[c], point, n, gap), rates[c, d])
            none[...] = 1.0


def _lowest(farthest: Any, directions: Sequence[Vector]) -> list[Vector]:
    """Vertices of a hull stay where they are in its axes."""
    found: list[Vector] = farthest([tuple(map(value_of, direction)) for direction in directions])
    return found


def _off(farthest_off: Any, direction: Vector, out: Vector, plane: Any, least: Any) -> list[tuple[Vector, Any]]:
    """The same of those off a plane."""
    values = [tuple(map(value_of, each)) for each in (direction, out)]
    found: list[tuple[Vector, Any]] = farthest_off(*values, value_of(plane), value_of(least))
    return found


def _is(contact: Any, first: Any, last: Any) -> Any:
    """1 if a contact is used, and the number of its candidate between two numbers."""
    inside = less(contact[11], first - 0.5, 0.0, less(contact[11], last + 0.5, 1.0, 0.0))
    return less(contact[10], 0.5, 0.0, inside)


def _rates(contact: Any, point: Any, normal: Any, gap: Any) -> list[Any]:
    """Rates of a contact's point, normal and gap. Bodies that touch the world do so with points of their own."""
    aside = less(contact[9], 0.5, 0.5, 0.0) - less(contact[8], 0.5, 0.5, 0.0)
    h, rate = value_of(gap), rate_of(gap)
    turns = [rate_of(x) for x in normal]
    moves = [
        rate_of(x) + aside * (rate * value_of(n) + h * turn) for x, n, turn in zip(point, normal, turns, strict=True)
    ]
    return [*moves, *turns, rate]


def _chosen(hit: Any, new: Sequence[Any], old: Any) -> Any:
    return np.array([where(hit, x, y) for x, y in zip(new, old, strict=True)])
