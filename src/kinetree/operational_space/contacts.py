"""Contacts as rows that are orthonormal with respect to M⁻¹.

The rows J_c of contacts may be dependent, exactly or nearly: two feet on the ground constrain some motions twice. So
they are combined to T J_c such that (T J_c) M⁻¹ (T J_c)ᵀ = 1 for the independent ones; the others become zero. Then

    contact inertia     (J_c M⁻¹ J_cᵀ)⁺ = Tᵀ T
    null space          N_c = 1 − M⁻¹(T J_c)ᵀ (T J_c)

and a constrained task is what remains after projecting out its components along these rows, as in a QR factorisation.
No nearly singular matrix is inverted: a direction with eigenvalue λ has an error of eps/√λ instead of eps/λ.

[SK05] L. Sentis, O. Khatib, "Synthesis of whole-body behaviors through hierarchical control of behavioral primitives",
       International Journal of Humanoid Robotics 2, 2005.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetree.operational_space.products import dots, product
from kinetree.operational_space.singular import jacobi, spectrum
from kinetree.spatial.value import Array

#: Directions with less than this fraction of the largest eigenvalue are redundant. Smaller than the cut of tasks, since
#: contacts should constrain every direction they can.
REDUNDANT = 1e-10


class Hold(NamedTuple):
    """Rows of contacts, made orthonormal.

    Attributes:
        combination: T, (…, c, c).
        jacobian: T J_c, (…, c, nv).
        response: M⁻¹(T J_c)ᵀ, (…, nv, c).
        rank: Number of independent rows, (…); −1 where they are not finite.
    """

    combination: Array
    jacobian: Array
    response: Array
    rank: Array


def hold(J: Array, response: Array, mean: Array, reach: Array) -> Hold:
    """Make rows of contacts orthonormal.

    Args:
        J: J_c, (…, c, nv).
        response: M⁻¹J_cᵀ, (…, nv, c).
        mean: As for `spectrum`.
        reach: As for `spectrum`, (c,).
    """
    A = _symmetric(product(J, response))
    taken = spectrum(A, np.diagonal(A, axis1=-2, axis2=-1), mean, reach)
    T = taken.vectors / taken.roots[..., None, :]
    J, response = product(T, J), product(response, np.swapaxes(T, -1, -2))
    # Small eigenvalues λ of A have absolute errors of eps, and their eigenvectors mix with those of zero by eps/λ. The
    # combined rows reduce both errors to eps/√λ; they are nearly orthogonal, so one sweep of rotations is enough.
    _, turn = jacobi(_symmetric(product(J, response)))
    T, J, response = product(turn, T), product(turn, J), product(response, np.swapaxes(turn, -1, -2))
    values = dots(J, np.swapaxes(response, -1, -2))
    edge = REDUNDANT * values.max(axis=-1, keepdims=True, initial=1.0)
    independent = values > edge
    scale = np.where(independent, 1.0 / np.sqrt(values), 0.0)[..., :, None]
    T, J, response = scale * T, scale * J, response * np.swapaxes(scale, -1, -2)
    # one step of Newton's method for the inverse square root of a matrix close to the identity
    near = 1.5 * np.eye(len(reach)) - 0.5 * _symmetric(product(J, response))
    T, J, response = product(near, T), product(near, J), product(response, near)
    finite = ~np.isnan(taken.values).any(axis=-1)
    return Hold(T, J, response, np.where(finite, independent.sum(axis=-1), -1))


def _symmetric(A: Array) -> Array:
    """The symmetric part of matrices that are symmetric up to rounding."""
    part: Array = 0.5 * (A + np.swapaxes(A, -1, -2))
    return part
