"""Sine and cosine of the native engine against arbitrary precision."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.elementary import SINGLE
from kinetree.compiler.llvm import machine_code
from kinetree.language.algorithm import algorithm
from kinetree.runtime.function import Function
from kinetree.spatial.scalar import LARGEST_ANGLE, sincos

ROBOT = kt.zoo.chain(1)


@algorithm(v=("v",), sine=("v",), cosine=("v",), outputs=("sine", "cosine"))
def both(tree: Any, v: Any, sine: Any, cosine: Any) -> None:
    for k, _ in tree.scatter():
        s, c = sincos(v[k][0])
        sine[k], cosine[k] = np.array([s]), np.array([c])


def native(angles: Any, width: int, dtype: str = "float64") -> tuple[Any, Any]:
    with machine_code.use(machine_code.host().with_width(width)):
        s, c = Function("both", ROBOT.astype(dtype).mechanism, both)(np.asarray(angles, dtype)[:, None])
    assert s.dtype == c.dtype == dtype
    return s[:, 0], c[:, 0]


def hard_angles(dtype: str) -> Any:
    """Angles of all sizes, and the neighbours of multiples of π/2, where all leading digits cancel."""
    rng, largest = np.random.default_rng(0), LARGEST[dtype]
    sizes = 10.0 ** rng.uniform(-12, np.log10(largest), 1500) * rng.choice([-1, 1], 1500)
    multiples = rng.integers(1, int(largest) // 4, 500).astype(float) * (np.pi / 2)
    small = np.arange(-200, 201) * (np.pi / 2)
    near = np.concatenate([small, multiples]).astype(dtype)
    neighbours = [np.nextafter(near, np.inf, dtype=dtype), np.nextafter(near, -np.inf, dtype=dtype)]
    angles = [sizes, near, *neighbours, rng.uniform(-4, 4, 1500), [0.0, float(np.finfo(dtype).tiny), largest]]
    return np.concatenate(angles).astype(dtype)


#: Angles from which adjacent numbers are 1/64 rad apart.
LARGEST = {"float64": LARGEST_ANGLE, "float32": SINGLE.largest}


@pytest.mark.parametrize("dtype", LARGEST)
def test_the_largest_angle_is_where_digits_end(dtype: str) -> None:
    assert np.spacing(np.array(LARGEST[dtype], dtype)) == 1 / 64


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("width", [1, 8])
def test_within_one_unit_in_the_last_place(width: int, dtype: str) -> None:
    angles = hard_angles(dtype)
    computed = native(angles, width, dtype)
    with mpmath.workprec(300):
        for function, values in zip((mpmath.sin, mpmath.cos), computed):
            exact = [function(mpmath.mpf(float(x))) for x in angles]
            units = np.spacing(np.abs(np.array([float(e) for e in exact], dtype)))
            ulps = [abs(mpmath.mpf(float(v)) - e) / float(u) for v, e, u in zip(values, exact, units)]
            assert max(ulps) < 1.0


@pytest.mark.parametrize("dtype", LARGEST)
def test_angles_without_meaning_are_nan(dtype: str) -> None:
    largest = np.array(LARGEST[dtype], dtype)
    angles = np.array([np.nextafter(largest, np.inf, dtype=dtype), -3e38, np.inf, -np.inf, np.nan], dtype)
    for values in native(angles, 8, dtype):
        assert np.isnan(values).all()
    if dtype == "float64":
        assert all(np.isnan(x) for angle in angles for x in sincos(np.float64(angle)))


@pytest.mark.parametrize("dtype", LARGEST)
def test_zero(dtype: str) -> None:
    s, c = native([-0.0, 0.0], 1, dtype)
    assert s.tolist() == [0.0, 0.0]
    assert c.tolist() == [1.0, 1.0]
