"""Velocities of free bodies at the end of a step, as they are where impulses act, in its middle.

The linear velocity of a free body is in the body's own axes, which turn. In the axes half a step away it is

    y = E v        E = (1 − [a])⁻¹(1 + [a]),  a = ½h ω        h = ½dt ahead, −½dt back             (1)

a rotation (Cayley's) by 2 atan ½|h ω|, with the angular velocity ω of the body. Without it, a body that rolls would
move into the ground, by ½r(ω dt)² in each step, and come out again at the expense of the contact: the speed of a wheel
on level ground would grow by g dt/(3 r) of itself per second. With y − a×y = v + a×v, changes obey

    δy = E δv + (1 − [a])⁻¹(δa × (y + v))        (1 − [a])⁻¹x = (x + a×x + a aᵀx)/(1 + aᵀa)        (2)
"""

from __future__ import annotations

from typing import Any

from kinetree.kernels.distances import Vector, cross, dot, minus, plus, times
from kinetree.kernels.language import Workspace, kernel
from kinetree.language.tree import Indexed

_FREE: dict[str, Any] = {"lists": {"free": {"n": 6}}}


@kernel(v=("n",), h=(), y=("n",), outputs=("y",), **_FREE)
def turned(k: Workspace, v: Indexed, h: Indexed, y: Indexed) -> None:
    """(1): velocities of all joints, of which those of free bodies change."""
    for c in k.n:
        y[c] = v[c]
    for body in k.free:
        rows = list(body)
        _set(y, rows[3:], _turned(v, h, rows)[2])


@kernel(v=("n",), h=(), before=("n",), start=("n",), y=("n",), outputs=("y",), **_FREE)
def turned_back(k: Workspace, v: Indexed, h: Indexed, before: Indexed, start: Indexed, y: Indexed) -> None:
    """(1) for v, where velocities `before` are those at the `start`, turned: what nothing has hit keeps its bits."""
    for c in k.n:
        y[c] = v[c]
    for body in k.free:
        rows = list(body)
        change = minus(_turned(v, h, rows)[2], _turned(before, h, rows)[2])
        _set(y, rows[3:], plus(_vector(start, rows[3:]), 1.0, change))


@kernel(v=("n",), h=(), dv=("n",), dy=("n",), outputs=("dy",), **_FREE)
def turned_change(k: Workspace, v: Indexed, h: Indexed, dv: Indexed, dy: Indexed) -> None:
    """(2)."""
    for c in k.n:
        dy[c] = dv[c]
    for body in k.free:
        rows = list(body)
        _set(dy, rows[3:], _change(v, h, rows, [dv[c][()] for c in rows]))


@kernel(v=("n",), h=(), w=("n",), by_v=("n",), outputs=("by_v",), **_FREE)
def turned_gradient(k: Workspace, v: Indexed, h: Indexed, w: Indexed, by_v: Indexed) -> None:
    """The gradient of wᵀy."""
    for c in k.n:
        by_v[c] = w[c]
    for body in k.free:
        rows = list(body)
        a, x, y = _turned(v, h, rows)
        turning, weight = (_vector(w, part) for part in (rows[:3], rows[3:]))
        back = times(-1.0, a)
        _set(by_v, rows[:3], plus(turning, 0.5 * h[...], cross(plus(y, 1.0, x), _solved(back, weight))))
        _set(by_v, rows[3:], _rotated(back, weight))


_SQUARE, _TURNED = ("n", "n"), ("q", "v_after", "tau")


@kernel(
    v=("n",), h=(), one=(), by_q=_SQUARE, by_v=_SQUARE, by_tau=_SQUARE, q=_SQUARE, v_after=_SQUARE, tau=_SQUARE,
    outputs=_TURNED, sparse=_TURNED, **_FREE,
)  # fmt: skip
def turned_rows(
    k: Workspace, v: Indexed, h: Indexed, one: Indexed, by_q: Indexed, by_v: Indexed, by_tau: Indexed, q: Indexed,
    v_after: Indexed, tau: Indexed,
) -> None:  # fmt: skip
    """(2), column by column of three matrices; and, times `one`, what it adds to ∂v/∂v, in the second one."""
    for given, found in ((by_q, q), (by_v, v_after), (by_tau, tau)):
        for c in k.n:
            for j in k.n:
                found[c, j] = given[c, j]
        for body in k.free:
            rows = list(body)
            for j in k.n:
                change = _change(v, h, rows, [given[c, j][()] for c in rows])
                for c, value in zip(rows[3:], change, strict=True):
                    found[c, j] = value
    for body in k.free:
        rows = list(body)
        for i, j in enumerate(rows):
            unit = [float(i == c) for c in range(6)]
            for c, value, before in zip(rows[3:], _change(v, h, rows, unit), unit[3:], strict=True):
                v_after[c, j] = v_after[c, j] + one[...] * (value - before)


def _vector(x: Indexed, rows: Any) -> Vector:
    one, two, three = (x[c][()] for c in rows)
    return one, two, three


def _set(x: Indexed, rows: Any, values: Vector) -> None:
    for c, value in zip(rows, values, strict=True):
        x[c] = value


def _turned(v: Indexed, h: Indexed, rows: Any) -> tuple[Vector, Vector, Vector]:
    """a, v and y of a body."""
    a, x = times(0.5 * h[...], _vector(v, rows[:3])), _vector(v, rows[3:])
    return a, x, _rotated(a, x)


def _rotated(a: Vector, x: Vector) -> Vector:
    """E x."""
    return plus(times(2.0, _solved(a, x)), -1.0, x)


def _solved(a: Vector, x: Vector) -> Vector:
    """(1 − [a])⁻¹x."""
    return times(1.0 / (1.0 + dot(a, a)), plus(plus(x, 1.0, cross(a, x)), dot(a, x), a))


def _change(v: Indexed, h: Indexed, rows: Any, given: Any) -> Vector:
    """δy of a body."""
    a, x, y = _turned(v, h, rows)
    along = times(0.5 * h[...], (given[0], given[1], given[2]))
    return plus(_rotated(a, (given[3], given[4], given[5])), 1.0, _solved(a, cross(along, plus(y, 1.0, x))))
