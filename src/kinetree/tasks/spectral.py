"""Rank and condition of tasks, which depend on the eigenvalues of Λ⁻¹."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from kinetree.spatial.value import Array
from kinetree.tasks.core import Core
from kinetree.tasks.functions import Derived
from kinetree.tasks.recursions import TaskFunction
from kinetree.tasks.singular import eigen_steps


class _Spectral(Derived):
    """A measure of the eigenvalues of Λ⁻¹ of tasks without contacts, (…).

    Args:
        tasks: The `Tasks` that it belongs to.
        core: State shared by the functions of these tasks.
        name: Its name.
        kernel: The recursion that every sample needs.
        decomposes: Whether every sample needs the eigenvalues.
    """

    def __init__(self, tasks: Any, core: Core, name: str, kernel: TaskFunction, decomposes: bool) -> None:
        super().__init__(tasks, core, name, ("q",), ())
        self._kernel, self._decomposes = kernel, decomposes

    def _kernels(self) -> Sequence[Any]:
        return (self._kernel, *(eigen_steps(self.core.rows, inverts=False) if self._decomposes else ()))

    @cached_property
    def _reach(self) -> Array:
        return self.core.reach


class Condition(_Spectral):
    """Condition number of the weighted Λ⁻¹ of tasks without contacts, (…)."""

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        super().__init__(tasks, core, name, core.recursions.inverse_inertia_for(name), not core.excessive)
        self._one = (core.recursions.robot.mechanism.nq,)

    def _found(self, *inputs: Any) -> Any:
        (q,) = inputs
        of = self.core.eigenvalues
        if self.core.excessive:
            entries = np.isfinite(self._kernel(q)).all(axis=(-2, -1))
            found = np.where(entries, np.inf, np.nan)
        elif of is not None and type(q) is ndarray and q.shape == self._one:
            found = of.condition(q)
        else:
            found = self.core.spectrum_of(self._kernel(q)).condition
        # Λ⁻¹ may be finite even if q is not, since it does not depend on prismatic joints
        finite = np.isfinite(q)
        if not finite.all():
            found = np.where(finite.all(axis=-1), found, np.nan)
        return found[()]


class Rank(_Spectral):
    """Rank of tasks without contacts, (…): all rows of samples far from singular, else from eigenvalues."""

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        kernel = core.recursions.inverse_inertia_for if core.excessive else core.recursions.inertia_for
        super().__init__(tasks, core, name, kernel(name), core.excessive)
        self._trusted = core.trusted

    def _found(self, *inputs: Any) -> Any:
        (q,) = inputs
        # Λ⁻¹ may be finite even if q is not, since it does not depend on prismatic joints
        if self.core.excessive:
            found = self.core.spectrum_of(self._kernel(q)).rank
            return np.where(np.isfinite(q).all(axis=-1), found, -1.0).astype(int)[()]
        _, spread = self._kernel(q, self._reach)
        finite = np.isfinite(q)
        if finite.all() and not spread.ndim and spread.item() < self._trusted:
            return np.int64(self.core.rows)
        finite = np.asarray(finite.all(axis=-1))
        found = np.where(finite, self.core.rows, -1)
        doubtful = finite & np.logical_not(spread < self._trusted)
        if doubtful.any():
            alone = not doubtful.ndim
            A = self.core.recursions.inverse_inertia(q if alone else np.asarray(q)[doubtful])
            which: Any = ... if alone else doubtful
            found[which] = self.core.spectrum_of(A).rank
        return found[()]
