"""Contacts that are discovered: between all shapes of a robot, and with those around it.

In each step, `kinetree.kernels.contact_discovery` finds what can be touched before its end, c contacts at most, and
`kinetree.kernels.discovered_rows` states the problem that `kinetree.simulation.contacts` describes in their rows. It is
solved in one of several sizes, the smallest in which all contacts of a sample have a place; rows that are left have no
mobility, take no impulse and add nothing, so a sample's bits do not depend on the size. Constraints are eliminated: M⁻¹
becomes what is left of it under them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from kinetree.algorithms.dynamics.mass_matrix import mass_matrix_inverse
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS, VELOCITIES, joint_screws, poses
from kinetree.kernels.contact_discovery import CONTACT, contact_discovery
from kinetree.kernels.contact_problem import contact_forces, velocities_after
from kinetree.kernels.contact_response import EPSILON
from kinetree.kernels.discovered_rows import complete, discovered_rows, discovered_rows_of_bodies
from kinetree.kernels.field_probes import PROBED, field_probes
from kinetree.language.algorithm import with_constants
from kinetree.language.mechanism import Site
from kinetree.model.collision_pairs import CollisionPairs
from kinetree.model.constraints import Constraints
from kinetree.model.model import Model
from kinetree.model.shapes import Scene
from kinetree.runtime.function import compiled
from kinetree.simulation.contacts import WORLD_AXES, JointRows, Solver, bound_to, diagonal
from kinetree.simulation.discovered_derivatives import DiscoveredResponse, ShapeBodies
from kinetree.simulation.step_results import FoundContacts, Impulses
from kinetree.simulation.touching_pairs import Arrangement, given_pairs, touching_pairs
from kinetree.spatial.value import Array

#: Gaps up to which contacts are part of the problem, however slow [m].
MARGIN = 1e-3
#: Numbers of contacts for which the problem is compiled; a sample has at most the last.
_COUNTS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
MOST = _COUNTS[-1]


class DiscoveredContacts:
    """Contacts between the shapes of a robot and a scene. Interface as of `kinetree.simulation.contacts.Contacts`.

    Attributes:
        pairs: Names of the shapes of each pair that may touch.
        shapes: Shapes of the results of a single step, besides velocities.
        most: Number of contacts of a sample, at most.
        is_compiled: Always.
        joints: Dry friction and stops, if there are any.
    """

    is_compiled: ClassVar[bool] = True

    def __init__(
        self,
        robot: Model,
        scene: Scene | None,
        given: CollisionPairs | None,
        dt: float,
        joints: JointRows | None,
        solver: Solver,
        varied: bool = False,
        held: Constraints | None = None,
    ) -> None:
        self._robot, self._dt, self.joints, self._solver, self._varied = robot, dt, joints, solver, varied
        self._held = held
        self._of = Arrangement(robot, touching_pairs(robot, scene) if given is None else given_pairs(given))
        self.pairs = tuple(pair.names for pair in self._of.pairs)
        self._counts = [
            0,
            *(count for count in _COUNTS[1:] if _COUNTS[_COUNTS.index(count) - 1] < len(self._of.candidates)),
        ]
        self.most = self._counts[-1]
        self.shapes = {"forces": (3 * self.most,), "found": (self.most, CONTACT), "report": (3,)}
        self.shapes |= {} if joints is None else joints.shapes
        self._columns = np.zeros(0, dtype=int) if joints is None else joints.columns

    # The text

    def bodies(self, run: Any, solves: bool = False) -> ShapeBodies | None:
        """No bodies are known before a step; those that may touch something, for derivatives."""
        return ShapeBodies(run, self._recursion, self.sites) if solves else None

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The frames of all bodies that may touch something."""
        return tuple(map(self._robot.site, self._of.moving.values()))

    def _recursion(self, algorithm: Any, sites: tuple[Any, ...] = (), dynamic: bool = False) -> Any:
        return bound_to(with_constants(algorithm) if dynamic and self._varied else algorithm, self._robot, sites)

    def impulses(self, run: Any, q: Any, v: Any, bodies: ShapeBodies | None) -> Impulses:
        """The effect of contacts in a step on velocities v, and with bodies also its derivatives: the text."""
        T = run(self._recursion(poses, self._of.sites), q)
        twist = run(self._recursion(VELOCITIES[WORLD_AXES], self._of.sites), q, v)
        shapes = T, self._of.sizes, twist
        probed = self._probed(run, T, twist)
        found, count, law = run(
            self._discover, *shapes, *shapes, self._of.vertices, probed, self._of.candidates[:, :3],
            np.arange(float(self.most)), (self._dt, MARGIN), self._laws,
        )  # fmt: skip
        nv, several, of_joints = self._robot.nv, len(self._columns), int(self.joints is not None)
        sizes = [nv, 3 * self.most, 3, *[nv] * of_joints]
        response = None if bodies is None else DiscoveredResponse(run, bodies, self._of, T, self._dt, self.joints)
        if response is not None:
            sizes += [*response.sizes, 3 * self.most, several, 3]
        texts = [partial(self._solved, run, count, q, v, found, law, response) for count in self._counts]
        after, forces, report, *more = run.cases(count, self._counts, texts, sizes)
        report = run(compiled(complete, n=nv), report, count, float(self.most), after)
        pushes = more[0] if of_joints else None
        touched = Impulses(after, forces=forces, found=found, number=count, report=report, joint_impulses=pushes)
        return touched if response is None else response.told(touched, q, more[of_joints:])

    def _probed(self, run: Any, T: Any, twist: Any) -> Any:
        """What probes find above height fields; of none, a result that nothing reads."""
        found = []
        for one in self._of.fields:
            heights = one.field.heights
            a, b = heights.shape
            function = compiled(
                field_probes, n=len(self._of.sites), f=len(one.of), a=a, b=b, once=1,
                probes=[(i, f) for f, i in enumerate(one.of)],
            )  # fmt: skip
            lines = np.arange(float(a)), np.arange(float(b))
            found.append(run(function, T, twist, one.probes, one.place, heights, *lines, one.grid, (self._dt, MARGIN)))
        return run.joined(*found) if found else np.ones((1, PROBED))

    def _solved(
        self, run: Any, count: int, q: Any, v: Any, found: Any, law: Any, derived: DiscoveredResponse | None
    ) -> list[Any]:
        """Velocities, forces, report and impulses of joints in a problem of some contacts; and derivatives."""
        joints, nv, columns = self.joints, self._robot.nv, self._columns
        if not count and joints is None:
            return [v, np.zeros(0), np.zeros(3), *(() if derived is None else derived.nothing)]
        bounds: Sequence[Any] = [np.zeros(nv)] * 3
        if joints is not None:
            bounds = joints.bounds(run, q)
        rows = 3 * count + len(columns)
        lists = {
            "contacts": [(3 * i, i) for i in range(count)],
            "joints": [(3 * count + i, int(c)) for i, c in enumerate(columns)],
        }
        sizes = {"s": max(count, 1), "n": nv, "r": rows, **lists}
        if bodies := self._of.bodies:
            problem = run.prepared(compiled(discovered_rows_of_bodies, m=len(bodies), once=1, **sizes))
            sites = tuple(map(self._robot.site, bodies))
            moving = run.feeding(problem, ["jacobian"], self._recursion(JACOBIANS["world"], sites), q)
            which: Array = 1.0 + np.arange(len(bodies))
        else:
            problem = run.prepared(compiled(discovered_rows, **sizes))
            moving, which = run.feeding(problem, ["screws"], self._recursion(joint_screws), q), self._subtrees
        newton = run.prepared(self._solver.bound(False, count, len(columns))[0])
        inverse = self._recursion(mass_matrix_inverse, dynamic=True)
        if self._held is None:
            Minv = whole = run.feeding(problem, ["Minv"], inverse, q)
        else:
            whole = run(inverse, q)
            Minv = self._held.mobility(run, q, whole)
        contacts = run.taken(found, np.arange(CONTACT * max(count, 1)))
        given = contacts, moving, which, Minv, diagonal(run, whole, nv), v, self._dt, *bounds
        G, free, limits, axes, response = run.feeding(newton, ["G", "free", "bounds", None, None], problem, *given)
        impulse, velocity, report = run(newton, G, free, limits, law)
        after = run(compiled(velocities_after, m=nv, n=rows), response, v, impulse)
        forces: Any = np.zeros(0)
        if count:
            first = np.arange(3 * count)
            parts = run.taken(axes, np.arange(9 * count)), run.taken(impulse, first)
            forces = run(compiled(contact_forces, r=3 * count), *parts)
        results = [after, forces, report]
        if joints is not None:
            pushed = run.taken(impulse, 3 * count + np.arange(len(columns)))
            results.append(run.placed(pushed, columns, (nv,)))
        if derived is not None:
            epsilon = EPSILON if self._laws[0][3] > 0.5 else run.taken(law, [0])
            solved = G, free, impulse, velocity, limits, report
            results += derived.of(count, solved, contacts, forces, q, after, epsilon)
        return results

    @cached_property
    def _discover(self) -> Any:
        of = self._of
        n = len(of.sites)
        return compiled(
            contact_discovery(of.classes), n=n, m=n, f=max(1, len(of.lists["fields"])), s=len(of.candidates),
            c=self.most, p=len(of.pairs), t=of.longest, w=len(of.vertices), e=of.most_vertices, once=1, **of.lists,
        )  # fmt: skip

    @cached_property
    def _laws(self) -> Array:
        """Of contacts on bodies of their own, and of others."""
        alone = self.joints is None
        laws = [self._solver.bound(points and alone, 1)[1] for points in (True, False)]
        return np.array(laws)

    @cached_property
    def _subtrees(self) -> Array:
        """For each degree of freedom, the first node that it moves, and the one after the last, from 1 on, (nv, 2)."""
        mechanism = self._robot.mechanism
        found = np.zeros((self._robot.nv, 2))
        for node in range(len(mechanism.parents)):
            found[mechanism.v_starts[node] : mechanism.v_starts[node + 1]] = (
                1 + node,
                1 + mechanism.topology.subtree_end(node),
            )
        return found

    # Results

    def told(self, found: Array, forces: Array, dt: float) -> FoundContacts:
        """Contacts of a step, from its results."""
        numbers = found[..., 11].astype(int)
        used = found[..., 10] > 0.5
        pair = np.where(used, self._of.candidates[numbers, 3].astype(int), -1)
        force = forces.reshape(*forces.shape[:-1], self.most, 3) / dt
        return FoundContacts(self.pairs, pair, found[..., :3], found[..., 3:6], found[..., 6], force)
