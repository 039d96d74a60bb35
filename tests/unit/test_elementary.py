"""Sine and cosine of the native engine against arbitrary precision."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import kinetree as kt
from kinetree.engines.function import Function
from kinetree.engines.llvm import target
from kinetree.recursion.algorithm import algorithm
from kinetree.spatial.scalar import LARGEST_ANGLE, sincos

ROBOT = kt.zoo.chain(1)


@algorithm(v=("v",), sine=("v",), cosine=("v",), outputs=("sine", "cosine"))
def both(tree: Any, v: Any, sine: Any, cosine: Any) -> None:
    for k, _ in tree.scatter():
        s, c = sincos(v[k][0])
        sine[k], cosine[k] = np.array([s]), np.array([c])


def native(angles: Any, width: int) -> tuple[Any, Any]:
    with target.use(target.host().with_width(width)):
        s, c = Function("both", ROBOT.mechanism, both)(np.asarray(angles)[:, None])
    return s[:, 0], c[:, 0]


def hard_angles() -> Any:
    """Angles of all sizes, and the neighbours of multiples of π/2, where all leading digits cancel."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-12, np.log10(LARGEST_ANGLE), 1500) * rng.choice([-1, 1], 1500)
    multiples = rng.integers(1, 2**44, 500).astype(float) * (np.pi / 2)
    small = np.arange(-200, 201) * (np.pi / 2)
    near = np.concatenate([small, multiples[multiples < LARGEST_ANGLE]])
    neighbours = [np.nextafter(near, np.inf), np.nextafter(near, -np.inf)]
    return np.concatenate([sizes, near, *neighbours, rng.uniform(-4, 4, 1500), [0.0, 1e-300, LARGEST_ANGLE]])


@pytest.mark.parametrize("width", [1, 8])
def test_within_one_unit_in_the_last_place(width: int) -> None:
    angles = hard_angles()
    computed = native(angles, width)
    with mpmath.workprec(300):
        for function, values in zip((mpmath.sin, mpmath.cos), computed):
            exact = [function(mpmath.mpf(float(x))) for x in angles]
            ulps = [abs(mpmath.mpf(float(v)) - e) / float(np.spacing(abs(float(e)))) for v, e in zip(values, exact)]
            assert max(ulps) < 1.0


def test_angles_without_meaning_are_nan() -> None:
    angles = [np.nextafter(LARGEST_ANGLE, np.inf), -1e300, np.inf, -np.inf, np.nan]
    for values in native(angles, 8):
        assert np.isnan(values).all()
    assert all(np.isnan(x) for angle in angles for x in sincos(np.float64(angle)))


def test_zero() -> None:
    s, c = native([-0.0, 0.0], 1)
    assert s.tolist() == [0.0, 0.0]
    assert c.tolist() == [1.0, 1.0]
