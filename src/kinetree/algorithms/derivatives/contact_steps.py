"""Recursions for derivatives of time steps with impulses: ends of a step, springs, rows that turn, masses.

Directional derivatives are called `…_change` and gradients, their transposes, `…_gradient`. Cost O(n) each:

    ahead       q ⊕ v s
    springs     −D v − K (q ⊖ q₀ + v dt)
    twists      velocities of frames in world axes, V(q, v), at given v

    recursion           pass        loop       leaves
    twists_gradient     motion      scatter    pose, V, and its change per coordinate of each node
                        wrenches    frames     what gradients with respect to V are for nodes, as V turns with them
                        gradient    gather     gradients with respect to q

    parameters          τ as a linear function of inertial parameters (`regressor`), without its matrix

`step_matrices` has the end of A and B, O(n²).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics.regressor import forces_per_parameter
from kinetree.language.algorithm import Algorithm, Entries, algorithm
from kinetree.language.contract import components
from kinetree.language.tree import Indexed, Tree
from kinetree.language.variation import columns, turned_velocities
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross
from kinetree.spatial.transform import Transform

_AXES = "local_world_aligned"


@algorithm(v=("v",), dt=(), dq=("v",), dv=("v",), change=("v",), outputs=("change",))
def ahead_change(tree: Tree, v: Indexed, dt: Indexed, dq: Indexed, dv: Indexed, change: Indexed) -> None:
    """The tangent at q ⊕ v dt, for changes of q and v."""
    for k, _ in tree.scatter():
        step = v[k] * dt[...]
        change[k] = k.manifold.transport(step) @ dq[k] + k.manifold.right_jacobian(step) @ dv[k] * dt[...]


@algorithm(v=("v",), dt=(), w=("v",), by_q=("v",), by_v=("v",), outputs=("by_q", "by_v"))
def ahead_gradient(tree: Tree, v: Indexed, dt: Indexed, w: Indexed, by_q: Indexed, by_v: Indexed) -> None:
    """Gradients of a tangent at q ⊕ v dt times w."""
    for k, _ in tree.scatter():
        step = v[k] * dt[...]
        by_q[k] = k.manifold.transport(step).T @ w[k]
        by_v[k] = k.manifold.right_jacobian(step).T @ w[k] * dt[...]


@algorithm(
    q=("q",), damping=("v",), stiffness=("v",), rest=("q",), dt=(), dq=("v",), dv=("v",), dtau=("v",), change=("v",),
    outputs=("change",),
)  # fmt: skip
def springs_change(
    tree: Tree, q: Indexed, damping: Indexed, stiffness: Indexed, rest: Indexed, dt: Indexed, dq: Indexed, dv: Indexed,
    dtau: Indexed, change: Indexed,
) -> None:  # fmt: skip
    """The change of joint forces with springs and dampers: see `kinetree.kernels.joint_rows`."""
    for k, _ in tree.scatter():
        turned = k.manifold.inverse_right_jacobian(k.manifold.difference(rest[k], q[k])) @ dq[k]
        change[k] = dtau[k] - damping[k] * dv[k] - stiffness[k] * (turned + dv[k] * dt[...])


@algorithm(
    q=("q",), damping=("v",), stiffness=("v",), rest=("q",), dt=(), w=("v",), by_q=("v",), by_v=("v",),
    outputs=("by_q", "by_v"),
)  # fmt: skip
def springs_gradient(
    tree: Tree, q: Indexed, damping: Indexed, stiffness: Indexed, rest: Indexed, dt: Indexed, w: Indexed,
    by_q: Indexed, by_v: Indexed,
) -> None:  # fmt: skip
    """Gradients of w times these forces."""
    for k, _ in tree.scatter():
        turned = k.manifold.inverse_right_jacobian(k.manifold.difference(rest[k], q[k]))
        by_q[k] = -(turned.T @ (stiffness[k] * w[k]))
        by_v[k] = -(damping[k] + stiffness[k] * dt[...]) * w[k]


@algorithm(q=("q",), v=("v",), w=("frames", 6), g=("frames", 6), by_q=("v",), outputs=("by_q",))
def twists_gradient(tree: Tree, q: Indexed, v: Indexed, w: Indexed, g: Indexed, by_q: Indexed) -> None:
    """Gradients of Σ w · V(q, v) + g · (J δq) with respect to q, for frames in world axes."""
    tree.world.C = Transform.identity()
    tree.world.V = Motion.zero()
    tree.world.f = tree.world.g = Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.C = k.X @ parent.C
        V_p = parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.turned = columns(turned_velocities(k, k.X, V_p, v[k]), k.dimension)
        k.f = k.g = k.M @ (k.H @ np.zeros(len(k.armature)))

    for frame, carrier in tree.frames():
        seen = tree.seen(_AXES, frame, carrier)
        V, n, f = seen @ carrier.V, w[frame][:3], w[frame][3:]
        # V turns with the frame, while w does not
        moment = cross(V.angular, n) + cross(V.linear, f)
        carrier.f += seen.T @ Force(w[frame])
        carrier.g += seen.T @ Force.of(g[frame][:3] + moment, g[frame][3:])

    for k, parent in tree.gather():
        by_q[k] = k.turned.T @ components(k.f) + k.H.T @ k.g
        parent.f += k.X.T @ k.f
        parent.g += k.X.T @ k.g


@algorithm(q=("q",), v=("v",), a=("v",), x=("v",), scale=(), by_parameter=("frames", 10), outputs=("by_parameter",))
def parameters_gradient(
    tree: Tree, q: Indexed, v: Indexed, a: Indexed, x: Indexed, scale: Indexed, by_parameter: Indexed
) -> None:
    """Gradients of xᵀτ with respect to the inertial parameters of a body at each frame, times a scale."""
    tree.world.omega = Motion.zero()
    _moved(tree, q, v, a)
    for k, parent in tree.scatter():
        k.omega = k.X @ parent.omega + k.H @ x[k]

    for frame, carrier in tree.frames():
        forces = forces_per_parameter(frame.X @ carrier.V, frame.X @ carrier.alpha)
        by_parameter[frame] = forces.T @ (frame.X @ carrier.omega).data * scale[...]


@algorithm(q=("q",), v=("v",), a=("v",), change=("frames", 10), tau=("v",), outputs=("tau",))
def parameters_change(tree: Tree, q: Indexed, v: Indexed, a: Indexed, change: Indexed, tau: Indexed) -> None:
    """The change of τ along changes of the inertial parameters of a body at each frame."""
    _moved(tree, q, v, a)

    for frame, carrier in tree.frames():
        forces = forces_per_parameter(frame.X @ carrier.V, frame.X @ carrier.alpha)
        carrier.f += frame.X.T @ Force(forces @ change[frame])

    for k, parent in tree.gather():
        tau[k] = k.H.T @ k.f
        parent.f += k.X.T @ k.f


def _moved(tree: Tree, q: Indexed, v: Indexed, a: Indexed) -> None:
    """Set X, V and α of every node, and a force of zero."""
    tree.world.V = Motion.zero()
    tree.world.alpha = -tree.gravity
    tree.world.f = Force.zero()
    for k, parent in tree.scatter():
        k.X, V_p = k.weight(q[k]), parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ (k.H @ np.zeros(len(k.armature)))


_BLOCKS = ("by_q", "by_v", "by_tau")


@cache
def step_matrices(middle: bool, soft: bool) -> Algorithm:
    """A and B of a step, from those of its velocities with respect to where it is computed, v and joint forces.

    Args:
        middle: Whether it is computed at q ⊕ v `ahead`, instead of at q.
        soft: Whether joint forces have springs and dampers.
    """

    def text(
        tree: Tree, q: Indexed, v: Indexed, rate: Indexed, ahead: Indexed, left: Indexed, damping: Indexed,
        stiffness: Indexed, rest: Indexed, dt: Indexed, by_q: Indexed, by_v: Indexed, by_tau: Indexed, A: Entries,
        B: Entries,
    ) -> None:  # fmt: skip
        lower, upper = ((A.block(half, 0), A.block(half, 1), B.block(half)) for half in (1, 0))
        given = by_q, by_v, by_tau
        if middle or soft:
            for k, _ in tree.scatter():
                step = v[k] * ahead[...]
                start, end = k.manifold.transport(step), k.manifold.right_jacobian(step) * ahead[...]
                stretch = k.manifold.inverse_right_jacobian(k.manifold.difference(rest[k], q[k]))
                for c in tree.columns():
                    at, moving, pushed = (block[c, k] for block in given)
                    if middle:
                        at, moving = at @ start, at @ end + moving
                    if soft:
                        at = at - (pushed * stiffness[k]) @ stretch
                        moving = moving - pushed * (damping[k] + stiffness[k] * dt[...])
                    lower[0][c, k], lower[1][c, k], lower[2][c, k] = at, moving, pushed
        for k, _ in tree.scatter():
            step = rate[k] * left[...]
            start, end = k.manifold.transport(step), k.manifold.right_jacobian(step) * left[...]
            for c in tree.columns():
                for source, below, above in zip(lower if middle or soft else given, lower, upper, strict=True):
                    row = source[k, c]
                    below[k, c], above[k, c] = row, end @ row
            first = v[k] * ahead[...]
            turned = start @ k.manifold.transport(first) if middle else start
            upper[0][k, k] = upper[0][k, k] + turned
            if middle:
                upper[1][k, k] = upper[1][k, k] + start @ k.manifold.right_jacobian(first) * ahead[...]

    dimensions: dict[str, Any] = {
        "q": ("q",), "v": ("v",), "rate": ("v",), "ahead": (), "left": (), "damping": ("v",), "stiffness": ("v",),
        "rest": ("q",), "dt": (), **dict.fromkeys(_BLOCKS, ("v", "v")), "A": (2, "v", 2, "v"), "B": (2, "v", "v"),
    }  # fmt: skip
    text.__name__ = f"step_matrices{'_middle' * middle}{'_soft' * soft}"
    return algorithm(**dimensions, outputs=("A", "B"), sparse=("A", "B"), stacked=("A", "B"))(text)
