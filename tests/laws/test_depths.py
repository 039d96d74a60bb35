"""Bounds of depths: never above what is there, tight enough to end, and loud where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.kernels import depths
from kinetree.kernels.pair_distances import pair_distances, rounds_of
from kinetree.runtime.function import compiled
from tests.laws.test_distances import function, rotations, scenes
from tests.tolerance import bound

Array = np.ndarray[Any, np.dtype[Any]]
TOL = bound(6)
COUNT = 400


def terms_of(kinds: str, rng: np.random.Generator) -> list[Any]:
    """The rows of segments, discs and ellipsoids, of some of which axes are nearly parallel."""
    terms = []
    tilt = 10.0 ** rng.uniform(-9, 0, (COUNT, 1))
    common = rotations(rng, COUNT)
    for kind in kinds:
        R = rotations(rng, COUNT)
        axis = common[:, 2] + tilt * R[:, 2]
        if kind == "s":
            rows = [0.3 * axis]
        elif kind == "d":
            side = np.cross(axis, R[:, 0])
            side /= np.linalg.norm(side, axis=1, keepdims=True)
            rows = [0.2 * side, 0.2 * np.cross(axis, side) / np.linalg.norm(axis, axis=1, keepdims=True)]
        else:
            rows = [size * R[:, i] for i, size in enumerate((0.3, 0.1, 0.02))]
        terms.append(tuple(tuple(row.T) for row in rows))
    return terms


def depth(c: Any, terms: list[Any], u: Any) -> Array:
    """h of directions, (3, …), from its definition."""
    found = -sum(x * y for x, y in zip(c, u, strict=True))
    for rows in terms:
        found = found + np.sqrt(sum(sum(x * y for x, y in zip(row, u, strict=True)) ** 2 for row in rows))
    return np.asarray(found)


@pytest.mark.parametrize("kinds", ["ssd", "sssd", "sdsd", "e", "se", "ssse", "sde", "ee"])
def test_cells_hold_nothing_below_their_bounds(kinds: str) -> None:
    rng = np.random.default_rng(len(kinds))
    terms = terms_of(kinds, rng)
    c = tuple(0.1 * rng.standard_normal((3, COUNT)))
    half = 2.0 ** -rng.integers(1, 16, COUNT)
    x, y = ((2.0 * np.floor(rng.uniform(0, 1, COUNT) / half) + 1.0) * half - 1.0 for _ in range(2))
    v, cos, sin = depths._cell(x, y, half)
    # where something is zero in the cell, in most of them
    kinks = depths._Kinks(c, terms)
    there = [tuple(each[0]) for each in kinks.points] or [v]
    near = np.array(there[0]) * (rng.uniform(0, 1, COUNT) < 0.5)
    middle = np.array(v) * (near == 0.0) + near + 0.5 * np.minimum(half, 0.1) * rng.standard_normal((3, COUNT))
    middle = tuple(middle / np.linalg.norm(middle, axis=0))
    at, wide, reach = depths._expanded(c, terms, kinks, middle, cos, sin)
    least, better = depths._bounded(c, terms, at, wide, reach)
    np.testing.assert_allclose(np.linalg.norm(better, axis=0), 1.0, rtol=TOL)
    lowest = np.full(COUNT, np.inf)
    for _ in range(300):
        across = np.cross(np.array(middle).T, rng.standard_normal((COUNT, 3))).T
        across /= np.linalg.norm(across, axis=0)
        angle = np.arccos(np.maximum(cos, 0.0)) * rng.uniform(0, 1, COUNT) ** 0.5
        lowest = np.minimum(lowest, depth(c, terms, np.cos(angle) * np.array(middle) + np.sin(angle) * across))
    assert (least <= lowest + TOL).all()
    # of second order in most cells: of first order, it would be about the sizes of shapes times the angle
    gap = (lowest - least)[reach < 0.05] / reach[reach < 0.05]
    assert np.median(gap) < 0.05


def test_bounds_hold_where_they_are_close() -> None:
    """On ellipsoids alone, whose curvature falls along each great circle from their short axes, and on kinks."""
    rng = np.random.default_rng(3)
    angle = rng.uniform(0.02, 0.5, COUNT)
    cos, sin = np.cos(angle), np.sin(angle)
    tilt = angle * rng.uniform(0.0, 1.5, COUNT)
    u = np.sin(tilt), 0.0 * tilt, np.cos(tilt)
    c = tuple(rng.uniform(-1, 1, (3, COUNT)) * 10 ** rng.uniform(-3, 0, COUNT))
    short = 10 ** rng.uniform(-2, -0.5, COUNT)
    ones = np.ones(COUNT)
    flat = [tuple(tuple(size * x for x in row) for size, row in zip((ones, ones, short), np.eye(3), strict=True))]
    # two segments and a ball that is beaten by what pulls it along, where (2) is no longer a minimum
    level = tuple(0.0 * ones + x for x in (0.0, 0.0, 1.0))
    cross = [((0.2 * ones, 0.0 * ones, 0.0 * ones),), ((0.0 * ones, 0.2 * ones, 0.0 * ones),),
             tuple(tuple(x * ones for x in row) for row in np.eye(3))]  # fmt: skip
    pull = (0.0 * ones, 0.0 * ones, -0.2 * (1.0 + cos) / sin * rng.uniform(0.9, 1.1, COUNT))
    for terms, at, from_ in ((flat, u, c), (cross, level, pull)):
        least, _ = depths._bounded(from_, terms, at, cos, sin)
        lowest = np.full(COUNT, np.inf)
        for turn in np.linspace(0.0, 2.0 * np.pi, 33):
            for share in np.linspace(0.0, 1.0, 21):
                e, f = depths._across(at)
                out = np.sin(share * angle) * (np.cos(turn) * np.array(e) + np.sin(turn) * np.array(f))
                lowest = np.minimum(lowest, depth(from_, terms, np.cos(share * angle) * np.array(at) + out))
        assert (least <= lowest + TOL).all()


def test_cells_cover_their_quarters_and_their_corners() -> None:
    rng = np.random.default_rng(1)
    half = 2.0 ** -rng.integers(1, 12, 4000)
    x, y = ((2.0 * np.floor(rng.uniform(0, 1, 4000) / half) + 1.0) * half - 1.0 for _ in range(2))
    middle, cos, sin = depths._cell(x, y, half)
    np.testing.assert_allclose(cos * cos + sin * sin, 1.0, rtol=TOL)
    for s, t in [*rng.uniform(-1, 1, (50, 2)).tolist(), (1, 1), (1, -1), (-1, 1), (-1, -1)]:
        a, b = x + s * half, y + t * half
        p = np.stack([a, b, 1.0 - np.maximum(abs(a), abs(b))])
        p /= np.linalg.norm(p, axis=0)
        assert (np.linalg.norm(p - middle, axis=0) <= 2.0 * np.sin(0.5 * np.arctan2(sin, cos)) + TOL).all()


@pytest.mark.parametrize(
    ("kind", "group", "share"), [("cylinder", "cylinders", 0.35), ("ellipsoid", "ellipsoids", 0.85)]
)
def test_searches_end_soon_and_are_no_result_if_they_do_not(kind: str, group: str, share: float) -> None:
    T, numbers = scenes(kind, kind, 200, seed=2)
    d = function(group)(T, numbers, T, numbers)[0]
    runs: Any = {group: [(0, 1, 0, 0)]}
    # without eigenvalues in bounds, or without points where discs are zero, 200 cells are enough for far fewer
    for cells, least, most in ((1500, 1.0, 1.0), (200, share, 1.0), (8, 0.0, 0.0)):
        few = compiled(pair_distances((group,), True), "float64", n=2, m=2, p=1, t=1, **runs,
                       **{**rounds_of((group,)), "cells": cells})  # fmt: skip
        found = few(T, numbers, T, numbers)[0]
        assert least <= np.isfinite(found[d < -0.05]).mean() <= most
        assert np.isfinite(found[d > 0.05]).all()
        same = np.isfinite(found)
        np.testing.assert_array_equal(found[same], d[same])
