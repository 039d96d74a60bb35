"""How impulses of typed contacts and of joints respond to changes of a step; see also `discovered_derivatives`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kinetree.algorithms.kinematics.manifold import difference
from kinetree.kernels.contact_response import EPSILON, contact_response
from kinetree.runtime.function import compiled
from kinetree.simulation.contacts import Contacts, JointRows, PythonFunction
from kinetree.simulation.plant import Plant
from kinetree.simulation.step_results import ContactProblem, ImpulseResponse, Impulses
from kinetree.simulation.steps import Met, Trail


def typed_response(run: Any, plant: Plant, rows: Contacts | JointRows, q: Any, trail: Trail) -> ImpulseResponse:
    """The response of the impulses at q, of contacts or of joints alone."""
    touched = cast(Impulses, trail.touched)
    of = cast(ContactProblem, touched.problem)
    joints = rows if isinstance(rows, JointRows) else rows.joints
    if isinstance(rows, JointRows):
        count = bodies = shapes = 0
        geometry: Any = np.zeros((0, 3)), *np.zeros((3, 0)), np.zeros((0, 3)), np.zeros(0)
        lists = []
    else:
        each, shapes, bodies = len(rows.body_of), len(rows.ground), len(rows.frames)
        count = each * shapes
        parts = [run(_sloped(shape, each), of.points, shape.numbers) for shape in rows.ground]
        slope, bend = (
            run.joined(*(run.taken(x, np.arange(size)) for x in part))
            for part, size in zip(zip(*parts, strict=True), (3 * each, 9 * each), strict=True)
        )
        bend = run.taken(bend, np.arange(9 * count).reshape(-1, 3))
        twist = run.taken(trail.bodies.twists(q, cast(Met, trail.met).after), np.arange(6 * bodies))
        geometry = of.axes, of.arms, touched.heights, slope, bend, twist
        lists = [
            (3 * i, 3 * i, 6 * body, 6 * body, i // each)
            for i, body in enumerate(np.tile(rows.body_of, shapes).tolist())
        ]
    place, limits, listed = np.zeros(1), np.zeros((1, 2)), []
    if joints is not None:
        place = run(plant.recursion(difference), joints.origin, q)
        limits = np.stack([joints.lower, joints.upper], axis=-1)
        listed = [(3 * count + i, 6 * bodies + i, int(c)) for i, c in enumerate(joints.columns)]
    several = len(listed)
    sizes = {"t": 3 * count + several, "r": 3 * count, "n": 6 * bodies, "c": 6 * bodies + several}
    back = {
        "contacts_backwards": [(3 * i,) for i in reversed(range(count))],
        "joints_backwards": [(3 * count + i,) for i in reversed(range(several))],
    }
    kernel = compiled(contact_response, **sizes, g=shapes, v=len(limits), once=1, contacts=lists, joints=listed, **back)
    numbers = np.array([plant.dt, EPSILON if rows.law[3] > 0.5 else rows.law[0]])
    problem = of.G, of.free, of.impulse, of.velocity, of.bounds, touched.report
    return ImpulseResponse(*run(kernel, *problem, *geometry, place, limits, numbers))


def _sloped(shape: Any, points: int) -> Any:
    """The derivatives of a shape's normals and heights at all points."""
    if shape.slope_kernel is not None:
        return compiled(shape.slope_kernel, c=points)
    return PythonFunction(lambda points, _: shape.slopes(points))
