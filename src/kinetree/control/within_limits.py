"""The control law within joint limits: solves it for the joints that an active set holds at their limits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kinetree.control.limited import LimitedLaws
from kinetree.control.limits import EnforcedLimits, Trial, fits
from kinetree.control.targets import Wanted
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.model.model import Model
from kinetree.operational_space.law import Law, Step
from kinetree.spatial.value import Array

_NONE = np.zeros(0)


class Kept(NamedTuple):
    """The law's results.

    Attributes:
        tau: Forces of all joints, (…, nv).
        force: f along the rows, (…, r).
        a: Joint accelerations, (…, nv).
        margin: As of `Motion`, (…).
        fault: As of `Step`, (…).
        active: Joints held at their limits, −1, 0 or 1, (…, l); None without limits.
    """

    tau: Array
    force: Array
    a: Array
    margin: Array
    fault: Array
    active: Array | None


class WithinLimits:
    """The law, with joints held at their limits where they would exceed them.

    Args:
        robot: The robot.
        limits: The limits.
        law: The law without them.
        limited: The law with some joints held.
        posture: Configuration of the posture, (nq,).
    """

    def __init__(self, robot: Model, limits: EnforcedLimits, law: Law, limited: LimitedLaws, posture: Array) -> None:
        self._robot, self._limits, self._law, self._limited, self._posture = robot, limits, law, limited, posture

    def __call__(
        self, q: Array, v: Array, pull: Array, wanted: Wanted, active: Array | None = None, fixed: bool = False
    ) -> Kept:
        """Solve the law.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            pull: Gains of the posture, (nv, 2).
            wanted: Inputs of the law.
            active: Joints that are held at first, (…, l).
            fixed: Whether just these are held.
        """
        if not len(self._limits.columns):
            found, a, _ = self._solve(q, v, pull, wanted, (), _NONE)
            return Kept(found.tau, found.force, a, found.margin, found.fault, None)
        with standard_arithmetic():
            return (self._together if q.ndim > 1 or fixed else self._alone)(q, v, pull, wanted, active, fixed)

    def _solve(
        self, q: Array, v: Array, pull: Array, wanted: Wanted, columns: tuple[int, ...], at: Array
    ) -> tuple[Step, Array, Array]:
        """The law with some joints at given accelerations, the motion, and the forces that hold the joints."""
        inputs = q, v, self._posture, pull, wanted.target, wanted.feed, wanted.gains
        if columns:
            found, of_joints = self._limited.step(*inputs, columns, at)
        else:
            found, of_joints = self._law.step(*inputs), _NONE
        return found, np.asarray(self._robot.forward_dynamics(q, v, found.tau)), of_joints

    def _alone(self, q: Array, v: Array, pull: Array, wanted: Wanted, active: Array | None, _: bool) -> Kept:
        limits = self._limits
        least, most = limits.accelerations(q, v)
        last: list[Any] = []

        def attempt(pattern: Array) -> Trial:
            found, a, force = self._try(q, v, pull, wanted, pattern, least, most)
            last[:] = found, a
            own = a[limits.columns]
            return Trial(fits(pattern, own, force, least, most), own, force, least, most)

        active = limits.settle_one(attempt, active)
        found, a = last
        return Kept(found.tau, found.force, a, found.margin, found.fault, active)

    def _together(self, q: Array, v: Array, pull: Array, wanted: Wanted, active: Array | None, fixed: bool) -> Kept:
        batch, limits = q.shape[:-1], self._limits
        count = math.prod(batch)
        least, most = (x.reshape(count, x.shape[-1]) for x in limits.accelerations(q, v))
        q, v = q.reshape(count, q.shape[-1]), v.reshape(count, v.shape[-1])
        target, feed = (
            np.broadcast_to(x, (*batch, *x.shape[-n:])).reshape(count, *x.shape[-n:])
            for x, n in ((wanted.target, 3), (wanted.feed, 2))
        )
        results: list[Array] = []

        def attempt(samples: Array, pattern: Array) -> Trial:
            here = wanted._replace(target=target[samples], feed=feed[samples])
            bounds = least[samples], most[samples]
            found, a, force = self._try(q[samples], v[samples], pull, here, pattern, *bounds)
            computed = found.tau, found.force, a, np.asarray(found.margin), found.fault
            if not results:
                results[:] = [np.empty((count, *x.shape[1:])) for x in computed]
            for result, part in zip(results, computed, strict=True):
                result[samples] = part
            own = a[:, limits.columns]
            return Trial(fits(pattern, own, force, *bounds), own, force, *bounds)

        given = (
            None
            if active is None
            else np.broadcast_to(active, (*batch, active.shape[-1])).reshape(count, active.shape[-1])
        )
        kept = limits.settle(count, attempt, given, fixed)
        shaped: list[Any] = [x.reshape(*batch, *x.shape[1:]) for x in (*results, kept)]
        return Kept(*shaped)

    def _try(
        self, q: Array, v: Array, pull: Array, wanted: Wanted, pattern: Array, least: Array, most: Array
    ) -> tuple[Step, Array, Array]:
        """The law with the joints of a pattern at their bounds, the motion, and the forces that hold joints, (…, l)."""
        rows, force = np.flatnonzero(pattern), np.zeros(least.shape)
        at = np.where(pattern[rows] > 0, most[..., rows], least[..., rows])
        found, a, force[..., rows] = self._solve(q, v, pull, wanted, tuple(self._limits.columns[rows].tolist()), at)
        return found, a, force
