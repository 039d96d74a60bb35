"""`TaskState`: all quantities of tasks at one state of the robot, or at a batch of states.

The rows J_c of contacts may be dependent, exactly or nearly: two feet on the ground constrain some motions twice. So
they are combined to rows T J_c that are orthonormal with respect to M⁻¹: (T J_c) M⁻¹ (T J_c)ᵀ = 1 for the independent
ones; the others become zero. Then

    contact inertia     (J_c M⁻¹ J_cᵀ)⁺ = Tᵀ T
    null space          N_c = 1 − M⁻¹(T J_c)ᵀ (T J_c)

and a constrained task is what remains after projecting out its components along these rows, as in a QR factorisation.
No nearly singular matrix is inverted: a direction with eigenvalue λ has an error of eps/√λ instead of eps/λ.

[SK05] L. Sentis, O. Khatib, "Synthesis of whole-body behaviors through hierarchical control of behavioral primitives",
       International Journal of Humanoid Robotics 2, 2005.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.runtime.lazy import computed, lazy
from kinetree.runtime.matrix_products import dots, one_minus, product, times
from kinetree.spatial.value import Array
from kinetree.tasks.core import Core
from kinetree.tasks.singular import Spectrum, jacobi, spectrum

#: Directions with less than this fraction of the largest eigenvalue are redundant. Smaller than the cut of tasks, since
#: contacts should constrain every direction they can.
REDUNDANT = 1e-10


class Hold(NamedTuple):
    """Rows of contacts, made orthonormal."""

    combination: Array  # T, (…, c, c)
    jacobian: Array  # T J_c, (…, c, nv)
    response: Array  # M⁻¹(T J_c)ᵀ, (…, nv, c)
    rank: Array  # number of independent rows, (…); −1 where they are not finite


def hold(J: Array, response: Array, mean: Array, reach: Array) -> Hold:
    """Make rows J_c of contacts orthonormal, given M⁻¹J_cᵀ, and mean and reach as for `spectrum`."""
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


class TaskState:
    """Quantities of tasks with r rows, each computed on first access. Created by `tasks.at(q, v)`.

    With τ = JᵀF, the motion x of the tasks obeys Λ ẍ + bias = F. The arrays are read-only.
    """

    def __init__(self, tasks: Any, core: Core, q: Array, v: Array | None) -> None:
        self.__dict__.update(tasks=tasks, core=core, q=_locked(q), v=v if v is None else _locked(v))

    #: The `Tasks` that it belongs to.
    tasks: Any
    core: Core
    q: Array
    v: Array | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: cannot set {name!r}")

    def __repr__(self) -> str:
        batch = f", batch {self.q.shape[:-1]}" if self.q.ndim > 1 else ""
        return f"<{type(self).__name__} of {self.core.rows} rows{batch}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return self.tasks.at, (self.q, self.v)

    def __copy__(self) -> TaskState:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskState:
        return self

    # Results of recursions

    @lazy
    def inverse_inertia(self) -> Array:
        """Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r), the acceleration of each row per unit force along each row."""
        return _locked(self.core.recursions.inverse_inertia(self.q))

    @lazy
    def jacobian(self) -> Array:
        """J, (…, r, nv), which maps joint velocities to task velocities. With contacts, J N_c."""
        return _locked(self.core.recursions.jacobian(self.q))

    @lazy
    def jacobian_dot_v(self) -> Array:
        """J̇v, (…, r), the acceleration of the tasks at zero joint accelerations. Needs v.

        With contacts, the acceleration of the tasks for τ = C + g, which includes the effect of the contact forces.
        """
        return _locked(self.core.recursions.jacobian_dot_v(self.q, self._velocity))

    @property
    def _velocity(self) -> Array:
        if self.v is None:
            raise InputError("this needs joint velocities: call at(q, v)")
        return self.v

    # Derived quantities

    @lazy
    def inertia(self) -> Array:
        """Λ, (…, r, r), the force along each row per unit acceleration of each row; `singular` applies."""
        return _locked(self.tasks.inertia(self.q))

    @lazy
    def _inverse_and_nullspace(self) -> tuple[Array, Array]:
        _, inverse, nullspace = self.tasks.dynamics(self.q)
        return _locked(inverse), _locked(nullspace)

    @lazy
    def dynamically_consistent_inverse(self) -> Array:
        """J̄ = M⁻¹JᵀΛ, (…, nv, r), the generalised inverse of J with the least kinetic energy."""
        return self._inverse_and_nullspace[0]

    @lazy
    def nullspace(self) -> Array:
        """N = 1 − J̄J, (…, nv, nv): joint forces Nᵀτ do not accelerate the tasks, velocities N v do not move them."""
        return self._inverse_and_nullspace[1]

    @lazy
    def bias(self) -> Array:
        """J̄ᵀ(C + g) − Λ J̇v, (…, r), the force F under which the tasks do not accelerate. Needs v."""
        return _locked(self.tasks.bias(self.q, self._velocity))

    # Singularity

    @lazy
    def rank(self) -> Any:
        """Number of directions in which the tasks can move, (…); −1 where q is not finite."""
        return self.tasks.rank(self.q)

    @lazy
    def condition(self) -> Any:
        """Condition number of Λ⁻¹ with weighted rows, (…); infinite if singular."""
        return self.tasks.condition(self.q)


class HeldState(TaskState):
    """Quantities of tasks of a robot in contact; see `kinetree.tasks.state`."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.core.held} of contacts>"

    @computed
    def _jacobians(self) -> tuple[Array, Array]:
        """J of contacts and of tasks."""
        J = self.core.recursions.jacobian(self.q)
        return J[..., : self.core.held, :], J[..., self.core.held :, :]

    @computed
    def _responses(self) -> tuple[Array, Array]:
        """M⁻¹Jᵀ of contacts and of tasks."""
        response = self.core.recursions.response(self.q)
        return response[..., : self.core.held], response[..., self.core.held :]

    @computed
    def _hold(self) -> Hold:
        return hold(self._jacobians[0], self._responses[0], *self.core.contact_scale)

    @computed
    def _along(self) -> Array:
        """Components of each row along the combined rows of the contacts, (…, r, c)."""
        return product(self._jacobians[1], self._hold.response)

    @computed
    def contact_rank(self) -> Any:
        """Number of directions that the contacts constrain, (…); −1 where q is not finite.

        Smaller than their number of rows if some constraints are redundant.
        """
        return np.where(self._finite, self._hold.rank, -1)[()]

    @computed
    def contact_inertia(self) -> Array:
        """(J_c M⁻¹J_cᵀ)⁺, (…, c, c), the force at the contacts per unit of acceleration that they prevent."""
        T = self._hold.combination
        return _locked(product(np.swapaxes(T, -1, -2), T))

    @computed
    def contact_nullspace(self) -> Array:
        """N_c = 1 − J̄_c J_c, (…, nv, nv): joint velocities N_c v do not move the contacts."""
        return _locked(one_minus(product(self._hold.response, self._hold.jacobian)))

    @computed
    def jacobian(self) -> Array:
        """J N_c, (…, r, nv), which maps joint velocities to task velocities under the contact constraints."""
        return _locked(self._jacobians[1] - product(self._along, self._hold.jacobian))

    @computed
    def _response(self) -> Array:
        """M⁻¹(J N_c)ᵀ, (…, nv, r)."""
        left: Array = self._responses[1] - product(self._hold.response, np.swapaxes(self._along, -1, -2))
        return left

    @computed
    def inverse_inertia(self) -> Array:
        """Λ⁻¹ of the tasks under the contact constraints, (…, r, r)."""
        A = product(self.jacobian, self._response)
        return _locked(_symmetric(A))

    @computed
    def jacobian_dot_v(self) -> Array:
        """J̇v with the effect of the contact forces, (…, r): the acceleration of the tasks for τ = C + g. Needs v."""
        drift = self.core.recursions.jacobian_dot_v(self.q, self._velocity)
        held = times(self._hold.combination, drift[..., : self.core.held])
        return _locked(drift[..., self.core.held :] - times(self._along, held))

    @computed
    def bias(self) -> Array:
        """J̄ᵀ(C + g) − Λ J̇v, (…, r), the force F under which the tasks do not accelerate. Needs v."""
        joint = self.core.recursions.bias_forces(self.q, self._velocity)
        projected = times(np.swapaxes(self.dynamically_consistent_inverse, -1, -2), joint)
        drift = times(self.inertia, self.jacobian_dot_v)
        return _locked(projected - drift)

    @lazy
    def _finite(self) -> Array:
        """Whether q is finite, (…). Λ⁻¹ may be finite even if not, since it does not depend on prismatic joints."""
        return np.asarray(np.isfinite(self.q).all(axis=-1))

    @computed
    def rank(self) -> Any:
        """Number of directions in which the tasks can move, (…); −1 where q is not finite."""
        return np.where(self._finite, self._spectrum.rank, -1.0).astype(int)[()]

    @computed
    def condition(self) -> Any:
        """Condition number of Λ⁻¹ with weighted rows, (…); infinite if singular."""
        return np.where(self._finite, self._spectrum.condition, np.nan)[()]

    @computed
    def _spectrum(self) -> Spectrum:
        own = dots(self._jacobians[1], np.swapaxes(self._responses[1], -1, -2))  # of Λ⁻¹ without contacts
        return self.core.spectrum(self.inverse_inertia, own)

    @computed
    def inertia(self) -> Array:
        """Λ of the tasks under the contact constraints, (…, r, r)."""
        places = None if self.q.ndim == 1 else np.argwhere(np.ones(self.q.shape[:-1]))
        return _locked(self.core.inertia(self._spectrum, places))

    @computed
    def dynamically_consistent_inverse(self) -> Array:
        """J̄ = M⁻¹(J N_c)ᵀΛ, (…, nv, r)."""
        return _locked(product(self._response, self.inertia))

    @computed
    def nullspace(self) -> Array:
        """N = N_c − J̄J, (…, nv, nv), the projection onto motions of neither tasks nor contacts."""
        return _locked(self.contact_nullspace - product(self.dynamically_consistent_inverse, self.jacobian))


def _locked(array: Array) -> Array:
    array.setflags(write=False)
    return array
