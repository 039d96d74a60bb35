"""Checks whether a mass and an inertia are physically possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.specs import three_floats
from kinetree.spatial.value import Array

# relative to the largest moment: rounding errors of numbers written with few digits
_ASYMMETRY, _NEGATIVE, _TRIANGLE = 1e-6, 1e-9, 1e-6

#: The rows of a matrix.
Rows = list[list[float]]


def possible_inertia(owner: str, mass: Any, com: Any, inertia: Any) -> tuple[float, Array, Array]:
    """Mass, centre of mass and inertia as float64; raises unless they are possible, of shapes (), (3,) and (3, 3)."""
    mass, point, moments, problem = inertial_numbers(owner, mass, com, inertia)
    if problem is not None:
        raise ModelError(f"{owner}: {problem}")
    return mass, np.array(point), np.array(moments).reshape(3, 3)


def inertial_numbers(
    owner: str, mass: Any, com: Any, inertia: Any
) -> tuple[float, Sequence[float], Sequence[float], str | None]:
    """Mass, centre of mass and inertia, nine numbers, and what `fault` returns about them."""
    try:
        if type(mass) is not float or not math.isfinite(mass):
            mass = _finite("mass", _shaped("mass", mass, ())).tolist()
        point = three_floats(com) or tuple(_finite("com", _shaped("com", com, (3,))).tolist())
        moments, problem = _judged(_shaped("inertia", inertia, (3, 3)).tobytes())
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from None
    return mass, point, moments, _fault(mass, moments, problem)


def _shaped(what: str, given: Any, shape: tuple[int, ...]) -> Array:
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} {given!r} is not made of numbers") from None
    if array.shape != shape:
        raise ModelError(f"{what} has shape {array.shape}, must be {shape}")
    return array


def _finite(what: str, array: Array) -> Array:
    if not np.isfinite(array).all():
        raise ModelError(f"{what} has NaN or infinite entries")
    return array


@lru_cache(maxsize=1024)  # many bodies of large robots are alike
def _judged(inertia: bytes) -> tuple[Sequence[float], str | None]:
    """The nine numbers of an inertia, and why no mass has it."""
    rows: Rows = _finite("inertia", np.frombuffer(inertia)).reshape(3, 3).tolist()
    return (*rows[0], *rows[1], *rows[2]), _impossible(rows)


def from_parameters(owner: str, row: Array) -> tuple[float, Array, Array]:
    """Mass, centre of mass and inertia about it, from ten inertial parameters; raises unless there are such."""
    mass, x, y, z, xx, xy, xz, yy, yz, zz = (float(number) for number in row)
    if not all(map(math.isfinite, row)):
        raise ModelError(f"{owner}: inertial parameters are not finite: {row.tolist()}")
    if mass == 0.0 and (x, y, z) != (0.0, 0.0, 0.0):
        raise ModelError(f"{owner}: first moment {(x, y, z)} without mass; give both or neither")
    a, b, c = (x / mass, y / mass, z / mass) if mass else (0.0, 0.0, 0.0)
    # about the centre of mass: I + m (c cᵀ − c·c 1)
    inertia = np.array(
        [
            [xx - mass * (b * b + c * c), xy + mass * a * b, xz + mass * a * c],
            [xy + mass * a * b, yy - mass * (a * a + c * c), yz + mass * b * c],
            [xz + mass * a * c, yz + mass * b * c, zz - mass * (a * a + b * b)],
        ]
    )
    return mass, np.array([a, b, c]), inertia


def fault(mass: float, inertia: Rows) -> str | None:
    """Why a mass [kg] and an inertia about the centre of mass [kg m²] are impossible, and the fix; else None.

    Point masses and thin rods are accepted: their inertia is singular but possible.
    """
    return _fault(mass, [number for row in inertia for number in row], _impossible(inertia))


def _fault(mass: float, inertia: Sequence[float], impossible: str | None) -> str | None:
    if mass < 0.0:
        return f"mass {mass:g} kg is negative"
    if mass == 0.0 and any(inertia):
        return "mass is zero but inertia is not; give both or neither (use armature for rotors)"
    return impossible


def _impossible(inertia: Rows) -> str | None:
    """Why no positive mass has an inertia; else None."""
    # plain numbers: NumPy would take ten times as long for so few
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = inertia
    scale = max(map(abs, (xx, xy, xz, yx, yy, yz, zx, zy, zz)))
    if scale == 0.0:
        return None
    if max(abs(xy - yx), abs(xz - zx), abs(yz - zy)) > _ASYMMETRY * scale:
        return "inertia is not symmetric; give the full 3×3 matrix about the centre of mass"
    if xy == yx == xz == zx == yz == zy == 0.0:
        low, middle, high = sorted((xx, yy, zz))
    elif clearly_possible(xx, yy, zz, (xy + yx) / 2.0, (xz + zx) / 2.0, (yz + zy) / 2.0):
        return None
    else:
        symmetric = (np.array(inertia) + np.transpose(inertia)) / 2.0
        low, middle, high = np.linalg.eigvalsh(symmetric).tolist()
    moments = f"principal moments {low:.4g}, {middle:.4g}, {high:.4g} kg m²"
    if low < -_NEGATIVE * high or not math.isfinite(high):
        return f"inertia is not positive definite ({moments}); is it about the centre of mass?"
    if low + middle < high * (1.0 - _TRIANGLE):
        return f"inertia violates the triangle inequality ({moments}): no mass distribution has such moments"
    return None


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


def clearly_physical(parameters: Array) -> Array:
    """Whether ten inertial parameters, (…, 10), are those of a body by a margin, as `clearly_possible`; (…)."""
    mass, first = parameters[..., 0], parameters[..., 1:4]
    xx, xy, xz, yy, yz, zz = np.moveaxis(parameters[..., 4:], -1, 0)
    with np.errstate(all="ignore"):
        half = (xx + yy + zz) / 2.0
        # second moments about the centre of mass, and their pivots
        x, y, z = np.moveaxis(first, -1, 0)
        a = half - xx - x * x / mass
        b, c = -xy - x * y / mass, -xz - x * z / mass
        d, e, f = half - yy - y * y / mass, -yz - y * z / mass, half - zz - z * z / mass
        least = 1e-9 * half
        second, between = d - b * b / a, e - b * c / a
        third = f - c * c / a - between * between / second
        found: Array = (mass > 0.0) & (a > least) & (second > least)
        found &= (third > least) & (third < np.inf)
        return found
