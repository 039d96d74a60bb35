"""Signed distances of shapes that are sums of ellipsoids, by interior-point steps with a certificate.

A shape is a centre and a sum of terms {Wᵀw, |w| ≤ 1}: the one row of W is the half axis of a segment, two are those of
a disc, three those of an ellipsoid; a box is three segments, a cylinder a disc and a segment. With c from the centre of
b to that of a, and all terms of both, the difference n of the nearest points and the multipliers λ fulfil

    n = c − Σ Wᵀw        W n = λ w        ½ λ (1 − |w|²) = μ → 0                                              (1)

Newton's steps for it need one system of three equations, (I + Σ WᵀM⁻¹W) dn = …, with M = λ (I + w wᵀ/q) and q = ½ (1 −
|w|²), whose inverse S Sᵀ is made of its rows, one after the other [P63]: products of W with themselves would lose half
of the digits. Predictor and corrector are those of [M92]; λ stays at or above |W n|. The distance d = |n| is at most

    d − s(n/d) = Σ (|W n| − w·W n) / d        s(u) = c·u − Σ |W u|                                            (2)

too large, as s bounds it from below: that is the certificate.

Where shapes overlap, d is the largest s(u), which `depths` finds. From there, a is moved by t = ε − s(u) along u, out
of b; the normal u' that it then has gives s(u') ≥ s(u), and u' = u is the maximum, with the nearest points. These
rounds converge with the ratio of t to the radius of curvature; Newton's step, from the derivative of u' by u, squares
what is left.

[M92] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization 2, 1992.
[P63] J. Potter, R. Stern, "Statistical filtering of space navigation measurements", AIAA Guidance and Control, 1963.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less, magnitude, smaller, where
from kinetree.kernels.depths import CELLS, Rows, along, apart_along, deepest, inner, size_of, take, unit
from kinetree.kernels.distances import TINY, Found, Vector, cross, dot, minus, plus, times
from kinetree.kernels.language import Scalar, Workspace
from kinetree.spatial.dual import Dual
from kinetree.spatial.scalar import Constant, sqrt

#: Most steps for one position of both shapes, most positions, and most cells of directions.
SIZES = {"steps": 16, "again": 24, "cells": CELLS, "once": 1}
#: All lengths are relative to the sum of those of both shapes' terms. Certificates (2) that are good; what is above the
#: second one is no result, but NaN.
_GOOD, _WORST = Constant(1e-9, 3e-5), Constant(1e-6, 1e-3)
# λ at the start; the least μ; the least λ and q; the part of the way to the boundary; the least reduction of μ.
_START, _LEAST, _FLOOR, _PART, _REDUCED = 0.03, Constant(1e-17, 1e-9), Constant(1e-25, 1e-11), 0.98, 0.02
# What is above −s.
_UNLIKELY = 1e9
# The least λ in derivatives.
_SMALL = Constant(1e-8, 1e-4)
# The rise of d, relative to it, for which another step is done.
_PAYS = Constant(1e-15, 1e-6)
# How far shapes that overlap are moved apart; by how little more d' is at a local maximum; the least eigenvalue of what
# Newton's step for them divides by.
_APART, _SETTLED, _STEEP = 0.05, Constant(1e-14, 1e-7), 1e-4


class _Term:
    """A term of one of the shapes, with its w, W n, λ and q."""

    def __init__(self, k: Workspace, rows: Rows, of_first: bool) -> None:
        self.rows, self.of_first = rows, of_first
        self.w, self.z = ([k.scalar(0.0) for _ in rows] for _ in range(2))
        self.force, self.q = k.scalar(0.0), k.scalar(0.5)

    def start(self, c: Vector) -> None:
        z = along(self.rows, c)
        for w, entry, value in zip(self.w, self.z, z, strict=True):
            w[...], entry[...] = 0.0, value
        self.q[...] = 0.5
        self.force[...] = _START * norm(self.rows) + size_of(z) + _LEAST

    def read(self) -> tuple[list[Any], Any, Any]:
        """w, λ and q."""
        return [w[...][()] for w in self.w], self.force[...][()], self.q[...][()]

    def across(self, w: list[Any]) -> Vector:
        """Wᵀ w."""
        found = times(w[0], self.rows[0])
        for x, row in zip(w[1:], self.rows[1:], strict=True):
            found = plus(found, x, row)
        return found


def norm(rows: Rows) -> Any:
    """The size of a term."""
    return sqrt(sum(dot(row, row) for row in rows))


def convex(k: Workspace, c: Vector, first: list[Rows], second: list[Rows]) -> Found:
    """d, n, and the nearest points in relation to the centre of b.

    Args:
        k: The workspace of a kernel with the sizes `SIZES`.
        c: From the centre of the second shape to that of the first; may consist of dual numbers, as may rows.
        first: The terms of the first shape.
        second: Those of the second one.
    """
    scale = 1.0 / sum(value_of(norm(rows)) for rows in (*first, *second))
    moving = times(scale, c), [tuple(times(scale, row) for row in rows) for rows in (*first, *second)]
    here = _values(moving[0])
    terms = [_Term(k, tuple(map(_values, rows)), i < len(first)) for i, rows in enumerate(moving[1])]
    own, over = _Depth(k), k.scalar(0.0)
    over[...] = less(dot(here, here) + sum(norm(term.rows) for term in terms), np.inf, 0.0, 1.0)
    _ascend(k, here, terms, own, over)
    return _result(moving, terms, len(first), own, scale)


class _Depth:
    """A direction u with s and t; u', the nearest point of a, d' from there, and the certificate."""

    def __init__(self, k: Workspace) -> None:
        self.u, self.to, self.point = ([k.scalar(0.0) for _ in range(3)] for _ in range(3))
        self.s, self.t, self.far, self.off = k.scalar(-np.inf), k.scalar(0.0), k.scalar(0.0), k.scalar(np.inf)


def _ascend(k: Workspace, c: Vector, terms: list[_Term], own: _Depth, over: Scalar) -> None:
    """What the shapes are where they are; if that is not good, from the best of all directions to the maximum there."""
    rows = [term.rows for term in terms]
    unproven, searched = k.scalar(0.0), k.scalar(0.0)
    for _ in k.again.until(over):
        was, shift, skip = _read(own.u), own.t[...][()], over[...][()]
        to, point, far, off = _apart(k, plus(c, shift, was), terms, over)
        # apart, or where d' is what it was moved apart, and so u' = u
        missing = off + less(-shift, 0.0, magnitude(far - _APART), 0.0)
        for entry, value in zip((*own.to, *own.point, own.far, own.off), (*to, *point, far, missing), strict=True):
            entry[...] = where(skip, entry[...], value)
        over[...] = where(skip, 1.0, less(missing, less(-shift, 0.0, _SETTLED, _GOOD), 1.0, 0.0))
        last, idle = k.scalar(over[...]), k.scalar(larger(over[...], searched[...]))
        fresh = 1.0 - idle[...][()]
        for _ in k.once.until(idle):
            take(own.u, own.s, to, c, rows, idle[...][()])
            unproven[...] = larger(unproven[...], deepest(k, c, rows, own.u, own.s, idle))
            idle[...] = 1.0
        for _ in k.once.until(last):
            before, skip = own.s[...][()], last[...][()]
            for each in (to, _newton(terms, shift, far, was, to)):
                take(own.u, own.s, each, c, rows, larger(skip, fresh))
            # if nothing is better, this is as good as it becomes
            over[...] = where(larger(skip, fresh), over[...], less(before, own.s[...], 0.0, 1.0))
            own.t[...] = where(skip, own.t[...], larger(_APART - own.s[...], 0.0))
            last[...] = 1.0
        searched[...] = 1.0
    own.off[...] = own.off[...] + where(unproven[...], np.inf, 0.0)


def _apart(k: Workspace, c: Vector, terms: list[_Term], settled: Scalar) -> tuple[Vector, Vector, Any, Any]:
    """The normal, the nearest point of a, d from below, and the certificate (2), of shapes that are apart."""
    for term in terms:
        term.start(c)
    rows = [term.rows for term in terms]
    low, high, done = k.scalar(-_UNLIKELY), k.scalar(np.inf), k.scalar(settled[...])
    u, point, n = ([k.scalar(x) for x in start] for start in ((0.0,) * 3, (0.0,) * 3, c))
    for _ in k.steps.until(done):
        rest, own = c, c
        for term in terms:
            part = term.across(term.read()[0])
            rest, own = minus(rest, part), minus(own, part) if term.of_first else own
        to, over = unit(_read(n)), done[...][()]
        s, far = apart_along(c, rows, to), sqrt(dot(rest, rest))
        higher = where(over, 0.0, less(low[...] + _PAYS * magnitude(low[...]), s, 1.0, 0.0))
        nearer = where(over, 0.0, less(far, high[...], 1.0, 0.0))
        for entry, value in zip((*u, low), (*to, s), strict=True):
            entry[...] = where(higher, value, entry[...])
        for entry, value in zip((*point, high), (*own, far), strict=True):
            entry[...] = where(nearer, value, entry[...])
        # once it is good, as long as steps pay
        done[...] = where(over, 1.0, less(high[...] - low[...], _GOOD, 1.0 - higher, 0.0))
        _step(terms, n, rest)
    return _read(u), _read(point), low[...][()], high[...] - low[...]


def _step(terms: list[_Term], n: list[Scalar], rest: Vector) -> None:
    """Predictor and corrector; `rest` is c − Σ Wᵀw."""
    states = []
    # n and W n are changed by dn and W dn: where W n is zero, the rounding of n from w would be larger than λ
    products, left = [[z[...][()] for z in term.z] for term in terms], minus(rest, _read(n))
    for term, z in zip(terms, products, strict=True):
        w, force, q = term.read()
        states.append((w, larger(force, size_of(z)), q))
    S = _factor(terms, states)
    mu = sum(force * q for _, force, q in states) / len(terms)
    first, _ = _direction(terms, states, products, left, S, 0.0, None)
    reach = smaller(_reach(states, first), 1.0)
    after: Any = 0.0
    for (w, force, q), (dw, df) in zip(states, first, strict=True):
        after = after + (force + reach * df) * _moved(q, w, dw, reach)
    share = after / (mu * len(terms))
    share = larger(share * share * share, _REDUCED)
    second, dn = _direction(terms, states, products, left, S, larger(share * mu, _LEAST), first)
    reach = smaller(_PART * _reach(states, second), 1.0)
    for entry, dx in zip(n, dn, strict=True):
        entry[...] = entry[...] + reach * dx
    for term, (w, force, q), (dw, df) in zip(terms, states, second, strict=True):
        for entry, x, dx in zip(term.w, w, dw, strict=True):
            entry[...] = x + reach * dx
        for entry, dz in zip(term.z, along(term.rows, dn), strict=True):
            entry[...] = entry[...] + reach * dz
        term.q[...] = larger(_moved(q, w, dw, reach), _FLOOR)
        term.force[...] = larger(force + reach * df, _FLOOR)


def _factor(terms: list[_Term], states: list[Any]) -> list[Vector]:
    """The columns of S, with S Sᵀ = (I + Σ WᵀM⁻¹W)⁻¹, from the rows of B W/√λ with BᵀB = I − w wᵀ/(q + |w|²) [P63]."""
    S: list[Vector] = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    for term, (w, force, q) in zip(terms, states, strict=True):
        whole = q + inner(w, w)
        less_along = 1.0 / (whole * (1.0 + sqrt(q / whole)))
        both = times(less_along, term.across(w))
        for x, row in zip(w, term.rows, strict=True):
            v = plus(row, -x, both)
            f = [dot(column, v) for column in S]
            size = inner(f, f) + force
            gain = 1.0 / (size + sqrt(size * force))
            g = plus(plus(times(f[0], S[0]), f[1], S[1]), f[2], S[2])
            S = [plus(column, -gain * x_f, g) for column, x_f in zip(S, f, strict=True)]
    return S


def _direction(
    terms: list[_Term], states: list[Any], products: list[Any], left: Vector, S: list[Vector], mu: Any, first: Any
) -> Any:
    """The changes of w and λ of each term, and dn, towards a μ; with what is of second order in the predictor's."""
    right, sides = left, []
    for i, (term, (w, force, q), z) in enumerate(zip(terms, states, products, strict=True)):
        gap, side = mu - force * q, [a - force * x for a, x in zip(z, w, strict=True)]
        if first is not None:
            dw, df = first[i]
            side = [a - df * dx for a, dx in zip(side, dw, strict=True)]
            gap = gap + df * inner(w, dw) + 0.5 * force * inner(dw, dw)
        side = [a - x * (gap / q) for a, x in zip(side, w, strict=True)]
        sides.append((side, gap))
        right = minus(right, term.across(_divided(side, w, force, q)))
    dn = _spread(S, [dot(column, right) for column in S])
    found = []
    for term, (w, force, q), (side, gap) in zip(terms, states, sides, strict=True):
        dw = _divided([a + b for a, b in zip(along(term.rows, dn), side, strict=True)], w, force, q)
        found.append((dw, (gap + force * inner(w, dw)) / q))
    return found, dn


