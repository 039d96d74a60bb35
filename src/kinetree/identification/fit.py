"""Fits a robot's inertial parameters and friction to measurements, by least squares.

Physical consistency is a convex constraint [W18]: a body's ten parameters are those of a mass distribution exactly if
its pseudo-inertia is positive definite,

    J = [Σ h; hᵀ m]    Σ = ½ tr(I) 1 − I

where m, h and I are mass, first moment and inertia about the link's origin. J is linear in the parameters, so that

    minimise ½ ‖R₁ B θ − z‖² + ½ ‖W (θ − prior)‖²    subject to    J(body) ⪰ margin,    friction ≥ 0

has one minimum, which the interior-point solver Clarabel finds. Residuals are variables of the program, so that RᵀR,
whose condition is the square of R's, is never formed.

[W18] P. Wensing, S. Kim, J.-J. Slotine, "Linear matrix inequalities for physically consistent inertial parameter
      identification: a statistical perspective on the mass distribution", IEEE Robotics and Automation Letters 3, 2018.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinetree.errors import IdentificationError, InputError
from kinetree.identification.base_parameters import BaseParameters, SplitFactor, factored, named
from kinetree.identification.parameters import Parameters
from kinetree.identification.regression import Regression
from kinetree.model.model import Model
from kinetree.runtime.arguments import refuse_lazy
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
    """The physically consistent parameters that minimise ½ ‖A θ − z‖² + ½ ‖W (θ − prior)‖², (p,)."""
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


#: Default of `tolerance`.
TOLERANCE = 1e-8
# how much weaker the prior is than the least excited combination of parameters
_FAINT = 1e-5


@dataclass(frozen=True)
class InertialFit:
    """Identified parameters.

    Attributes:
        robot: The model before identification.
        parameters: Inertial parameters of all bodies, as `robot.inertial_parameters`, (bodies, 10).
        friction: Identified terms of joints by name ("viscous", …), (nv,) each.
        residual: Root mean square of the residuals, divided by `noise`: about 1 if the model and `noise` are right.
        samples: Number of samples.
        base: The combinations of parameters that the data determine.
        consistent: Whether the parameters were constrained to be physically consistent.
    """

    robot: Model
    parameters: Array
    friction: dict[str, Array]
    residual: float
    samples: int
    base: BaseParameters
    consistent: bool

    @property
    def model(self) -> Model:
        """The robot with the identified parameters, damping, dry friction and armature.

        Raises:
            ModelError: If they are not physical, which is possible without `consistent`; see
                `Model.with_inertial_parameters(…, strict=False)`.
        """
        robot = self.robot.with_inertial_parameters(self.parameters)
        for term, change in (("viscous", "with_damping"), ("coulomb", "with_friction"), ("armature", "with_armature")):
            if term in self.friction:
                robot = getattr(robot, change)(self.friction[term])
        return robot

    def predict(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Joint forces for a motion, with friction, (…, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
        """
        for name, value in (("q", q), ("v", v), ("a", a)):
            refuse_lazy(f"predict: {name}", value)
        robot, v, a = self.robot, np.asarray(v, dtype=float), np.asarray(a, dtype=float)
        names = [body.name for body in robot.bodies]
        usable = [i for i, name in enumerate(names) if name in robot.frames]
        Y = robot.regressor(q, v, a, [names[i] for i in usable])
        tau: Array = np.tensordot(Y, self.parameters[usable], 2)
        terms = {"viscous": v, "coulomb": np.sign(v), "offset": np.ones_like(v), "armature": a}
        friction = {"armature": Parameters.of(robot, None, ()).armature, **self.friction}
        for term, value in friction.items():
            tau = tau + value * terms[term]
        return tau


