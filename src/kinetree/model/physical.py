"""Checks whether a mass and an inertia are physically possible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.spatial.value import Array

# relative to the largest moment: rounding errors of numbers written with few digits
_ASYMMETRY, _NEGATIVE, _TRIANGLE = 1e-6, 1e-9, 1e-6


#: The rows of a matrix.
Rows = list[list[float]]


def checked_inertia(owner: str, mass: Any, com: Any, inertia: Any) -> tuple[float, Array, Array]:
    """Mass, centre of mass and inertia as float64; raises unless they have shapes (), (3,), (3, 3) and are finite."""
    mass, point, rows = inertial_numbers(owner, mass, com, inertia)
    return mass, np.array(point), np.array(rows)


def inertial_numbers(owner: str, mass: Any, com: Any, inertia: Any) -> tuple[float, list[float], Rows]:
    """Those of `checked_inertia` as plain numbers."""
    checked: list[Any] = []
    for what, given, shape in (("mass", mass, ()), ("com", com, (3,)), ("inertia", inertia, (3, 3))):
        try:
            array = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{owner}: {what} {given!r} is not made of numbers") from None
        if array.shape != shape:
            raise ModelError(f"{owner}: {what} has shape {array.shape}, must be {shape}")
        if not all(map(math.isfinite, array.ravel().tolist())):
            raise ModelError(f"{owner}: {what} has NaN or infinite entries")
        checked.append(array.tolist())
    return checked[0], checked[1], checked[2]


def fault(mass: float, inertia: Array) -> str | None:
    """`fault_in` for an inertia as an array, (3, 3)."""
    return fault_in(mass, inertia.tolist())


def fault_in(mass: float, inertia: Rows) -> str | None:
    """Why a mass [kg] and an inertia about the centre of mass [kg m²] are impossible, and the fix; else None.

    Point masses and thin rods are accepted: their inertia is singular but possible.
    """
    if mass < 0.0:
        return f"mass {mass:g} kg is negative"
    # plain numbers: NumPy would take ten times as long for so few
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = inertia
    scale = max(map(abs, (xx, xy, xz, yx, yy, yz, zx, zy, zz)))
    if scale == 0.0:
        return None
    if mass == 0.0:
        return "mass is zero but inertia is not; give both or neither (use armature for rotors)"
    if max(abs(xy - yx), abs(xz - zx), abs(yz - zy)) > _ASYMMETRY * scale:
        return "inertia is not symmetric; give the full 3×3 matrix about the centre of mass"
    if xy == yx == xz == zx == yz == zy == 0.0:
        low, middle, high = sorted((xx, yy, zz))
    elif clearly_possible(xx, yy, zz, (xy + yx) / 2.0, (xz + zx) / 2.0, (yz + zy) / 2.0):
        return None
    else:
        symmetric = (np.array(inertia) + np.transpose(inertia)) / 2.0
        low, middle, high = np.linalg.eigvalsh(symmetric).tolist()
    if low < -_NEGATIVE * high or not math.isfinite(high):
        return f"inertia is not positive definite ({_moments(low, middle, high)}); is it about the centre of mass?"
    if low + middle < high * (1.0 - _TRIANGLE):
        return (
            f"inertia violates the triangle inequality ({_moments(low, middle, high)}): no mass distribution has such "
            "moments"
        )
    return None


def _moments(low: float, middle: float, high: float) -> str:
    return f"principal moments {low:.4g}, {middle:.4g}, {high:.4g} kg m²"


def clearly_possible(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> bool:
    """Whether an inertia meets all conditions of `fault` by a margin, so that its eigenvalues need not be computed.

    It does if ½ tr(I) 1 − I, the second moments of the mass, is positive definite, with pivots beyond rounding.
    """
    half = (xx + yy + zz) / 2.0
    least, first = 1e-9 * half, half - xx
    if not 0.0 < least < first:
        return False
    second, third, between = half - yy - xy * xy / first, half - zz - xz * xz / first, -yz - xy * xz / first
    return least < second and least < third - between * between / second < math.inf
