"""Rates of change of distances between moving shapes: ḋ, and J̇v, which is d̈ at zero joint accelerations.

About the world's origin, both ends of a pair have the same wrench w = (p × n, n), with n the normal and p either of the
nearest points. With the twists V of the shapes and their rates A at zero joint accelerations, both there,

    ḋ = w·(V_a − V_b)          J̇v = w·(A_a − A_b) + ẇ·(V_a − V_b)                                       (1)

ẇ is how the nearest points slide and the normal turns: the formulas of the distances on dual numbers, so within a
feature. Where features change, J̇v jumps; of edges that are nearly parallel it has no bound.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kinetree.kernels.branchless import between, less, magnitude
from kinetree.kernels.convex_distances import rate_of, value_of
from kinetree.kernels.distances import cross, dot
from kinetree.kernels.language import Kernel, kernel
from kinetree.kernels.pair_distances import NUMBERS, PosedShape, field_of, fields_of, measured, rounds_of
from kinetree.spatial.dual import Dual

#: J̇v is at most this [m/s²]: more than what robots do, and less than what nearly parallel edges would ask of them.
STEEPEST = 100.0


def moving_field(T: Any, numbers: Any, V: Any, name: str) -> Any:
    """A field of a shape with the twist V, as a dual number; sizes do not change."""
    value = field_of(T, numbers, name)
    if name in ("h0", "h1", "h2", "r", "uu", "iu"):
        return value
    i = "xyz".index(name[-1])
    turn = (V[0], V[1], V[2])
    vector = tuple(field_of(T, numbers, name[:-1] + axis) for axis in "xyz")
    rate = cross(turn, vector)[i]
    return Dual(value, rate + V[3 + i] if len(name) == 1 else rate)


@cache
def distance_rates(classes: tuple[str, ...]) -> Kernel:
    """The kernel for some classes of pairs: d, n and points as `pair_distances`, then ḋ and J̇v, (2, p)."""
    wanted = dict.fromkeys(name for one in classes for name in fields_of(one))

    def rates(
        k: Any, T: Any, numbers: Any, V: Any, A: Any, U: Any, others: Any, W: Any, B: Any,
        d: Any, normal: Any, points: Any, rate: Any,
    ) -> None:  # fmt: skip
        lines = {name: (k.array("m"), k.array("m")) for name in wanted}
        motions = [[k.array("m") for _ in range(6)] for _ in range(2)]
        for j in k.m:
            for name, (line, change) in lines.items():
                found = moving_field(U[j], others[j], W[j], name)
                moves = isinstance(found, Dual)
                line[j] = found.value if moves else found
                if moves:
                    change[j] = found.rate
            for line, motion in zip(motions, (W[j], B[j]), strict=True):
                for i in range(6):
                    line[i][j] = motion[i]
        for one in classes:
            for (i,), (j,), (p,), (last,) in getattr(k, one):

                def first(name: str, i: Any = i) -> Any:
                    return moving_field(T[i], numbers[i], V[i], name)

                a = PosedShape(first)
                for t in k.t.through(last):

                    def second(name: str, at: Any = j + t) -> Any:
                        line, change = lines[name]
                        sized = name in ("h0", "h1", "h2", "r", "uu", "iu")
                        return line[at][()] if sized else Dual(line[at][()], change[at][()])

                    b = PosedShape(second)
                    distance, n, pa, pb = measured(k, one, a, b)
                    moment = cross(pa, n)
                    turn, shift, spin, lift = (
                        tuple(own[i][h] - line[h][j + t][()] for h in range(start, start + 3))
                        for own, line in ((V, motions[0]), (A, motions[1]))
                        for start in (0, 3)
                    )
                    closing = dot(moment, turn) + dot(n, shift)  # (1), and its rate
                    drift = rate_of(closing) + value_of(dot(moment, spin)) + value_of(dot(n, lift))
                    drift = less(magnitude(drift), np.inf, between(drift, -STEEPEST, STEEPEST), 0.0)
                    d[p + t] = value_of(distance)
                    normal[p + t] = np.array([value_of(x) for x in n])
                    points[p + t] = np.array([[value_of(x) for x in point] for point in (pa, pb)])
                    rate[p + t] = np.array([value_of(closing), drift])

    run: Any = rates
    run.__name__ = run.__qualname__ = "_".join(("distance_rates", *classes))  # it identifies the compiled code
    return kernel(
        T=("n", 4, 4), numbers=("n", NUMBERS), V=("n", 6), A=("n", 6),
        U=("m", 4, 4), others=("m", NUMBERS), W=("m", 6), B=("m", 6),
        d=("p",), normal=(3, "p"), points=(2, 3, "p"), rate=(2, "p"), outputs=("d", "normal", "points", "rate"),
        lists={key: {"n": 1, "m": 1, "p": 1, "t": 1} for key in classes}, rounds=("t", *rounds_of(classes)),
    )(run)  # fmt: skip
