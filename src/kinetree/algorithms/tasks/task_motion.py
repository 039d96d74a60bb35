"""Motions of nodes, and the errors, velocities J v and accelerations J a + J̇v of task rows. Cost O(n).

    pass       loop               leaves
    motion     scatter            velocity V (`twist`), its rate α and the inertial force of each node
    rows       frames             error, J v and J a + J̇v of single-frame tasks, as in `kinematics`
    relative   relative tasks     α − V × ΔV of the difference of two motions, in axes that rotate with the near frame
    mass       gather             momenta and inertial forces; their sums are those of the centre of mass

The rows of a relative task are ΔV = X V(far) − X V(near), where X transforms to the near frame's axes and the far
frame's origin. In a frame fixed to the near body their rate would be Δα − V(near) × ΔV; the origin moves with the far
frame, which adds ω × u of the relative motion ΔV = (ω, u) to the linear part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.kinematics.frame_kinematics import seen_rate
from kinetree.algorithms.tasks import task_space
from kinetree.algorithms.tasks.task_space import PLAIN, TaskKinds
from kinetree.kernels.poses import fault_of, sine
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.roles import FrameRole
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, stack
from kinetree.spatial.value import Array


def motion(tree: Tree, v: Indexed | Zeros, a0: Indexed | Zeros) -> None:
    """Set velocity `twist`, its rate, momentum, gyroscopic force and force `push` of every node, which has weight X."""
    tree.world.twist = Motion.zero()
    tree.world.rate = Motion.zero()
    tree.world.fall = tree.gravity
    tree.world.push = Force.zero()

    for k, parent in tree.scatter():
        V_p = parent.twist
        k.twist = k.X @ V_p + k.H @ v[k]
        k.rate = k.X @ parent.rate + k.H @ a0[k] + k.coriolis(k.twist, v[k], V_p)
        k.fall = k.X @ parent.fall
        k.momentum, k.swirl = k.M @ k.twist, k.gyroscopic(k.twist, v[k])
        k.push = k.M @ (k.rate - k.fall) + k.swirl


#: Takes a task's frame, error, velocity J v and acceleration J a₀ + J̇v.
Put = Callable[[FrameRole, Any, Any, Any], None]


def rows_of_motion(
    tree: Tree, parts: TaskKinds, target: Indexed | None, put: Put,
    error_of: Callable[[Array, Array], Array] = sine, reference: str = "local_world_aligned",
) -> None:  # fmt: skip
    """Call `put` for each task; nodes have poses C and the fields of `motion`.

    Without targets, (m, 4, 4), errors are zero; else `error_of` finds them from the rotation and the way that are left.
    The reference is that of the motions of single frames.
    """
    for frame, carrier in tree.frames("frame"):
        seen, error = tree.seen(reference, frame, carrier), np.zeros(6)
        rate = seen_rate(seen, reference == "local_world_aligned", carrier.twist, carrier.rate).data
        if target is not None:
            T, C = target[frame], tree.pose(frame, carrier)
            error = error_of(T[:3, :3] @ C.E, T[:3, 3] - C.r)
        put(frame, error, (seen @ carrier.twist).data, rate)
    if parts.relative:
        for near, near_carrier, far, far_carrier in tree.relatives():
            ends, error = (near, near_carrier, far, far_carrier), np.zeros(6)
            seen_near, seen_far = tree.between(*ends)
            V = seen_near @ near_carrier.twist
            apart = seen_far @ far_carrier.twist - V
            rate_ = seen_far @ far_carrier.rate - seen_near @ near_carrier.rate - V.cross(apart)
            rate_ = rate_ + Motion.of(np.zeros(3), cross(apart.angular, apart.linear))
            if target is not None:
                T, X = target[far], tree.apart(*ends)
                error = error_of(T[:3, :3] @ X.E, T[:3, 3] - X.r)
            put(far, error, apart.data, rate_.data)
    if parts.mass:
        _of_mass(tree, target, put)


def add_faults(tree: Tree, target: Indexed, fault: Indexed) -> None:
    """Add up what should be zero of target poses."""
    for frame, _ in tree.frames():
        fault[...] = fault[...] + fault_of(target[frame])


def _of_mass(tree: Tree, target: Indexed | None, put: Put) -> None:
    """The same for the centre of mass."""
    task_space.fall(tree)
    task_space.mass(tree)
    # moment about the world's origin, momentum and its rate of all nodes
    tree.world.whole = np.zeros(9)
    for k, _ in tree.scatter():
        axes, change = (k.e0, k.e1, k.e2), k.M @ k.rate + k.swirl
        forces = [np.array([e.dot(force) for e in axes]) for force in (k.momentum, change)]
        k.whole = stack(tree.first_moment(k), *forces)
    for k, parent in tree.gather():
        parent.whole += k.whole
    tree.world.mean = tree.world.whole * (1.0 / tree.world.heavy[0])
    for center, world in tree.frames("mass"):
        place, velocity, rate = (world.mean[i : i + 3] for i in (0, 3, 6))
        way = np.zeros(3) if target is None else target[center][:3, 3] - place
        put(center, *(np.concatenate([np.zeros(3), linear]) for linear in (way, velocity, rate)))


def _accelerations(reference: str, parts: TaskKinds) -> Callable[..., None]:
    def task_acceleration(tree: Tree, q: Indexed, v: Indexed, a: Any, result: Indexed) -> None:
        task_space.place(tree, q)
        motion(tree, v, a)

        def put(frame: FrameRole, _error: Any, _velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                result[row] = rate[row.component]

        rows_of_motion(tree, parts, None, put, reference=reference)

    return task_acceleration


@cache
def task_velocity(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """J v of all task rows, (r,), in a given reference."""

    def task_velocity(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
        task_space.place(tree, q)
        motion(tree, x, Zeros())

        def put(frame: FrameRole, _error: Any, velocity: Any, _rate: Any) -> None:
            for row in frame.rows():
                y[row] = velocity[row.component]

        rows_of_motion(tree, parts, None, put, reference=reference)

    declare = algorithm(q=("q",), x=("v",), y=("rows",), outputs=("y",), local=not parts.mass)
    return replace(declare(task_velocity), name=f"task_velocity_{reference}{parts.suffix}")


@cache
def task_drift(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """J̇v of all task rows, (r,), in a given reference."""
    accelerations = _accelerations(reference, parts)

    def task_drift(tree: Tree, q: Indexed, v: Indexed, drift: Indexed) -> None:
        accelerations(tree, q, v, Zeros(), drift)

    declare = algorithm(q=("q",), v=("v",), drift=("rows",), outputs=("drift",), local=not parts.mass)
    return replace(declare(task_drift), name=f"task_drift_{reference}{parts.suffix}")


@cache
def task_acceleration(reference: str, parts: TaskKinds = PLAIN) -> Algorithm:
    """J a + J̇v of all task rows, (r,), in a given reference."""
    declare = algorithm(q=("q",), v=("v",), a=("v",), result=("rows",), outputs=("result",), local=not parts.mass)
    return replace(declare(_accelerations(reference, parts)), name=f"task_acceleration_{reference}{parts.suffix}")
