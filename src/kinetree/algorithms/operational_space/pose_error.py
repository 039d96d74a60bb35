"""Errors between orientations, and how far a matrix is from a pose."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.scalar import arctan2, select, sqrt
from kinetree.spatial.value import Array
from kinetree.spatial.vector3 import cross

# Half a turn away, the axis is lost in rounding: cos²(θ/2) is not smaller than this.
_HALF_TURN = 1e-12
# sin²(θ/2) below which a series is exact to rounding, and what keeps a square root differentiable.
_SMALL, _TINY = 1e-5, 2.0**-400


def luh(E: Array) -> Array:
    """½ Σ sᵢ × s_dᵢ from the rotation R_d Rᵀ between two orientations."""
    return np.array([0.5 * (E[2, 1] - E[1, 2]), 0.5 * (E[0, 2] - E[2, 0]), 0.5 * (E[1, 0] - E[0, 1])])


def rotation_vector(E: Array) -> Array:
    """θ times the axis of a rotation, from 2 sin(θ/2) of it."""
    cosine = 0.25 * (1.0 + E[0, 0] + E[1, 1] + E[2, 2])  # cos²(θ/2)
    half = sqrt(select(cosine, _HALF_TURN, _HALF_TURN, cosine))
    double = luh(E) / half
    square = 0.25 * (double @ double)  # sin²(θ/2)
    sine = sqrt(square + _TINY)
    # θ/2 / sin(θ/2), by its series close to no rotation
    ratio = select(square, _SMALL, 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0)), arctan2(sine, half) / sine)
    vector: Array = double * ratio
    return vector


def fault_of(T: Array) -> Any:
    """How far a matrix is from a pose: squares of what RᵀR − 1, det R − 1 and the last row should be zero in."""
    R, last = T[:3, :3], T[3]
    x, y, z = R[:, 0], R[:, 1], R[:, 2]
    off = [x @ y, y @ z, z @ x, x @ x - 1.0, y @ y - 1.0, z @ z - 1.0, cross(x, y) @ z - 1.0, *last[:3], last[3] - 1.0]
    return sum(entry * entry for entry in off)
