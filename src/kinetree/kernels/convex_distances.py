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

Where shapes overlap, d is the largest s(u), of several local maxima. From the best one of some directions, a is moved
by t = ε − s(u) along u, out of b; the normal u' that it then has gives s(u') ≥ s(u), and u' = u is a local maximum.
These rounds converge with the ratio of t to the radius of curvature; Newton's step, from the derivative of u' by u,
squares what is left. Within an angle δ of u, with w the gradient of s there,

    s(u') ≤ s(u) cos δ + |w − s(u) u| sin δ                                                                   (3)

Other maxima are looked for from the best ones of many directions for which that is more than what was found, and where
s does not rise towards what was found. That is no proof: there may be a better one still.

[M92] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization 2, 1992.
[P63] J. Potter, R. Stern, "Statistical filtering of space navigation measurements", AIAA Guidance and Control, 1963.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from kinetree.kernels.branchless import larger, less, magnitude, smaller, where
from kinetree.kernels.distances import TINY, Found, Vector, cross, dot, minus, plus, times
from kinetree.kernels.language import Scalar, Workspace
from kinetree.spatial.dual import Dual
from kinetree.spatial.scalar import Constant, sqrt

#: Directions that are tried where shapes overlap.
_AROUND = 1024
#: Most steps for one position of both shapes, most positions, and most local maxima.
SIZES = {"steps": 16, "again": 24, "attempts": 10, "around": _AROUND, "once": 1}
#: All lengths are relative to the sum of those of both shapes' terms. Certificates (2) that are good; what is above the
#: second one is no result, but NaN.
_GOOD, _WORST = Constant(1e-9, 3e-5), Constant(1e-6, 1e-3)
# λ at the start; the least μ; the least λ and q; the part of the way to the boundary; the least reduction of μ.
_START, _LEAST, _FLOOR, _PART, _REDUCED = 0.03, Constant(1e-17, 1e-9), Constant(1e-25, 1e-11), 0.98, 0.02
# The angle within which each direction has one of those; the cosine below which two of them are different; the rise of
# s that counts; what is above −s. From one of them to the next one along a spiral.
_COS, _SIN, _OTHER, _TOWARDS = math.cos(0.067), math.sin(0.067), 0.997, 0.85
_RISE, _UNLIKELY = Constant(1e-10, 1e-5), 1e9
_TURN = math.cos(math.pi * (1.0 + 5.0**0.5)), math.sin(math.pi * (1.0 + 5.0**0.5))
# The least λ in derivatives.
_SMALL = Constant(1e-8, 1e-4)
# The rise of d, relative to it, for which another step is done.
_PAYS = Constant(1e-15, 1e-6)
# How far shapes that overlap are moved apart; by how little more d' is at a local maximum; the least eigenvalue of what
# Newton's step for them divides by.
_APART, _SETTLED, _STEEP = 0.05, Constant(1e-14, 1e-7), 0.02

#: The rows of W.
Rows = tuple[Vector, ...]


class _Term:
    """A term of one of the shapes, with its w, W n, λ and q."""

    def __init__(self, k: Workspace, rows: Rows, of_first: bool) -> None:
        self.rows, self.of_first = rows, of_first
        self.w, self.z = ([k.scalar(0.0) for _ in rows] for _ in range(2))
        self.force, self.q = k.scalar(0.0), k.scalar(0.5)

    def start(self, c: Vector) -> None:
        z = self.along(c)
        for w, entry, value in zip(self.w, self.z, z, strict=True):
            w[...], entry[...] = 0.0, value
        self.q[...] = 0.5
        self.force[...] = _START * norm(self.rows) + _size(z) + _LEAST

    def read(self) -> tuple[list[Any], Any, Any]:
        """w, λ and q."""
        return [w[...][()] for w in self.w], self.force[...][()], self.q[...][()]

    def along(self, n: Vector) -> list[Any]:
        """W n."""
        return [dot(row, n) for row in self.rows]

    def across(self, w: list[Any]) -> Vector:
        """Wᵀ w."""
        found = times(w[0], self.rows[0])
        for x, row in zip(w[1:], self.rows[1:], strict=True):
            found = plus(found, x, row)
        return found


def norm(rows: Rows) -> Any:
    """The size of a term."""
    return sqrt(_inner([x for row in rows for x in row], [x for row in rows for x in row]))


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
    tried = _directions(here, terms)
    finite = dot(here, here) + sum(norm(term.rows) for term in terms)

    found, own = _Local(k), _Local(k)
    over, overlap = k.scalar(less(finite, np.inf, 0.0, 1.0)), k.scalar(0.0)
    others = _Others(k)
    for _ in k.attempts.until(over):
        _ascend(k, here, terms, tried, own, over, overlap)
        better = where(over[...], 0.0, less(found.s[...], own.s[...], 1.0, 0.0))
        found.take(own, better)
        over[...] = where(over[...], 1.0, less(-own.t[...], 0.0, 0.0, 1.0))
        last = k.scalar(over[...])
        for _ in k.once.until(last):
            others.look(here, terms, last, overlap)
            any_left = others.choose(own, found.s[...][()], last)
            over[...] = where(last[...], over[...], any_left)
            overlap[...] = where(last[...], overlap[...], 1.0)
            last[...] = 1.0
    return _result(moving, terms, len(first), found, scale)


class _Local:
    """A local maximum of s, with what was found there: u, s, t; u', the nearest point of a, d', the certificate."""

    def __init__(self, k: Workspace) -> None:
        self.u, self.to, self.point = ([k.scalar(0.0) for _ in range(3)] for _ in range(3))
        self.s, self.t, self.far, self.off = k.scalar(-np.inf), k.scalar(0.0), k.scalar(0.0), k.scalar(np.inf)
        self.entries = *self.u, *self.to, *self.point, self.s, self.t, self.far, self.off

    def take(self, other: _Local, flag: Any) -> None:
        """What another one has, if a flag is 1."""
        for mine, its in zip(self.entries, other.entries, strict=True):
            mine[...] = where(flag, its[...], mine[...])


def _ascend(
    k: Workspace, c: Vector, terms: list[_Term], tried: list[Vector], own: _Local, over: Scalar, overlap: Scalar
) -> None:
    """From own.u to a local maximum near it; the first time, from what the shapes are without a shift."""
    ready = k.scalar(over[...])
    for _ in k.again.until(ready):
        was, shift, skip = _read(own.u), own.t[...][()], ready[...][()]
        to, point, far, off = _apart(k, plus(c, shift, was), terms, ready)
        # apart, or where d' is what it was moved apart, and so u' = u
        missing = off + less(-shift, 0.0, magnitude(far - _APART), 0.0)
        for entry, value in zip((*own.to, *own.point, own.far, own.off), (*to, *point, far, missing), strict=True):
            entry[...] = where(skip, entry[...], value)
        good = less(missing, less(-shift, 0.0, _SETTLED, _GOOD), 1.0, 0.0)
        apart = where(good, less(-shift, 0.0, 0.0, 1.0), 0.0)
        own.s[...] = where(skip, own.s[...], where(apart, far, own.s[...]))
        ready[...] = where(skip, 1.0, good)
        last = k.scalar(ready[...])
        for _ in k.once.until(last):
            best, where_to = own.s[...][()], was
            first = where(overlap[...], 0.0, less(-shift, 0.0, 0.0, 1.0))
            for i, each in enumerate((to, _newton(terms, shift, far, was, to), *tried)):
                bound = _bound(c, terms, each)
                if i > 1:
                    bound = where(first, bound, -np.inf)
                where_to = _chosen(best, bound, each, where_to)
                best = less(best, bound, bound, best)
            # if nothing is better, this is as good as it becomes
            ready[...] = where(last[...], ready[...], less(own.s[...], best, 0.0, 1.0))
            own.s[...] = where(last[...], own.s[...], best)
            own.t[...] = where(last[...], own.t[...], larger(_APART - best, 0.0))
            for entry, value in zip(own.u, where_to, strict=True):
                entry[...] = where(last[...], entry[...], value)
            last[...] = 1.0


class _Others:
    """Directions evenly around, on the side of c, from which there may be a larger maximum of s."""

    def __init__(self, k: Workspace) -> None:
        self.k = k
        self.s, self.most = k.array("around"), k.array("around")
        self.u, self.w = ([k.array("around") for _ in range(3)] for _ in range(2))

    def look(self, c: Vector, terms: list[_Term], settled: Scalar, known: Scalar) -> None:
        """s of each with its gradient w, and the most that it is near it, (3); once."""
        k = self.k
        flag = k.scalar(where(settled[...], 1.0, known[...]))
        ridges = [_unit(term.rows[0]) for term in terms if len(term.rows) == 1]
        for _ in k.once.until(flag):
            z, x, y = k.scalar(1.0 - 0.5 / _AROUND), k.scalar(1.0), k.scalar(0.0)
            for i in k.around:
                level = sqrt(1.0 - z[...] * z[...])
                u = level * x[...], level * y[...], z[...][()]
                u = times(less(dot(c, u), 0.0, -1.0, 1.0), u)
                # rather on a ridge of s, where one of the segments is level
                s, there = _bound(c, terms, u), u
                for axis in ridges:
                    level_u = _unit(plus(u, -dot(u, axis), axis))
                    bound = _bound(c, terms, level_u)
                    there, s = _chosen(s, bound, level_u, there), less(s, bound, bound, s)
                u, w = there, c
                for term in terms:
                    along = term.along(u)
                    w = minus(w, times(1.0 / (_size(along) + TINY), term.across(along)))
                self.s[i], self.most[i] = s, s * _COS + sqrt(larger(dot(w, w) - s * s, 0.0)) * _SIN
                for line, value in zip((*self.u, *self.w), (*u, *w), strict=True):
                    line[i] = value
                z[...] = z[...] - 1.0 / _AROUND
                x[...], y[...] = _TURN[0] * x[...] - _TURN[1] * y[...], _TURN[1] * x[...] + _TURN[0] * y[...]
            flag[...] = 1.0

    def choose(self, own: _Local, best: Any, settled: Scalar) -> Any:
        """Set u, s and t to the best one that is left, 1 if there is none: those that rise towards the last are not."""
        k, skip, last = self.k, settled[...][()], _read(own.u)
        top, u = k.scalar(-np.inf), [k.scalar(0.0) for _ in range(3)]
        for i in k.around:
            at, w = (_three([line[i] for line in lines]) for lines in (self.u, self.w))
            turn = dot(at, last)
            rise = dot(w, last) - turn * self.s[i]
            steep = (dot(w, w) - self.s[i] * self.s[i]) * (1.0 - turn * turn)
            left = less(rise, 0.0, 1.0, less(rise * rise, _TOWARDS * steep, 1.0, 0.0))
            left = less(-turn, -_OTHER, 0.0, left)
            most = where(left, self.most[i], -np.inf)
            self.most[i] = most
            s = less(best + _RISE, most, self.s[i], -np.inf)
            more = less(top[...], s, 1.0, 0.0)
            for entry, value in zip(u, at, strict=True):
                entry[...] = where(more, value, entry[...])
            top[...] = where(more, s, top[...])
        for entry, value in zip((*own.u, own.s, own.t), (*_read(u), top[...], _APART - top[...]), strict=True):
            entry[...] = where(skip, entry[...], value)
        return less(top[...], -_UNLIKELY, 1.0, 0.0)


def _three(values: Any) -> Vector:
    x, y, z = values
    return x, y, z


def _directions(c: Vector, terms: list[_Term]) -> list[Vector]:
    """Where normals of overlapping shapes may be: from centre to centre, along rows, across pairs of them."""
    rows = [_unit(row) for term in terms for row in term.rows]
    across = [_unit(w) for w in (cross(a, b) for a, b in combinations(rows, 2))]
    found = [times(less(dot(each, c), 0.0, -1.0, 1.0), each) for each in (*rows, *across)]
    return [_unit(c), *found]


def _unit(v: Vector) -> Vector:
    return times(1.0 / sqrt(dot(v, v) + TINY), v)


def _bound(c: Vector, terms: list[_Term], u: Vector) -> Any:
    """s(u) of (2), for a u that is about a unit vector; none for one that is not."""
    found = dot(c, u)
    for term in terms:
        found = found - _size(term.along(u))
    return less(magnitude(dot(u, u) - 1.0), 0.5, found, -np.inf) / sqrt(dot(u, u) + TINY)


def _apart(k: Workspace, c: Vector, terms: list[_Term], settled: Scalar) -> tuple[Vector, Vector, Any, Any]:
    """The normal, the nearest point of a, d from below, and the certificate (2), of shapes that are apart."""
    for term in terms:
        term.start(c)
    low, high, done = k.scalar(-_UNLIKELY), k.scalar(_UNLIKELY), k.scalar(settled[...])
    u, point, n = ([k.scalar(x) for x in start] for start in ((0.0,) * 3, (0.0,) * 3, c))
    for _ in k.steps.until(done):
        rest, own = c, c
        for term in terms:
            part = term.across(term.read()[0])
            rest, own = minus(rest, part), minus(own, part) if term.of_first else own
        to, over = _unit(_read(n)), done[...][()]
        s, far = _bound(c, terms, to), sqrt(dot(rest, rest))
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
    along, left = [[z[...][()] for z in term.z] for term in terms], minus(rest, _read(n))
    for term, z in zip(terms, along, strict=True):
        w, force, q = term.read()
        states.append((w, larger(force, _size(z)), q))
    S = _factor(terms, states)
    mu = sum(force * q for _, force, q in states) / len(terms)
    first, _ = _direction(terms, states, along, left, S, 0.0, None)
    reach = smaller(_reach(states, first), 1.0)
    after: Any = 0.0
    for (w, force, q), (dw, df) in zip(states, first, strict=True):
        after = after + (force + reach * df) * _moved(q, w, dw, reach)
    share = after / (mu * len(terms))
    share = larger(share * share * share, _REDUCED)
    second, dn = _direction(terms, states, along, left, S, larger(share * mu, _LEAST), first)
    reach = smaller(_PART * _reach(states, second), 1.0)
    for entry, dx in zip(n, dn, strict=True):
        entry[...] = entry[...] + reach * dx
    for term, (w, force, q), (dw, df) in zip(terms, states, second, strict=True):
        for entry, x, dx in zip(term.w, w, dw, strict=True):
            entry[...] = x + reach * dx
        for entry, dz in zip(term.z, term.along(dn), strict=True):
            entry[...] = entry[...] + reach * dz
        term.q[...] = larger(_moved(q, w, dw, reach), _FLOOR)
        term.force[...] = larger(force + reach * df, _FLOOR)


def _factor(terms: list[_Term], states: list[Any]) -> list[Vector]:
    """The columns of S, with S Sᵀ = (I + Σ WᵀM⁻¹W)⁻¹, from the rows of B W/√λ with BᵀB = I − w wᵀ/(q + |w|²) [P63]."""
    S: list[Vector] = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    for term, (w, force, q) in zip(terms, states, strict=True):
        whole = q + _inner(w, w)
        less_along = 1.0 / (whole * (1.0 + sqrt(q / whole)))
        both = times(less_along, term.across(w))
        for x, row in zip(w, term.rows, strict=True):
            v = plus(row, -x, both)
            f = [dot(column, v) for column in S]
            size = _inner(f, f) + force
            gain = 1.0 / (size + sqrt(size * force))
            g = plus(plus(times(f[0], S[0]), f[1], S[1]), f[2], S[2])
            S = [plus(column, -gain * x_f, g) for column, x_f in zip(S, f, strict=True)]
    return S


def _direction(
    terms: list[_Term], states: list[Any], along: list[Any], left: Vector, S: list[Vector], mu: Any, first: Any
) -> Any:
    """The changes of w and λ of each term, and dn, towards a μ; with what is of second order in the predictor's."""
    right, sides = left, []
    for i, (term, (w, force, q), z) in enumerate(zip(terms, states, along, strict=True)):
        gap, side = mu - force * q, [a - force * x for a, x in zip(z, w, strict=True)]
        if first is not None:
            dw, df = first[i]
            side = [a - df * dx for a, dx in zip(side, dw, strict=True)]
            gap = gap + df * _inner(w, dw) + 0.5 * force * _inner(dw, dw)
        side = [a - x * (gap / q) for a, x in zip(side, w, strict=True)]
        sides.append((side, gap))
        right = minus(right, term.across(_divided(side, w, force, q)))
    dn = _spread(S, [dot(column, right) for column in S])
    found = []
    for term, (w, force, q), (side, gap) in zip(terms, states, sides, strict=True):
        dw = _divided([a + b for a, b in zip(term.along(dn), side, strict=True)], w, force, q)
        found.append((dw, (gap + force * _inner(w, dw)) / q))
    return found, dn


def _divided(side: list[Any], w: list[Any], force: Any, q: Any) -> list[Any]:
    """M⁻¹ times a vector."""
    part = _inner(w, side) / (q + _inner(w, w))
    return [(a - part * x) / force for a, x in zip(side, w, strict=True)]


def _reach(states: list[Any], changes: Any) -> Any:
    """How much of some changes leaves |w| ≤ 1 and λ ≥ 0; two if all of it does."""
    found: Any = 2.0
    for (w, force, q), (dw, df) in zip(states, changes, strict=True):
        square, half = _inner(dw, dw), _inner(w, dw)
        root = sqrt(half * half + 2.0 * square * q)
        end = less(half, 0.0, (root - half) / (square + TINY), 2.0 * q / (half + root + TINY))
        found = smaller(end, found)
        found = smaller(less(df, 0.0, -force / less(df, 0.0, df, -1.0), 2.0), found)
    return found


def _moved(q: Any, w: list[Any], dw: list[Any], reach: Any) -> Any:
    """q = ½ (1 − |w|²) after a step, without its cancellation."""
    return q - reach * (_inner(w, dw) + 0.5 * reach * _inner(dw, dw))


def _newton(terms: list[_Term], shift: Any, far: Any, was: Vector, to: Vector) -> Vector:
    """Where u' = u, if u' depends on u as it does here: u + (1 − t/d' (S Sᵀ))⁻¹ (u' − u)."""
    S = _level(_factor(terms, _states_at(terms, times(far, to))), to)
    change = minus(to, was)
    u = plus(plus(was, 1.0, change), shift, _response(S, shift, far, change))
    return _unit(u)


def _states_at(terms: list[_Term], n: Vector) -> list[Any]:
    """W n/λ, λ and q of each term, from n alone, for derivatives: where W n is zero, λ is small, and W n/λ is not w."""
    found = []
    for term in terms:
        z = term.along(n)
        force = larger(_size(z), _SMALL)
        v = [x / force for x in z]
        found.append((v, force, larger(1.0 - _inner(v, v), _FLOOR)))
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


def _result(moving: Any, terms: list[_Term], count: int, found: _Local, scale: Any) -> Found:
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
        sliding = [a + far * b for a, b in zip(change, term.along(du), strict=True)]
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


def _inner(a: list[Any], b: list[Any]) -> Any:
    found = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        found = found + x * y
    return found


def _size(v: list[Any]) -> Any:
    return magnitude(v[0]) if len(v) == 1 else sqrt(_inner(v, v))