def _divided(side: list[Any], w: list[Any], force: Any, q: Any) -> list[Any]:
    """M⁻¹ times a vector."""
    part = inner(w, side) / (q + inner(w, w))
    return [(a - part * x) / force for a, x in zip(side, w, strict=True)]


def _reach(states: list[Any], changes: Any) -> Any:
    """How much of some changes leaves |w| ≤ 1 and λ ≥ 0; two if all of it does."""
    found: Any = 2.0
    for (w, force, q), (dw, df) in zip(states, changes, strict=True):
        square, half = inner(dw, dw), inner(w, dw)
        root = sqrt(half * half + 2.0 * square * q)
        end = less(half, 0.0, (root - half) / (square + TINY), 2.0 * q / (half + root + TINY))
        found = smaller(end, found)
        found = smaller(less(df, 0.0, -force / less(df, 0.0, df, -1.0), 2.0), found)
    return found


def _moved(q: Any, w: list[Any], dw: list[Any], reach: Any) -> Any:
    """q = ½ (1 − |w|²) after a step, without its cancellation."""
    return q - reach * (inner(w, dw) + 0.5 * reach * inner(dw, dw))


def _newton(terms: list[_Term], shift: Any, far: Any, was: Vector, to: Vector) -> Vector:
    """Where u' = u, if u' depends on u as it does here: u + (1 − t/d' (S Sᵀ))⁻¹ (u' − u)."""
    S = _level(_factor(terms, _states_at(terms, times(far, to))), to)
    change = minus(to, was)
    u = plus(plus(was, 1.0, change), shift, _response(S, shift, far, change))
    return unit(u)


