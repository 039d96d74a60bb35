"""The control law with some joints held at their limits: rows of their own between constraints and goals.

The row of a joint is the motion of its parent relative to its child, about or along the joint's axis, which is the z
axis of the child's node: its Jacobian is −1 in the joint's column and zero elsewhere. All choices of joints share their
compiled code; only tables differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kinetree.engines.locks import Lock
from kinetree.model.model import Model
from kinetree.operational_space.law import Law, Step
from kinetree.operational_space.recursions import Recursions
from kinetree.recursion.mechanism import Site
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

#: Eigenvalue below which a joint limit cannot be enforced.
STUCK = 1e-8
#: Choices of joints that are kept with their tables.
_CHOICES = 256
_IDENTITY = np.eye(4)


class LimitedLaws:
    """The law for each choice of joints at their limits.

    Args:
        robot: The robot.
        recursions: Those of constraints and goals.
        cuts: The cut of each of their rows, (r,).
        held: Number of rows of constraints.
        sites: Number of sites of constraints.
        solve: Solves nearly singular samples: takes Λ⁻¹, residuals, and the number of joints at their limits.
        error: The error between poses.
    """

    def __init__(
        self,
        robot: Model,
        recursions: Recursions,
        cuts: Array,
        held: int,
        sites: int,
        solve: Callable[[Array, Array, int], tuple[Array, Array]],
        error: str,
    ) -> None:
        self._robot, self._recursions, self._cuts = robot, recursions, cuts
        self._held, self._sites, self._solve, self._error = held, sites, solve, error
        self._joints = {joint.v_start: joint for joint in robot.joints if joint.nv == 1}
        self._laws: dict[tuple[int, ...], Law] = {}
        self._lock = Lock()

    def step(
        self,
        q: Array,
        v: Array,
        posture: Array,
        stiffness: Array,
        target: Array,
        feed: Array,
        gains: Array,
        columns: tuple[int, ...],
        accelerations: Array,
    ) -> tuple[Step, Array]:
        """The law with some joints at given accelerations, and the forces that hold them there, (…, l).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            posture: Configuration of the posture, (nq,).
            stiffness: As of `control_step`, (nv, 2).
            target: Targets without those of the joints, (…, m, 4, 4).
            feed: Feed-forward without that of the joints, (…, r, 2).
            gains: Gains without those of the joints, (r, 2).
            columns: The joints' degrees of freedom.
            accelerations: Their accelerations, (…, l).
        """
        batch, count, held, sites = q.shape[:-1], len(columns), self._held, self._sites
        law = self.law(columns)
        targets = np.empty((*batch, target.shape[-3] + 2 * count, 4, 4))
        targets[..., :sites, :, :] = target[..., :sites, :, :]
        targets[..., sites : sites + 2 * count, :, :] = _IDENTITY
        targets[..., sites + 2 * count :, :, :] = target[..., sites:, :, :]
        feeds = np.zeros((*batch, feed.shape[-2] + count, 2))
        feeds[..., :held, :] = feed[..., :held, :]
        feeds[..., held : held + count, 1] = -accelerations
        feeds[..., held + count :, :] = feed[..., held:, :]
        all_gains = np.zeros((len(gains) + count, 2))
        all_gains[:held], all_gains[held + count :] = gains[:held], gains[held:]
        found = law.step(q, v, posture, stiffness, targets, feeds, all_gains)
        force = np.empty((*batch, len(gains)))
        force[..., :held], force[..., held:] = found.force[..., :held], found.force[..., held + count :]
        return found._replace(force=force), -found.force[..., held : held + count]

    def law(self, columns: tuple[int, ...]) -> Law:
        """The law with rows for some joints, by their degrees of freedom."""
        return self._laws.get(columns) or self._kept(columns)

    def _kept(self, columns: tuple[int, ...]) -> Law:
        with self._lock:
            if len(self._laws) >= _CHOICES:
                self._laws.clear()
            return self._laws.setdefault(columns, self._made(columns))

    def _made(self, columns: tuple[int, ...]) -> Law:
        base, count, held = self._recursions, len(columns), self._held
        own = [site for column in columns for site in self._ends(column)]
        sites = (*base.sites[: self._sites], *own, *base.sites[self._sites :])
        recursions = Recursions(base.robot, sites, base.requested, base.reference, base.engine)
        cuts, reach = (
            np.concatenate([x[:held], np.full(count, fill), x[held:]])
            for x, fill in ((self._cuts, STUCK), (base.reach, 0.0))
        )
        return Law(recursions, cuts, partial(_solved, self._solve, count), reach, self._error)

    def _ends(self, column: int) -> tuple[Site, Site]:
        joint = self._joints[column]
        child, parent = self._robot.site(joint.child).node, self._robot.site(joint.parent).node
        rows = (5,) if joint.kind == "prismatic" else (2,)
        place = Transform.identity().data
        return Site(joint.name, child, place, rows, "near"), Site(joint.name, parent, place, rows, "far")


def _solved(solve: Any, count: int, A: Array, residual: Array) -> Any:
    return solve(A, residual, count)
