"""Distances of random pairs of shapes of every kind, against coal and against what proves them.

    python -m tests.fuzz.distances --count 100000

d is compared with coal's; of hulls it is coal's. Where both differ, the plane along the normal decides: it keeps the
shapes s(n) ≤ d apart, and coal's is larger or smaller than what is possible. Of kinds without closed forms, s(n) bounds
d from below; apart, the nearest points bound it from above if they are on their shapes, and inside neither coal's
normal nor any direction of many may be better. Rates nᵀ(v_a − v_b) are compared with differences of d along random
motions; where d has a kink they lie between those of both sides.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import Any

import coal
import numpy as np

from kinetree.kernels.pair_distances import CONVEX
from kinetree.model.convex_distances import ConvexDistances, around
from kinetree.model.shapes import MEASURED, SolidShape
from tests.laws.test_convex_distances import shape
from tests.laws.test_distances import PAIRS, measured, moved, rotations, scenes
from tests.oracles.test_coal import TOLERANCE, theirs

Array = np.ndarray[Any, np.dtype[Any]]

#: Poses of each pair of shapes without closed forms.
_POSES = 100
#: Rates and differences may differ by this [m/s], as far as results are exact, or only certified.
_RATE, _ROUGH = 1e-5, 2e-2
#: Certificates of results without closed forms [m].
CERTIFIED = 1e-6


def closed(kinds: tuple[str, str], count: int, seed: int) -> dict[str, Any]:
    """Pairs with closed forms: how many overlap, the largest difference from coal, how many are wrong."""
    T, numbers = scenes(*kinds, count=count, seed=seed)
    d, n, _ = measured(*kinds, T, numbers)
    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = TOLERANCE
    expected = np.empty(count)
    for k, (poses, sizes) in enumerate(zip(T, numbers, strict=True)):
        (a, b), at = (
            [theirs(kind, own) for kind, own in zip(kinds, sizes, strict=True)],
            [coal.Transform3s(pose[:3, :3], pose[:3, 3]) for pose in poses],
        )
        expected[k] = coal.distance(a, at[0], b, at[1], request, coal.DistanceResult())
    off = np.abs(d - expected)
    disputed = off > TOLERANCE
    bound = sum(
        _reach(kind, T[:, end], numbers[:, end], u) for end, (kind, u) in enumerate(zip(kinds, (-n, n), strict=True))
    )
    proven = np.abs(d + bound) <= TOLERANCE
    rng = np.random.default_rng(seed + 1)
    wrong = _wrong_rates(
        d, n, measured(*kinds, T, numbers)[2], T, rng, lambda moved: measured(*kinds, moved, numbers)[0], 1e-6, _RATE
    )
    return {
        "overlap": (d < 0.0).mean(), "off": off[~disputed].max(initial=0.0), "disputed": int(disputed.sum()),
        "wrong": int((disputed & ~proven).sum()), "wrong rates": wrong,
    }  # fmt: skip


def _reach(kind: str, T: Array, numbers: Array, direction: Array) -> Array:
    """How far shapes reach along directions."""
    if kind == "plane":
        return np.asarray((T[:, :3, 3] * direction).sum(-1))
    u = np.einsum("bji,bj->bi", T[:, :3, :3], direction)
    if kind == "cylinder":
        u[:, 0], u[:, 1] = np.hypot(u[:, 0], u[:, 1]), 0.0
    out = np.abs(u) * numbers[:, :3]
    core = np.linalg.norm(out, axis=-1) if kind == "ellipsoid" else out.sum(-1)
    return np.asarray((T[:, :3, 3] * direction).sum(-1) + core + numbers[:, 3])


def _wrong_rates(
    d: Array, n: Array, points: Array, T: Array, rng: np.random.Generator, again: Any, h: float, tolerance: float
) -> int:
    """How many rates are neither the derivative of d, nor between those of both sides of a kink."""
    twist = rng.uniform(-1.0, 1.0, (len(T), 2, 6))
    velocity = np.cross(twist[..., :3], points) + twist[..., 3:]
    rate = ((velocity[:, 0] - velocity[:, 1]) * n).sum(-1)
    ahead, behind = (again(moved(T, twist, by)) for by in (h, -h))
    right, left = (ahead - d) / h, (d - behind) / h
    low, high = np.minimum(left, right), np.maximum(left, right)
    return int(((rate < low - tolerance) | (rate > high + tolerance)).sum())


def convex(kinds: tuple[str, str], count: int, seed: int) -> dict[str, Any]:
    """Pairs without closed forms."""
    rng = np.random.default_rng(seed)
    done, totals = 0, {"overlap": 0.0, "off": 0.0, "disputed": 0, "wrong": 0, "wrong rates": 0}
    while done < count:
        shapes = shape(kinds[0], rng, "a"), shape(kinds[1], rng, "b")
        number = min(_POSES, count - done)
        T = np.zeros((number, 2, 4, 4))
        T[..., 3, 3] = 1.0
        T[..., :3, :3] = np.stack([rotations(rng, number), rotations(rng, number)], 1)
        T[..., :3, 3] = rng.uniform(-1, 1, (number, 2, 3)) * np.where(np.arange(number) % 2, 0.3, 0.8)[:, None, None]
        measure = ConvexDistances(shapes, np.array([[0, 1]]))
        by_coal = lambda poses, measure=measure: [x[:, 0] for x in measure(poses)]  # noqa: E731
        again, h, tolerance = by_coal, 1e-4, _ROUGH
        if kinds in PAIRS:
            sizes = np.array(
                [[[*one.half, one.around, one.half[2] ** 2, 1.0 / (one.half[2] or np.inf) ** 2] for one in shapes]]
            )
            again = lambda poses, sizes=sizes: measured(*kinds, poses, np.repeat(sizes, len(poses), 0))  # noqa: E731
            h, tolerance = 1e-6, _RATE
        d, n, points = again(T)
        off, wrong = _uncertified(measure, shapes, T, d, n, points)
        if kinds in PAIRS:
            theirs_d = by_coal(T)[0]
            disputed = np.abs(d - theirs_d) > TOLERANCE
            totals["disputed"] += int(disputed.sum())
            wrong |= (d < 0.0) & (theirs_d > d + TOLERANCE)
            wrong |= disputed & (d > 0.0) & (off > TOLERANCE)
        totals["wrong rates"] += _wrong_rates(
            d, n, points, T, rng, lambda moved, again=again: again(moved)[0], h, tolerance
        )
        totals["overlap"] += float((d < 0.0).sum()) / count
        totals["off"], totals["wrong"] = max(totals["off"], off.max()), totals["wrong"] + int(wrong.sum())
        done += number
    return totals


def _uncertified(
    measure: ConvexDistances, shapes: tuple[SolidShape, ...], T: Array, d: Array, n: Array, points: Array
) -> tuple[Array, Array]:
    """Certificates, and whether results are not proven, apart, or beaten by another direction, inside."""
    if shapes[1].kind == "plane":
        low = (measure.support(0, T[:, 0], -n) * n).sum(-1) - (T[:, 1, :3, 3] * n).sum(-1)
        off = np.abs(d - low)
        return off, off > TOLERANCE
    off = measure.certificate(0, 1, T, d, n)
    wrong = off > CERTIFIED * (1.0 + np.abs(d))
    for i in range(2):  # a point on a shape is beyond none of its supports
        for u in around(64):
            reach = (measure.support(i, T[:, i], np.broadcast_to(u, (len(T), 3))) * u).sum(-1)
            wrong |= (d > 0.0) & ((points[:, i] * u).sum(-1) > reach + CERTIFIED)
    for k in np.flatnonzero(d < 0.0):
        u = around(1000)
        a, b = (np.broadcast_to(T[k, i], (len(u), 4, 4)) for i in range(2))
        wrong[k] |= bool(
            (((measure.support(0, a, -u) - measure.support(1, b, u)) * u).sum(-1) > d[k] + CERTIFIED).any()
        )
    return off, wrong


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="pairs of each kind")
    parser.add_argument("--kinds", nargs="+", help="such as capsule-box; all by default")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    every = [
        *PAIRS,
        *(each for each in itertools.combinations_with_replacement(MEASURED, 2) if "hull" in each),
    ]
    wrong = 0
    print("| kinds | overlap | largest difference or certificate [m] | coal differs | wrong | wrong rates | s |")
    for kinds in every:
        if given.kinds and "-".join(kinds) not in given.kinds:
            continue
        start = time.process_time()
        found = (closed if PAIRS.get(kinds, "hulls") not in (*CONVEX, "hulls") else convex)(
            kinds, given.count, given.seed
        )
        seconds = time.process_time() - start
        wrong += found["wrong"] + found["wrong rates"]
        print(
            f"| {'–'.join(kinds)} | {found['overlap']:.0%} | {found['off']:.0e} | {found['disputed']} | "
            f"{found['wrong']} | {found['wrong rates']} | {seconds:.0f} |",
            flush=True,
        )
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
