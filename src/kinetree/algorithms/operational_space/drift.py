"""Accelerations of the task rows: J̇v at zero joint accelerations, or J a + J̇v. Cost O(n).

    pass       loop               leaves
    motion     scatter            velocity V and acceleration α of each body, in the frame of its tree
    rows       frames             J̇v of single-frame tasks, as in `kinematics`
    relative   relative tasks     α − V × ΔV of the difference of two motions, in axes that rotate with the near frame
    mass       gather             inertial forces; their sum is total mass times acceleration of the centre of mass

The rows of a relative task are ΔV = X V(far) − X V(near), where X transforms to the near frame's axes and the far
frame's origin. In a frame fixed to the near body their rate would be Δα − V(near) × ΔV; the origin moves with the far
frame, which adds ω × u of the relative motion ΔV = (ω, u) to the linear part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics import VIEWS, drifting, seen_rate
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts, between
from kinetree.recursion.algorithm import Algorithm, algorithm
from kinetree.recursion.roles import FrameRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.vector3 import cross


def _accelerations(reference: str, parts: Parts) -> Callable[..., None]:
    view, aligned = VIEWS[reference], reference == "local_world_aligned"

    def accelerations(tree: Tree, q: Indexed, v: Indexed, a: Indexed | None, result: Indexed) -> None:
        def put(frame: FrameRole, rate: Any) -> None:
            for row in frame.rows():
                result[row] = rate[row.component]

        drifting(tree, q, v, a)

        for frame, carrier in tree.frames("frame"):
            seen = view(frame.X @ carrier.C, carrier.origin)
            put(frame, seen_rate(seen, aligned, carrier.V, carrier.alpha).data)

        if parts.relative:
            for near, near_carrier, far, far_carrier in tree.relatives():
                seen_near, seen_far = between(near, near_carrier, far, far_carrier)
                V = seen_near @ near_carrier.V
                apart = seen_far @ far_carrier.V - V
                rate = seen_far @ far_carrier.alpha - seen_near @ near_carrier.alpha - V.cross(apart)
                put(far, (rate + Motion.of(np.zeros(3), cross(apart.angular, apart.linear))).data)

        if parts.mass:
            force, mass = _inertial_force(tree)
            for center, _ in tree.frames("mass"):
                put(center, force.data / mass)

    return accelerations


def _inertial_force(tree: Tree) -> tuple[Force, Any]:
    """The sum of all inertial forces, in world axes, and the total mass."""
    tree.world.R = RigidInertia.zero()
    tree.world.f = Force.zero()

    for k, _ in tree.scatter():
        k.R = k.C.congruence(k.M)
        k.f = k.R @ k.alpha + k.V.cross(k.R @ k.V)

    for k, parent in tree.gather():
        parent.R += k.R
        parent.f += k.f

    return tree.world.f, tree.world.R.mass


@cache
def task_drift(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J̇v of all task rows, (r,), in a given reference."""
    accelerations = _accelerations(reference, parts)

    def drift(tree: Tree, q: Indexed, v: Indexed, drift: Indexed) -> None:
        accelerations(tree, q, v, None, drift)

    drift.__name__ = f"task_drift_{reference}{parts.suffix}"
    return algorithm(q=("q",), v=("v",), drift=("rows",), outputs=("drift",), local=not parts.mass)(drift)


@cache
def task_acceleration(reference: str, parts: Parts = PLAIN) -> Algorithm:
    """J a + J̇v of all task rows, (r,), in a given reference."""
    run = _accelerations(reference, parts)
    run.__name__ = f"task_acceleration_{reference}{parts.suffix}"
    dimensions: Any = {"q": ("q",), "v": ("v",), "a": ("v",), "result": ("rows",)}
    return algorithm(**dimensions, outputs=("result",), local=not parts.mass)(run)
