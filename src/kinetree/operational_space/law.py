"""Motions that track task rows as closely as the mechanism allows: the law behind controllers and constraints.

    τ = ID(q, v, a₀) + Jᵀf        Λ⁻¹ f = b − J̇v − J a₀

One kernel computes it (`kinetree.algorithms.operational_space.control_law`) wherever all rows can be moved
independently. It reports how far each sample is from a singularity; samples that are too close are solved again by
the caller, who decides how to treat directions that cannot be moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.engines.count import Count
from kinetree.engines.native.compiled import Compiled, standard_arithmetic
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Sequence
from kinetree.operational_space.products import times
from kinetree.operational_space.recursions import Recursions
from kinetree.operational_space.task_function import TaskFunction
from kinetree.spatial.value import Array

#: What `fault` may be; targets with more may be no poses.
FAULT = 1e-12
_SURE = np.array([1.0, FAULT])
#: Maps Λ⁻¹, (n, r, r), and residuals, (n, r), of n samples to forces along the rows, (n, r), and the distance of the
#: samples from a singularity, (n,): the smallest eigenvalue divided by its cut.
Solve = Callable[[Array, Array], tuple[Array, Array]]
#: Maps q, v, Λ⁻¹, J and residuals of n samples to accelerations that are added to a₀, (n, nv).
Escape = Callable[[Array, Array, Array, Array, Array], Array]


class Motion(NamedTuple):
    """Results of the law.

    Attributes:
        tau: Forces of all joints, including those without a motor, (…, nv).
        force: f along the rows, (…, r).
        residual: b − J̇v − J a₀, the residual acceleration of the rows, (…, r).
        margin: Lower bound on the eigenvalues of the weighted Λ⁻¹, divided by their cuts, (…).
    """

    tau: Array
    force: Array
    residual: Array
    margin: Array


class Step(NamedTuple):
    """Results of the law with a posture.

    Attributes:
        tau: As of `Motion`.
        force: As of `Motion`.
        residual: As of `Motion`.
        margin: As of `Motion`.
        a0: Joint accelerations of the posture, (…, nv).
        fault: Sum of squares of what is zero if all targets are poses, (…).
    """

    tau: Array
    force: Array
    residual: Array
    margin: Array
    a0: Array
    fault: Array


class Law:
    """The law for some rows, in world axes.

    Args:
        recursions: Those of the rows, with reference "local_world_aligned" and without contacts.
        cuts: For each row, the eigenvalue of its level above which no direction counts as singular, (r,).
        solve: Solves samples that may have smaller eigenvalues.
        reach: Typical mobility of each row, (r,); that of the recursions by default.
        error: The error between poses in `step`, one of `kinetree.kernels.poses`.
        escape: Returns what is added to a₀ in nearly singular samples, if anything.
    """

    def __init__(
        self,
        recursions: Recursions,
        cuts: Array,
        solve: Solve,
        reach: Array | None = None,
        error: str = "sine",
        escape: Escape | None = None,
    ) -> None:
        self._recursions, self._cuts, self._solve, self._reach = recursions, cuts, solve, reach
        self._error, self._escape = error, escape
        self._kernel = recursions.control_law

    @cached_property
    def weights(self) -> tuple[Array, Array]:
        """The kernel's last two inputs: reach and cut of each row, (r,)."""
        return self._recursions.reach if self._reach is None else self._reach, self._cuts

    @cached_property
    def _whole(self) -> TaskFunction:
        return self._recursions.control_step(self._error)

    def __call__(self, q: Any, v: Any, a0: Any, target: Any, feed: Any, gains: Any) -> Motion:
        """Joint forces and forces along the rows; arguments as for the kernel, with leading batch axes."""
        tau, force, residual, spread = self._kernel(q, v, a0, target, feed, gains, *self.weights)
        if not spread.ndim and spread.item() < 1.0:  # a fast check for single samples
            return Motion(tau, force, residual, _margin(spread.item()))
        return Motion(tau, force, residual, self._sure(q, v, a0, (tau, force, residual, spread)))

    def step(self, q: Any, v: Any, posture: Any, stiffness: Any, target: Any, feed: Any, gains: Any) -> Step:
        """The same with a₀ from a posture; arguments as for the kernel `control_step`."""
        found = self._whole(q, v, posture, stiffness, target, feed, gains, *self.weights)
        tau, force, residual, spread, a0, fault = found
        if not spread.ndim and spread.item() < 1.0:
            return Step(tau, force, residual, _margin(spread.item()), a0, fault)
        return Step(tau, force, residual, self._sure(q, v, a0, (tau, force, residual, spread)), a0, fault)

    def short(self, posture: Array, stiffness: Array, feed: Array, gains: Array) -> Compiled:
        """τ of `step` as a function of q, v and targets; and spread and fault, (2,), which `holds` takes."""
        step = self._whole.bound()
        inputs = [replace(step.binding.inputs[i], name=name) for i, name in ((0, "q"), (1, "v"), (4, "poses"))]
        sequence = Sequence("control", inputs, [step.binding.outputs[0], Operand("checks", (2,))])
        q, v, target = sequence.inputs
        tau, checks = sequence.outputs
        into = (tau, None, None, checks.part(0, 1), None, checks.part(1, 1))
        sequence.call(step, q, v, posture, stiffness, target, feed, gains, *self.weights, into=into)
        return sequence.finish()

    @staticmethod
    def holds(checks: Array) -> bool:
        """Whether no sample is nearly singular, and all targets are poses."""
        if checks.ndim == 1:
            spread, fault = checks.tolist()
            return bool(spread < 1.0 and fault < FAULT)
        return bool((checks < _SURE).all())

    def _sure(self, q: Any, v: Any, a0: Any, results: tuple[Array, ...]) -> Array:
        """Solve nearly singular samples again, in place; returns margins."""
        *found, spread = results
        with standard_arithmetic():
            margin = np.asarray(1.0 / np.sqrt(spread))
            doubtful = np.logical_not(spread < 1.0)
        if doubtful.any():
            self._again((q, v, a0), (*found, margin), doubtful)
        return margin

    def _again(self, inputs: tuple[Any, ...], results: tuple[Array, ...], doubtful: Array) -> None:
        batch, recursions, (tau, force, residual, margin) = doubtful.shape, self._recursions, results
        if batch or self._escape is not None:
            at: Any = doubtful
            here = [np.broadcast_to(x, (*batch, np.shape(x)[-1]))[doubtful] for x in inputs]
        else:  # a single sample needs no selection
            at, here = (), list(map(np.asarray, inputs))
        A, J = recursions.inverse_inertia(here[0]), recursions.jacobian(here[0])
        if self._escape is not None:
            with standard_arithmetic():
                added = self._escape(here[0], here[1], A, J, residual[at])
                residual[at] -= times(J, added)
                here[2] = here[2] + added
        base = recursions.inverse_dynamics(*here)
        with standard_arithmetic():
            f, found = self._solve(A, residual[at])
            force[at] = f
            tau[at] = base + times(np.swapaxes(J, -1, -2), f)
            margin[at] = found

    def kernel(self) -> Any:
        """The kernel `control_law`: a `Compiled`, unless on the reference engine."""
        return self._kernel.bound()

    def compiled(self) -> Any:
        """The kernel `control_step` with accelerations, if the method has them: a `Compiled`."""
        return self._recursions.control_step(self._error, moving=True).bound()

    @property
    def recursions(self) -> Recursions:
        """Those of the rows."""
        return self._recursions

    def sites(self) -> int:
        """Number of frames with targets: two for relative tasks."""
        return len(self._recursions.sites)

    def count(self) -> Count:
        """Operations of one step."""
        return self._whole.count()

    def compile(self) -> None:
        """Compile what every step needs."""
        self._whole.compile()
        _ = self.weights


def _margin(spread: float) -> Any:
    """1/√spread, (), without what NumPy costs for one number."""
    return np.float64(1.0 / math.sqrt(spread) if spread > 0.0 else math.inf)
