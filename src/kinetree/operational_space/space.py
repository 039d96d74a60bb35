"""Operational-space dynamics of some tasks at one configuration, or at a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.operational_space import inverse
from kinetree.operational_space.frames import TaskSet
from kinetree.operational_space.inverse import Inverse
from kinetree.operational_space.lazy import lazy
from kinetree.spatial.value import Array


class OperationalSpace:
    """Quantities of tasks with r rows, each computed when first asked for. Made by `robot.operational_space`.

    With τ = JᵀF, the motion x of the tasks obeys Λ ẍ + bias = F. Arrays cannot be changed.
    """

    def __init__(
        self,
        tasks: TaskSet,
        invert: Inverse,
        bias_forces: Callable[..., Array],
        q: Array,
        v: Array | None,
        singular: str,
        cut: float,
    ) -> None:
        fields = self.__dict__
        fields["_tasks"], fields["_invert"], fields["_bias_forces"] = tasks, invert, bias_forces
        fields["q"], fields["v"], fields["singular"], fields["cut"] = q, v, singular, cut

    q: Array
    v: Array | None
    singular: str
    cut: float
    _tasks: TaskSet
    _invert: Inverse
    _bias_forces: Callable[..., Array]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an OperationalSpace is frozen: cannot set {name!r}")

    def __repr__(self) -> str:
        batch = f", batch {self.q.shape[:-1]}" if self.q.ndim > 1 else ""
        return f"<{type(self).__name__} of {len(self._tasks.groups)} rows{batch}>"

    # What the recursions give

    @lazy
    def inverse_inertia(self) -> Array:
        """Λ⁻¹ = J M⁻¹ Jᵀ, (…, r, r): acceleration of each row per unit force along each row."""
        return _locked(self._tasks.inverse_inertia(self.q))

    @lazy
    def jacobian(self) -> Array:
        """J, (…, r, nv): takes joint velocities to those of the tasks. With contacts, J N_c."""
        return _locked(self._tasks.jacobian(self.q))

    @lazy
    def jacobian_dot_v(self) -> Array:
        """J̇v, (…, r): acceleration of the tasks when all joint accelerations are zero. Needs v.

        With contacts, acceleration of the tasks when τ = C + g: what keeps the contacts in place is part of it.
        """
        return _locked(self._tasks.drift(self.q, self._velocity))

    @property
    def _scale(self) -> Array:
        """Λ⁻¹ as it is without contacts: what decides which of its eigenvalues are small."""
        return self.inverse_inertia

    @property
    def _velocity(self) -> Array:
        if self.v is None:
            raise InputError("this needs joint velocities: call operational_space(q, frames, v)")
        return self.v

    # What follows

    @lazy
    def inertia(self) -> Array:
        """Λ, (…, r, r): force along each row per unit acceleration of each row; `singular` says where there is none."""
        return _locked(self._invert(self.inverse_inertia, self._scale, self.singular, self.cut))

    @lazy
    def _consistent_and_null(self) -> tuple[Array, Array]:
        """J̄ and N out of one kernel; those of samples that it does not trust, from what `singular` makes of Λ."""
        _, spread, consistent, nullspace = self._tasks.dynamics(self.q)
        trusted = self._invert.trusted(self.cut)
        which: Any = ...
        if spread.ndim == 0:
            again = not spread.item() < trusted
        else:
            which = np.logical_not(spread < trusted)
            again = which.any()
        if again:
            inertia, q = self.inertia[which], self.q[which]
            consistent[which] = self._tasks.response(q) @ inertia
            nullspace[which] = _one_minus(consistent[which] @ self._tasks.jacobian(q))
        return _locked(consistent), _locked(nullspace)

    @lazy
    def dynamically_consistent_inverse(self) -> Array:
        """J̄ = M⁻¹JᵀΛ, (…, nv, r): of all inverses of J, the one that moves with the least kinetic energy."""
        return self._consistent_and_null[0]

    @lazy
    def nullspace(self) -> Array:
        """N = 1 − J̄J, (…, nv, nv): joint forces Nᵀτ do not accelerate the tasks; velocities N v do not move them."""
        return self._consistent_and_null[1]

    @lazy
    def bias(self) -> Array:
        """J̄ᵀ(C + g) − Λ J̇v, (…, r): the force F for which the tasks do not accelerate. Needs v."""
        joint = self._bias_forces(self.q, self._velocity)
        felt = np.swapaxes(self.dynamically_consistent_inverse, -1, -2) @ joint[..., None]
        return _locked((felt - self.inertia @ self.jacobian_dot_v[..., None])[..., 0])

    # How singular it is

    @lazy
    def _eigenvalues(self) -> Array:
        return self._invert.eigenvalues(self.inverse_inertia, self._scale)

    @lazy
    def rank(self) -> Any:
        """Number of directions in which the tasks can be moved, (…); −1 where q is not finite."""
        return inverse.rank(self._eigenvalues, self.cut)[()]

    @lazy
    def condition(self) -> Any:
        """Largest by least eigenvalue of Λ⁻¹, with rows weighted to be comparable, (…); infinite if singular."""
        least, most = self._eigenvalues[..., 0], self._eigenvalues[..., -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.isnan(least), np.nan, np.where(least > 0.0, most / least, np.inf))[()]


class SupportedSpace(OperationalSpace):
    """Quantities of tasks of a robot whose contacts stay where they are, as in [SK05].

    The same recursions give Λ⁻¹ of contacts and tasks together; contacts are then eliminated from it. With
    E = J_t M⁻¹J_cᵀ (J_c M⁻¹J_cᵀ)⁺, everything of a task loses E times the same of the contacts. Contacts may hold one
    direction twice.

    [SK05] L. Sentis, O. Khatib, "Synthesis of whole-body behaviors through hierarchical control of behavioral
           primitives", International Journal of Humanoid Robotics 2, 2005.
    """

    def __init__(self, tasks: TaskSet, invert: Inverse, *rest: Any, contacts: Inverse) -> None:
        super().__init__(tasks, invert, *rest)
        self.__dict__["_contacts"] = contacts

    _contacts: Inverse

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._held} of contacts>"

    @property
    def _held(self) -> int:
        """Rows of contacts; they come first."""
        return self._contacts.rows

    @lazy
    def _together(self) -> Array:
        return self._tasks.inverse_inertia(self.q)

    @property
    def _scale(self) -> Array:
        return np.ascontiguousarray(self._together[..., self._held :, self._held :])

    @lazy
    def contact_inertia(self) -> Array:
        """(J_c M⁻¹J_cᵀ)⁺, (…, c, c): force at the contacts per unit of acceleration that they do not let happen."""
        held = np.ascontiguousarray(self._together[..., : self._held, : self._held])
        return _locked(self._contacts(held, held, "truncated", inverse.REDUNDANT))

    @lazy
    def _elimination(self) -> Array:
        return self._together[..., self._held :, : self._held] @ self.contact_inertia

    @lazy
    def inverse_inertia(self) -> Array:
        """Λ⁻¹ of the tasks while the contacts hold, (…, r, r)."""
        felt = self._elimination @ self._together[..., : self._held, self._held :]
        return _locked(self._scale - 0.5 * (felt + np.swapaxes(felt, -1, -2)))

    @lazy
    def _both_jacobians(self) -> Array:
        return self._tasks.jacobian(self.q)

    @lazy
    def jacobian(self) -> Array:
        """J N_c, (…, r, nv): the tasks' velocities, for joint velocities of which the contacts take their share."""
        J = self._both_jacobians
        return _locked(J[..., self._held :, :] - self._elimination @ J[..., : self._held, :])

    @lazy
    def _both_responses(self) -> Array:
        return self._tasks.response(self.q)

    @lazy
    def dynamically_consistent_inverse(self) -> Array:
        """J̄ = M⁻¹(J N_c)ᵀΛ, (…, nv, r)."""
        R = self._both_responses
        response = R[..., self._held :] - R[..., : self._held] @ np.swapaxes(self._elimination, -1, -2)
        return _locked(response @ self.inertia)

    @lazy
    def jacobian_dot_v(self) -> Array:
        """J̇v less E J̇_c v, (…, r): acceleration of the tasks when no joint force beyond C + g acts. Needs v."""
        drift = self._tasks.drift(self.q, self._velocity)
        taken = self._elimination @ drift[..., : self._held, None]
        return _locked(drift[..., self._held :] - taken[..., 0])

    @lazy
    def contact_nullspace(self) -> Array:
        """N_c = 1 − J̄_c J_c, (…, nv, nv): joint velocities N_c v do not move the contacts."""
        inverse_c = self._both_responses[..., : self._held] @ self.contact_inertia
        return _locked(_one_minus(inverse_c @ self._both_jacobians[..., : self._held, :]))

    @lazy
    def nullspace(self) -> Array:
        """N = N_c − J̄J, (…, nv, nv): what moves neither tasks nor contacts."""
        return _locked(self.contact_nullspace - self.dynamically_consistent_inverse @ self.jacobian)


@lru_cache(maxsize=16)
def _identity(size: int) -> Array:
    return _locked(np.eye(size))


def _one_minus(matrix: Array) -> Array:
    return np.subtract(_identity(matrix.shape[-1]), matrix, out=matrix)


def _locked(array: Array) -> Array:
    array.setflags(write=False)
    return array