def _states_at(terms: list[_Term], n: Vector) -> list[Any]:
    """W n/λ, λ and q of each term, from n alone, for derivatives: where W n is zero, λ is small, and W n/λ is not w."""
    found = []
    for term in terms:
        z = along(term.rows, n)
        force = larger(size_of(z), _SMALL)
        v = [x / force for x in z]
        found.append((v, force, larger(1.0 - inner(v, v), _FLOOR)))
    return found


def _level(S: list[Vector], u: Vector) -> list[Vector]:
    """The columns of S without their parts along u."""
    return [plus(column, -dot(column, u), u) for column in S]


def _response(S: list[Vector], shift: Any, far: Any, v: Vector) -> Vector:
    """(d' (S Sᵀ)⁻¹ − t)⁻¹ v; zero where that is not positive."""
    rows = [[(far if i == j else 0.0) - shift * dot(S[i], S[j]) for j in range(3)] for i in range(3)]
    a, b, c = ((row[0], row[1], row[2]) for row in rows)
    f = [dot(column, v) for column in S]
    bc = cross(b, c)
    size = dot(a, bc)
    # all leading minors, in relation to what they are without a shift
    steep = smaller(smaller(a[0] / far, (a[0] * b[1] - a[1] * b[0]) / (far * far)), size / (far * far * far))
    one = less(-steep, -_STEEP, 1.0, 0.0) / less(-steep, -_STEEP, size, 1.0)
    side = f[0], f[1], f[2]
    return times(one, _spread(S, [dot(side, bc), dot(side, cross(c, a)), dot(side, cross(a, b))]))