def fit_inertial_parameters(
    robot: Model | Regression,
    q: Any = None,
    v: Any = None,
    a: Any = None,
    tau: Any = None,
    *,
    bodies: Iterable[str] | None = None,
    friction: Iterable[str] = (),
    noise: Any = None,
    prior_deviation: float | None = None,
    consistent: bool = True,
    tolerance: float = TOLERANCE,
) -> InertialFit:
    """Inertial parameters and friction that explain measured joint forces best, in the least-squares sense.

    Samples are reduced block by block to a small triangular matrix, so that memory does not grow with their number.
    Dask arrays are reduced by their scheduler or cluster.

    Parameters that the data do not determine stay as close as possible to those of `robot`.

    Args:
        robot: The model before identification; or a `Regression` to which samples have been added.
        q: Configurations, (…, nq).
        v: Joint velocities, (…, nv).
        a: Joint accelerations, (…, nv).
        tau: Measured joint forces, (…, nv) [N m or N].
        bodies: Bodies to identify; by default all that have mass.
        friction: Terms to identify for each joint with one degree of freedom: "viscous" (times v), "coulomb" (times
            sign(v)), "offset" (constant), "armature" (times a).
        noise: Standard deviation of the measured forces, one number or (nv,) [N m or N]; 1 by default.
        prior_deviation: Standard deviation of the parameters around those of `robot`, relative to the mass and size of
            the body; None if nothing is known, except that bodies are physical.
        consistent: Whether all bodies must be physically possible: a positive definite pseudo-inertia, and no negative
            friction. Needs the extra `identification`.
        tolerance: Combinations of parameters that are excited less than this, relative to others, count as
            unidentifiable.

    Raises:
        InputError: If shapes are wrong, samples are missing or not finite, or nothing is excited.
        IdentificationError: If there are no physically consistent parameters.
    """
    given = (q, v, a, tau)
    if isinstance(robot, Regression):
        if any(each is not None for each in given) or bodies is not None or tuple(friction) or noise is not None:
            raise InputError("a Regression has its own samples, bodies, friction and noise; give them to it instead")
        regression = robot
    else:
        if any(each is None for each in given):
            raise InputError("fit_inertial_parameters needs q, v, a and tau, or a Regression that has them")
        sigma = 1.0 if noise is None else noise
        regression = Regression(robot, bodies=bodies, friction=friction, noise=sigma).add(*given)
    if not 0.0 < tolerance < 1.0:
        raise InputError(f"tolerance is a fraction between 0 and 1, got {tolerance!r}")
    if prior_deviation is not None and not 0.0 < prior_deviation < np.inf:
        raise InputError(f"prior_deviation is a positive number or None, got {prior_deviation!r}")
    unknowns, R = regression.parameters, regression.R
    split = factored(R[:, :-1], R[:, -1], tolerance)
    if not len(split.right):
        raise InputError("the samples excite no parameter: there are none, or the robot does not move")
    theta = _solved(unknowns, split, prior_deviation, consistent)
    error = split.triangle @ (split.matrix @ theta) - split.right
    square = float(error @ error) + split.rest
    parameters, terms = unknowns.split(theta)
    return InertialFit(
        unknowns.robot,
        parameters,
        terms,
        float(np.sqrt(square / regression.rows)),
        regression.rows // unknowns.robot.nv,
        _base(unknowns, split, theta, square / max(1, regression.rows - len(split.right))),
        consistent,
    )


def _solved(unknowns: Parameters, split: SplitFactor, prior_deviation: float | None, consistent: bool) -> Array:
    """All parameters, (p,)."""
    prior, scales = unknowns.prior, unknowns.scales
    A = split.triangle @ split.matrix
    if prior_deviation is not None:
        W = np.diag(1.0 / (prior_deviation * scales))
    else:
        # the prior decides only where the data do not
        _, values, Vt = np.linalg.svd(A * scales)
        W = _FAINT * float(values.min()) * Vt[len(values) :] / scales
    if consistent:
        return solve(unknowns, A, split.right, W)
    change = np.concatenate([A, W]) * scales
    wanted = np.concatenate([split.right - A @ prior, np.zeros(len(W))])
    # rows of A and W may differ by many orders of magnitude, so that no singular value is negligible
    theta: Array = prior + scales * np.linalg.lstsq(change, wanted, rcond=0.0)[0]
    return theta


def _base(unknowns: Parameters, split: SplitFactor, theta: Array, variance: float) -> BaseParameters:
    names = unknowns.names
    spread = np.linalg.inv(split.triangle)
    unused = np.flatnonzero(~split.matrix.any(axis=0))
    return BaseParameters(
        tuple(named(names, row) for row in split.matrix),
        split.matrix,
        split.matrix @ theta,
        np.sqrt(variance * (spread * spread).sum(axis=1)),
        tuple(names[i] for i in unused),
    )
