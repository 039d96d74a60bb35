"""Derivatives of steps with discovered contacts: what `kinetree.simulation.step_derivatives` needs of them.

All bodies that carry shapes have rows, whichever touch. `kinetree.kernels.contact_rates` differentiates the geometry of
contacts, and `kinetree.kernels.discovered_response` the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinetree.algorithms.derivatives.contact_steps import twists_gradient
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_solve
from kinetree.algorithms.kinematics.frame_kinematics import VELOCITIES, poses
from kinetree.algorithms.kinematics.manifold import difference
from kinetree.kernels.contact_rates import CHANGING, contact_rates, field_rates
from kinetree.kernels.discovered_response import discovered_response, discovered_wrenches
from kinetree.kernels.products import total
from kinetree.language.mechanism import Site
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import compiled
from kinetree.simulation.contacts import OF_POSE, WORLD_AXES, JointRows
from kinetree.simulation.step_results import ContactProblem, ImpulseResponse, Impulses
from kinetree.simulation.touching_pairs import Arrangement

Recursion = Callable[..., Compiled]


class ShapeBodies:
    """The m bodies that carry shapes, in a step that is differentiated. Interface as of `contacts.DenseBodies`."""

    accelerations = None

    def __init__(self, run: Any, recursion: Recursion, sites: tuple[Site, ...]) -> None:
        self._run, self.recursion, self.sites = run, recursion, sites

    def at(self, q: Any) -> Any:
        """Places, (m, 15)."""
        T = self._run(self.recursion(poses, self.sites), q)
        return self._run.taken(T, 16 * np.arange(len(self.sites))[:, None] + OF_POSE)

    def twists(self, q: Any, v: Any) -> Any:
        """Velocities of the bodies in world axes, (m, 6)."""
        return self._run(self.recursion(VELOCITIES[WORLD_AXES], self.sites), q, v)

    def solved(self, q: Any, tau: Any, wrench: Any) -> Any:
        """M⁻¹ (τ + Jᵀw)."""
        nothing = np.zeros((len(self.sites), 6))
        nv = tau.size
        pressed = self._run(self.recursion(twists_gradient, self.sites), q, np.zeros(nv), nothing, wrench)
        forces = self._run(compiled(total, n=nv), tau, pressed)
        return self._run(self.recursion(mass_matrix_solve, dynamic=True), q, forces)


class DiscoveredResponse:
    """How impulses respond in one step, of shapes at poses T.

    Attributes:
        sizes: Of results, before those of modes.
        nothing: Results of a step in which nothing touches.
    """

    def __init__(
        self, run: Any, bodies: ShapeBodies, of: Arrangement, T: Any, dt: float, joints: JointRows | None
    ) -> None:
        self._run, self._bodies, self._of, self._T, self._dt, self._joints = run, bodies, of, T, dt, joints
        self._columns = np.zeros(0, dtype=int) if joints is None else joints.columns
        self._places = 1 if joints is None else len(joints.lower)
        m, rows = len(bodies.sites), 6 * len(bodies.sites) + len(self._columns)
        self.sizes = [rows * rows, rows * 6 * m, 36 * m * m, self._places, 6 * m]
        self.nothing = [*map(np.zeros, self.sizes), np.zeros(0), np.zeros(0), np.array([np.inf, 1.0, 1.0])]

    def of(
        self, count: int, solved: Sequence[Any], contacts: Any, forces: Any, q: Any, after: Any, epsilon: Any
    ) -> list[Any]:
        """C, C_ξ, drift, stopping, wrenches, modes of contacts and of joints, and the report of some contacts."""
        run, bodies, joints = self._run, self._bodies, self._joints
        m, several, rows = len(bodies.sites), len(self._columns), 3 * count
        origin = run.taken(bodies.at(q), 15 * np.arange(m)[:, None] + np.arange(9, 12))
        number: Any = np.array([*self._of.moving], dtype=float)
        place, limits, listed = np.zeros(1), np.zeros((1, 2)), []
        if joints is not None:
            place = run(bodies.recursion(difference), joints.origin, q)
            limits = np.stack([joints.lower, joints.upper], axis=-1)
            listed = [(rows + i, 6 * m + i, int(c)) for i, c in enumerate(self._columns)]
        kernel = compiled(
            discovered_response, t=rows + several, s=max(count, 1), m=m, n=6 * m, c=6 * m + several, v=self._places,
            once=1, contacts=[(3 * i, i) for i in range(count)], bodies=[(i, 6 * i, 6 * i) for i in range(m)],
            joints=listed, contacts_backwards=[(3 * i,) for i in reversed(range(count))],
            joints_backwards=[(rows + i,) for i in reversed(range(several))],
        )  # fmt: skip
        geometry = contacts, self._rates(count, contacts), origin, number, bodies.twists(q, after)
        numbers = run.joined(np.array([self._dt]), epsilon)
        *found, modes, report = run(kernel, *solved, *geometry, place, limits, numbers)
        wrench: Any = np.zeros(6 * m)
        if count:
            pushed = compiled(discovered_wrenches, s=count, r=rows, m=m, contacts=[(3 * i, i) for i in range(count)])
            wrench = run(pushed, contacts, forces, origin, number)
        parts = (run.taken(modes, x) if len(x) else np.zeros(0) for x in (np.arange(rows), rows + np.arange(several)))
        return [*found, wrench, *parts, report]

    def _rates(self, count: int, contacts: Any) -> Any:
        """How contacts move with their first bodies, (c, 6, 7)."""
        run, of, n = self._run, self._of, len(self._of.sites)
        number = np.arange(float(len(of.candidates)))
        sizes = {"n": n, "s": len(number), "c": max(count, 1), "d": 6, "once": 1}
        found: Any = np.zeros((max(count, 1), 6, CHANGING))
        if not count:
            return found
        if of.classes:
            lists = {one: of.lists[one] for one in of.classes}
            kernel = compiled(
                contact_rates(of.classes),
                m=n,
                p=len(of.pairs),
                w=len(of.vertices),
                e=of.most_vertices,
                **sizes,
                **lists,
            )
            shapes = self._T, of.sizes
            found = run(kernel, *shapes, *shapes, of.vertices, number, contacts, np.eye(6))
        numbers = iter(candidate for candidate, _ in of.lists["fields"])
        for one in of.fields:
            a, b = one.field.heights.shape
            probes = [(i, f, next(numbers)) for f, i in enumerate(one.of)]
            kernel = compiled(field_rates, f=len(one.of), a=a, b=b, probes=probes, **sizes)
            given = one.probes, one.place, one.field.heights, np.arange(float(a)), np.arange(float(b)), one.grid
            found = run(kernel, self._T, *given, number, contacts, np.eye(6), found)
        return found

    def told(self, touched: Impulses, q: Any, found: Sequence[Any]) -> Impulses:
        """Impulses with what they respond, from the results of a step."""
        run = self._run
        C, by_place, drift, stopping, wrench, contacts, joints, report = found
        none = np.zeros((6 * len(self._bodies.sites) + len(self._columns), 0))
        modes = run.joined(contacts, joints) if len(self._columns) else contacts
        response = ImpulseResponse(C, by_place, none, none, stopping, modes, report, drift)
        return touched._replace(response=response, problem=ContactProblem(place=self._bodies.at(q), wrench=wrench))
