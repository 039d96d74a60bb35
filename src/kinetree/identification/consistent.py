"""Physically consistent parameters: least squares with positive definite pseudo-inertias [W18], as a convex program.

A body's ten parameters are those of a mass distribution exactly if its pseudo-inertia is positive definite,

    J = [Σ h; hᵀ m]    Σ = ½ tr(I) 1 − I

where m, h and I are mass, first moment and inertia about the link's origin. J is linear in the parameters, so that

    minimise ½ ‖R₁ B θ − z‖² + ½ ‖W (θ − prior)‖²    subject to    J(body) ⪰ margin,    friction ≥ 0

has one minimum, which the interior-point solver Clarabel finds. Residuals are variables of the program, so that RᵀR,
whose condition is the square of R's, is never formed.

[W18] P. Wensing, S. Kim, J.-J. Slotine, "Linear matrix inequalities for physically consistent inertial parameter
      identification: a statistical perspective on the mass distribution", IEEE Robotics and Automation Letters 3, 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import IdentificationError, InputError
from kinetree.identification.parameters import Parameters
from kinetree.spatial.value import Array

#: Smallest eigenvalue of the pseudo-inertia of a body, in units of its mass and radius of gyration before.
MARGIN = 1e-6
_PAIRS = [(i, j) for j in range(4) for i in range(j + 1)]  # the upper triangle, column by column


def pseudo_inertia(theta: Array) -> Array:
    """Pseudo-inertias of bodies, (…, 4, 4), from ten parameters each, (…, 10)."""
    J = np.zeros((*theta.shape[:-1], 4, 4))
    xx, xy, xz, yy, yz, zz = (theta[..., i] for i in range(4, 10))
    half = (xx + yy + zz) / 2.0
    inertia = [[half - xx, -xy, -xz], [-xy, half - yy, -yz], [-xz, -yz, half - zz]]
    for i, row in enumerate(inertia):
        for j, entry in enumerate(row):
            J[..., i, j] = entry
        J[..., i, 3] = J[..., 3, i] = theta[..., 1 + i]
    J[..., 3, 3] = theta[..., 0]
    return J


def solve(parameters: Parameters, A: Array, z: Array, W: Array) -> Array:
    """The physically consistent parameters that minimise ½ ‖A θ − z‖² + ½ ‖W (θ − prior)‖², (p,).

    Args:
        parameters: The unknowns.
        A: (k, p).
        z: (k,).
        W: (l, p).
    """
    try:
        import clarabel
        from scipy import sparse
    except ImportError as error:
        raise InputError(
            f"physical consistency needs Clarabel and SciPy ({error}): pip install 'kinetree[identification]'; or give "
            "consistent=False"
        ) from None
    scales, prior = parameters.scales, parameters.prior
    # unknowns are x = θ / scales and the residuals e of all rows
    rows = np.concatenate([A, W]) * scales
    right = np.concatenate([z, W @ prior])
    size = float(np.abs(rows).max()) or 1.0
    rows, right = rows / size, right / size
    k, p = rows.shape
    equal = np.concatenate([rows, -np.eye(k)], axis=1)  # rows x − e = right

    bounds, lower = [], []
    cones: list[Any] = [clarabel.ZeroConeT(k)]
    friction = [i for i, name in enumerate(parameters.names) if name.rpartition(".")[2] in _POSITIVE]
    friction = [i for i in friction if i >= 10 * len(parameters.bodies)]
    if friction:
        bounds.append(-np.eye(p)[friction])
        lower.append(np.zeros(len(friction)))
        cones.append(clarabel.NonnegativeConeT(len(friction)))
    for body, (m, l) in enumerate(zip(parameters.masses, parameters.lengths)):
        own = slice(10 * body, 10 * body + 10)
        units = pseudo_inertia(np.diag(scales[own]))  # of a unit of each parameter, (10, 4, 4)
        T = np.array([1.0 / l, 1.0 / l, 1.0 / l, 1.0]) / np.sqrt(m)
        units = units * T[:, None] * T
        block = np.zeros((len(_PAIRS), p))
        block[:, own] = -np.array([_vector(unit) for unit in units]).T
        bounds.append(block)
        lower.append(-_vector(MARGIN * np.eye(4)))
        cones.append(clarabel.PSDTriangleConeT(4))
    inequality = np.concatenate(bounds)
    constraints = sparse.csc_matrix(np.block([[equal], [inequality, np.zeros((len(inequality), k))]]))
    objective = sparse.csc_matrix(np.diag([*np.zeros(p), *np.ones(k)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        objective, np.zeros(p + k), constraints, np.concatenate([right, *lower]), cones, settings
    )
    solution = solver.solve()
    theta = np.array(solution.x)[:p] * scales
    if str(solution.status) not in ("Solved", "AlmostSolved") or not np.isfinite(theta).all():
        raise IdentificationError(
            f"the solver found no physically consistent parameters ({solution.status}); check units and signs of the "
            "measured forces, or give consistent=False to see the unconstrained estimate"
        )
    theta[friction] = np.maximum(theta[friction], 0.0)
    _require_definite(parameters, theta)
    return theta


#: Terms that take energy from a motion.
_POSITIVE = ("viscous", "coulomb", "armature")


def _vector(matrix: Array) -> Array:
    """The upper triangle as a vector with the matrix's norm."""
    return np.array([matrix[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in _PAIRS])


def _require_definite(parameters: Parameters, theta: Array) -> None:
    count = 10 * len(parameters.bodies)
    least = np.linalg.eigvalsh(pseudo_inertia(theta[:count].reshape(-1, 10)))[:, 0]
    if not (least > 0.0).all():
        body = parameters.bodies[int(np.argmin(least))]
        raise IdentificationError(
            f"the pseudo-inertia of body {body!r} is not positive definite (smallest eigenvalue {least.min():.3g}): "
            "the data ask for a body without extent; add a prior with prior_deviation=, or identify fewer bodies"
        )