def _result(moving: Any, terms: list[_Term], count: int, found: _Depth, scale: Any) -> Found:
    """What was found, in the units of the shapes; of dual numbers with its rates."""
    c, rows = moving
    to, point, was = _read(found.to), _read(found.point), _read(found.u)
    far, t, off = (each[...][()] for each in (found.far, found.t, found.off))
    # where they overlap, this is a local maximum: u' is no better
    u = _chosen(-t, 0.0, was, to)
    d = less(-t, 0.0, _APART - t, far)
    other = plus(point, -far, to)
    middle = times(0.5, plus(plus(point, -t, was), 1.0, other))
    pa = plus(middle, 0.5 * d, u)
    d = less(off, _WORST, d, np.nan)
    if any(isinstance(x, Dual) for vector in (c, *(row for each in rows for row in each)) for x in vector):
        u, pa = _rates(c, rows, terms, count, u, pa, plus(pa, -d, u), far, t)
    one = 1.0 / scale
    d, pa = one * d, times(one, pa)
    return d, u, pa, plus(pa, -d, u)


def _rates(
    c: Vector, rows: list[Rows], terms: list[_Term], count: int, u: Vector, pa: Vector, pb: Vector, far: Any, t: Any
) -> tuple[Vector, Vector]:
    """The normal and the nearest point of a as dual numbers: (1) differentiated, with t u as part of c."""
    states = _states_at(terms, times(far, u))
    S = _level(_factor(terms, states), u)
    # points that move with the shapes; of each shape, all rows are at right angles
    right, dp, turned = _rates_of(c), _rates_of(c), []
    for i, (own, (v, force, q), term) in enumerate(zip(rows, states, terms, strict=True)):
        change = [far * dot(_rates_of(row), u) for row in own]
        turned.append(change)
        to = minus(_values(c), pa) if i < count else pb
        for row, plain in zip(own, term.rows, strict=True):
            x = -dot(plain, to) / (dot(plain, plain) + TINY)
            right = plus(right, x, _rates_of(row))
            dp = plus(dp, x, _rates_of(row)) if i < count else dp
        right = minus(right, term.across(_divided(change, v, force, q)))
    du = _response(S, t, far, right)
    for (v, force, q), term, change in list(zip(states, terms, turned, strict=True))[:count]:
        sliding = [a + far * b for a, b in zip(change, along(term.rows, du), strict=True)]
        dp = minus(dp, term.across(_divided(sliding, v, force, q)))
    return _dual(u, du), _dual(pa, dp)


def _dual(x: Vector, rate: Vector) -> Vector:
    return Dual(x[0], rate[0]), Dual(x[1], rate[1]), Dual(x[2], rate[2])


def value_of(x: Any) -> Any:
    """The value of a dual number, or a number itself."""
    return x.value if isinstance(x, Dual) else x


def rate_of(x: Any) -> Any:
    """The rate of a dual number; that of others is zero."""
    return x.rate if isinstance(x, Dual) else 0.0


def _values(v: Vector) -> Vector:
    return value_of(v[0]), value_of(v[1]), value_of(v[2])


def _rates_of(v: Vector) -> Vector:
    return rate_of(v[0]), rate_of(v[1]), rate_of(v[2])


def _read(v: list[Scalar]) -> Vector:
    return v[0][...][()], v[1][...][()], v[2][...][()]


def _spread(S: list[Vector], f: list[Any]) -> Vector:
    """S f."""
    return plus(plus(times(f[0], S[0]), f[1], S[1]), f[2], S[2])


def _chosen(a: Any, b: Any, x: Vector, y: Vector) -> Vector:
    """x where a < b, else y."""
    return less(a, b, x[0], y[0]), less(a, b, x[1], y[1]), less(a, b, x[2], y[2])
