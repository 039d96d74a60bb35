"""Derivatives of steps, for each kind of step as one function of a node: see `kinetree.kernels.euler_riccati`, (1).

Nodes are in lanes, and those of a kind are one call. `kinetree.ocp.fused` records the same texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.kernels.constrained_solution import negative
from kinetree.kernels.node_costs import matrix_product, moved_on
from kinetree.kernels.solve import count_doubt
from kinetree.ocp.dynamics import Dynamics, Rates
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence, MemorySpan
from kinetree.runtime.texts import Recording
from kinetree.spatial.value import Array


class Linear(NamedTuple):
    """Derivatives of steps, in batches of N problems.

    Attributes:
        a_q: Those of accelerations by q, (N, T, nv, nv).
        a_v: By v.
        a_u: By u, (N, T, nv, nu).
        turn: Those of ⊕ by q, in blocks of joints whose coordinates are not numbers, (N, T, nb, nb).
        drift: By v, per second.
        force_q: Those of contact forces by q, (N, T + 1, nf, nv), which are zero at the last node.
        force_v: By v.
        force_u: By u, (N, T + 1, nf, nu).
    """

    a_q: Any
    a_v: Any
    a_u: Any
    turn: Any
    drift: Any
    force_q: Any
    force_v: Any
    force_u: Any


class Linearization:
    """Derivatives of all steps of a horizon.

    Args:
        dynamics: The steps.
        blocks: First velocity and number of velocities of each joint whose coordinates are not numbers.
    """

    def __init__(self, dynamics: Dynamics, blocks: Sequence[tuple[int, int]]) -> None:
        self.dynamics, self.robot = dynamics, dynamics.robot
        self.entries = np.array([i for start, size in blocks for i in range(start, start + size)], dtype=np.intp)
        nv, nu, nf, nb = self.robot.nv, len(dynamics.actuated), dynamics.forces, len(self.entries)
        #: Of one node.
        self.shapes = Linear((nv, nv), (nv, nv), (nv, nu), (nb, nb), (nb, nb), (nf, nv), (nf, nv), (nf, nu))
        self._made = cache(self._recorded)

    @cached_property
    def torsion(self) -> Array:
        """½ [e, f] for each pair of entries, (nb², nb): a constant of the groups that joints move in."""
        own = self.entries
        each = self.robot.bracket(np.eye(self.robot.nv)[own])[:, own[:, None], own]
        found: Array = 0.5 * each.swapaxes(1, 2).reshape(len(own) ** 2, len(own))
        return found

    def __call__(self, q: Array, v: Array, u: Array, gap_q: Array) -> Linear:
        """Derivatives at the nodes of N problems, as tangents at the next nodes, which steps miss by a gap.

        Args:
            q: Configurations, (N, T, nq) or more nodes.
            v: Velocities.
            u: Inputs, (N, T, nu).
            gap_q: Gaps of configurations, (N, T, nv).
        """
        N, T = u.shape[:2]
        shapes = [(N, T + (i >= 5), *shape) for i, shape in enumerate(self.shapes)]
        whole = Linear(*map(np.zeros, shapes))
        self.dynamics.evaluate(self._made, (q, v, u, gap_q), whole)
        return whole

    def _recorded(self, kind: int, near: bool) -> Compiled:
        """The derivatives of a step of a kind; where constraints are `near` to depend on each other, by eigenvalues."""
        nq, nv, nu = self.robot.nq, self.robot.nv, len(self.dynamics.actuated)
        names = {"q": (nq,), "v": (nv,), "u": (nu,), "gap_q": (nv,), "dt": (), "pace": ()}
        results = {**self.shapes._asdict(), "doubts": ()}
        run = KernelSequence(
            "derivatives of a step", [Operand(*each) for each in names.items()],
            [Operand(*each) for each in results.items()],
        )  # fmt: skip
        q, v, u, gap_q, dt, pace = run.inputs
        tau = record_forces(run, self.dynamics, u)
        spread = self.record(run, kind, near, (q, v, tau, gap_q, dt, pace), Linear(*run.outputs[:-1]))
        run.call(compiled(count_doubt), spread, 0.0, into=run.outputs[-1:])
        return run.finish()

    def record(self, run: KernelSequence, kind: int, near: bool, given: Sequence[Any], into: Linear) -> Any:
        """Record them, given q, v, τ, the gap of q, dt and pace; returns `spread` (see `Constraints.solve`)."""
        q, v, tau, gap_q, dt, pace = given
        nv, nb, text = self.robot.nv, len(self.entries), Recording(run)
        places = Rates(into.a_q, into.a_v, into.a_u, into.force_q, into.force_v, into.force_u)
        a, spread = self.dynamics.record_rates(run, kind, near, q, v, tau, places)
        if nb:
            own = self.entries[:, None] * nv + self.entries
            rate = run.call(compiled(moved_on, n=nv), v, a(), pace)
            way = run.call(compiled(moved_on, n=nv), np.zeros(nv), rate, dt)
            both = run.call(self.robot.dintegrate, q, way, 1.0)
            # δ(q′ ⊖ q̄′) = E δq′ with E = −D₀⁻¹D₁ of `ddifference`, which turns by the gap as ⊕ does
            back = run.call(compiled(negative, n=nv), gap_q)
            E = text.taken(run.call(self.robot.dintegrate, q, back, 1.0)[0], own)
            times = compiled(matrix_product, m=nb, n=nb, p=nb)
            for each, place in zip(both, (into.turn, into.drift), strict=True):
                run.call(times, E, text.taken(each, own), into=[place])
        return spread


def record_forces(run: KernelSequence, dynamics: Dynamics, u: MemorySpan) -> MemorySpan:
    """Joint forces of inputs."""
    numbers = dynamics.actuated
    if np.array_equal(numbers, np.arange(dynamics.robot.nv)):
        return u
    return Recording(run).placed(u, numbers, (dynamics.robot.nv,))
