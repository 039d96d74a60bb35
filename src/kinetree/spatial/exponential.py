"""Derivatives of screw motions: what a change of a twist, or of where it starts, does to where it ends.

Twists are six numbers, angular part first, and body-fixed: a pose moves from T to T exp(u). All functions take NumPy
arrays with any leading axes. Spherical and planar motions are the parts of these matrices that belong to their axes.
"""

from __future__ import annotations

import numpy as np

from kinetree.spatial.fixed import product, sincos
from kinetree.spatial.rotation import exp_matrix, inverse_factor, screw_displacement
from kinetree.spatial.value import Array

# Powers of ad up to this one are summed where the closed form loses digits: 1/20! is below rounding.
_TERMS = 19


def bracket(u: Array) -> Array:
    """ad: the matrices u × of twists, (…, 6) to (…, 6, 6)."""
    w, v = _skew(u[..., :3]), _skew(u[..., 3:])
    return np.concatenate([np.concatenate([w, np.zeros_like(w)], axis=-1), np.concatenate([v, w], axis=-1)], axis=-2)


def transport(u: Array) -> Array:
    """Ad of exp(−u): takes twists from where a screw motion starts to where it ends, (…, 6) to (…, 6, 6)."""
    E = np.swapaxes(exp_matrix(u[..., :3]), -1, -2)
    lever = -product(E, _skew(screw_displacement(u[..., :3], u[..., 3:])))
    return np.concatenate(
        [np.concatenate([E, np.zeros_like(E)], axis=-1), np.concatenate([lever, E], axis=-1)], axis=-2
    )


def right_jacobian(u: Array) -> Array:
    """J with exp(u + δ) = exp(u) exp(J δ) to first order, (…, 6) to (…, 6, 6).

    Σ (−ad)ⁿ/(n + 1)!, which the characteristic polynomial of ad, x²(x² + θ²)², turns into four powers of ad.
    """
    ad, one = -bracket(u), np.eye(6)
    square = _square(u)[..., None, None]
    small = square < 1.0
    series: Array = np.broadcast_to(one, ad.shape)
    scaled = np.where(small, ad, 0.0)
    for power in range(_TERMS, 0, -1):
        series = one + product(scaled, series) / (power + 1)
    angle = np.sqrt(np.where(small, 1.0, square))
    sin, cos = sincos(angle)
    factors = (
        (4.0 - angle * sin - 4.0 * cos) / (2.0 * angle**2),
        (4.0 * angle - 5.0 * sin + angle * cos) / (2.0 * angle**3),
        (2.0 - angle * sin - 2.0 * cos) / (2.0 * angle**4),
        (2.0 * angle - 3.0 * sin + angle * cos) / (2.0 * angle**5),
    )
    closed: Array = np.broadcast_to(one, ad.shape)
    power_of_ad: Array = closed
    for factor in factors:
        power_of_ad = product(power_of_ad, ad)
        closed = closed + factor * power_of_ad
    return np.where(small, series, closed)


def inverse_right_jacobian(u: Array) -> Array:
    """The inverse of `right_jacobian`, for twists that turn by less than a full turn, (…, 6) to (…, 6, 6).

    Of [[A, 0], [B, A]] the inverse is [[A⁻¹, 0], [−A⁻¹ B A⁻¹, A⁻¹]], and A⁻¹ = 1 + ½ θ× + (1 − ½θ cot ½θ)/θ² (θ×)².
    """
    turn = _skew(u[..., :3])
    inverse = np.eye(3) + 0.5 * turn + inverse_factor(_square(u))[..., None, None] * product(turn, turn)
    corner = -product(product(inverse, right_jacobian(u)[..., 3:, :3]), inverse)
    top = np.concatenate([inverse, np.zeros_like(inverse)], axis=-1)
    return np.concatenate([top, np.concatenate([corner, inverse], axis=-1)], axis=-2)


def _square(u: Array) -> Array:
    """Squared angles of twists, (…, 6) to (…)."""
    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    total: Array = x * x + y * y + z * z
    return total


def _skew(r: Array) -> Array:
    x, y, z = np.moveaxis(r, -1, 0)
    zero = np.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
