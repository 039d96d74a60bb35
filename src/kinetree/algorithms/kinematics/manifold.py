"""The manifold of configurations: node by node, what adding a velocity to a configuration means. Cost O(n).

Most joints have plain numbers for coordinates; quaternions and planar motions are Lie groups. Each kind of node brings
its own formulas (`language.node.Manifold`). Derivatives are along tangents, and block diagonal.
"""

from __future__ import annotations

from typing import Any

from kinetree.language.algorithm import algorithm
from kinetree.language.forward_mode import coordinate_derivative, gradients, joined, parts
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.scalar import select


@algorithm(
    q=("q",), origin=("q",), lower=("v",), upper=("v",), dt=(), slowest=("v",), fastest=("v",),
    outputs=("slowest", "fastest"),
)  # fmt: skip
def joint_bounds(
    tree: Tree, q: Indexed, origin: Indexed, lower: Indexed, upper: Indexed, dt: Indexed,
    slowest: Indexed, fastest: Indexed,
) -> None:  # fmt: skip
    """Velocities between which joints stay within their stops in a time step: see `kinetree.kernels.joint_rows`.

    Limits are counted from the configuration `origin`, and infinite where there are none.
    """
    for k, _ in tree.scatter():
        place = k.manifold.difference(origin[k], q[k])
        slowest[k] = [-_allowed(gap) / dt[...] for gap in place - lower[k]]
        fastest[k] = [_allowed(gap) / dt[...] for gap in upper[k] - place]


def _allowed(gap: Any) -> Any:
    return select(gap, 0.0, 0.0, gap)  # NaN stays NaN


@algorithm(q=("q",), v=("v",), dt=(), end=("q",), outputs=("end",))
def integrate(tree: Tree, q: Indexed, v: Indexed, dt: Indexed, end: Indexed) -> None:
    """q ⊕ v dt: where a constant velocity leads."""
    for k, _ in tree.scatter():
        end[k] = k.manifold.integrate(q[k], v[k] * dt[...])


@algorithm(q0=("q",), q1=("q",), v=("v",), outputs=("v",))
def difference(tree: Tree, q0: Indexed, q1: Indexed, v: Indexed) -> None:
    """The velocity that leads from one configuration to another in one second."""
    for k, _ in tree.scatter():
        v[k] = k.manifold.difference(q0[k], q1[k])


@algorithm(
    q=("q",), v=("v",), dt=(), dq=("v", "v"), dv=("v", "v"), outputs=("dq", "dv"), sparse=("dq", "dv")
)  # fmt: skip
def dintegrate(tree: Tree, q: Indexed, v: Indexed, dt: Indexed, dq: Indexed, dv: Indexed) -> None:
    """Derivatives of q ⊕ v dt, which do not depend on q."""
    del q  # gives its leading axes
    for k, _ in tree.scatter():
        step = v[k] * dt[...]
        dq[k, k] = k.manifold.transport(step)
        dv[k, k] = k.manifold.right_jacobian(step) * dt[...]


@algorithm(
    q0=("q",), q1=("q",), dq0=("v", "v"), dq1=("v", "v"), outputs=("dq0", "dq1"), sparse=("dq0", "dq1")
)  # fmt: skip
def ddifference(tree: Tree, q0: Indexed, q1: Indexed, dq0: Indexed, dq1: Indexed) -> None:
    """Derivatives of the velocity that leads from one configuration to another."""
    for k, _ in tree.scatter():
        step = k.manifold.difference(q0[k], q1[k])
        dq0[k, k] = -k.manifold.inverse_right_jacobian(-step)
        dq1[k, k] = k.manifold.inverse_right_jacobian(step)


@algorithm(q=("q",), T=("v", "q"), outputs=("T",), sparse=("T",))
def tangent_map(tree: Tree, q: Indexed, T: Indexed) -> None:
    """Takes changes of the numbers q to tangents."""
    for k, _ in tree.scatter():
        T[k, k] = k.manifold.tangent_map(q[k])


@algorithm(x=("v",), ad=("v", "v"), outputs=("ad",), sparse=("ad",))
def bracket(tree: Tree, x: Indexed, ad: Indexed) -> None:
    """Matrix of the Lie bracket with a tangent x."""
    for k, _ in tree.scatter():
        ad[k, k] = k.manifold.bracket(x[k])


@algorithm(q=("q",), unit=("q",), outputs=("unit",))
def normalize(tree: Tree, q: Indexed, unit: Indexed) -> None:
    """The same configuration with quaternions of length one."""
    for k, _ in tree.scatter():
        unit[k] = k.manifold.normalize(q[k])


# Derivatives with respect to the components of q, for automatic differentiation by other libraries.


@algorithm(q=("q",), g=("v",), by_q=("q",), outputs=("by_q",))
def component_gradient(tree: Tree, q: Indexed, g: Indexed, by_q: Indexed) -> None:
    """The gradient with respect to the components of q, from that along the tangent."""
    for k, _ in tree.scatter():
        by_q[k] = k.manifold.tangent_map(q[k]).T @ g[k]


@algorithm(q=("q",), dq=("q",), tangent=("v",), outputs=("tangent",))
def component_change(tree: Tree, q: Indexed, dq: Indexed, tangent: Indexed) -> None:
    """The tangent for a change of the components of q."""
    for k, _ in tree.scatter():
        tangent[k] = k.manifold.tangent_map(q[k]) @ dq[k]


#: The change of `component_gradient` along a change dq of the components, for a constant g.
component_gradient_change = coordinate_derivative(component_gradient, "component_gradient_change", {"dq": "q"}, ("h",))

#: The change of `component_change` along another change of the components, for a constant dq.
component_change_change = coordinate_derivative(component_change, "component_change_change", {"step": "q"}, ("h",))

#: The change of `integrate` along changes of the components of q and of v.
integrate_change = coordinate_derivative(integrate, "integrate_change", {"dq": "q", "dv": "v"}, ("change",))


@algorithm(q=("q",), v=("v",), w=("q",), by_q=("q",), by_v=("v",), outputs=("by_q", "by_v"))
def integrate_gradients(tree: Tree, q: Indexed, v: Indexed, w: Indexed, by_q: Indexed, by_v: Indexed) -> None:
    """Gradients of wᵀ(q ⊕ v) with respect to the components of q and v."""
    for k, _ in tree.scatter():
        by_q[k], by_v[k] = gradients(k.manifold.integrate, (q[k], v[k]), w[k])


#: Their change along changes of q and v.
integrate_curvature = coordinate_derivative(
    integrate_gradients, "integrate_curvature", {"dq": "q", "dv": "v"}, ("hq", "hv")
)


@algorithm(q0=("q",), q1=("q",), dq0=("q",), dq1=("q",), change=("v",), outputs=("change",))
def difference_change(tree: Tree, q0: Indexed, q1: Indexed, dq0: Indexed, dq1: Indexed, change: Indexed) -> None:
    """The change of `difference` along changes of the components of both configurations."""
    for k, _ in tree.scatter():
        step = k.manifold.difference(q0[k], q1[k])
        back = k.manifold.inverse_right_jacobian(-step) @ (k.manifold.tangent_map(q0[k]) @ dq0[k])
        change[k] = k.manifold.inverse_right_jacobian(step) @ (k.manifold.tangent_map(q1[k]) @ dq1[k]) - back


@algorithm(q0=("q",), q1=("q",), w=("v",), by_q0=("q",), by_q1=("q",), outputs=("by_q0", "by_q1"))
def difference_gradients(tree: Tree, q0: Indexed, q1: Indexed, w: Indexed, by_q0: Indexed, by_q1: Indexed) -> None:
    """Gradients of wᵀ(q1 ⊖ q0) with respect to the components of both."""
    for k, _ in tree.scatter():
        step = k.manifold.difference(q0[k], q1[k])
        by_q0[k], by_q1[k] = _difference_gradients(k.manifold, q0[k], q1[k], step, w[k])


@algorithm(
    q0=("q",), q1=("q",), w=("v",), dq0=("q",), dq1=("q",), h0=("q",), h1=("q",), outputs=("h0", "h1")
)  # fmt: skip
def difference_curvature(
    tree: Tree, q0: Indexed, q1: Indexed, w: Indexed, dq0: Indexed, dq1: Indexed, h0: Indexed, h1: Indexed
) -> None:
    """Their change along changes of q0 and q1, by dual numbers, but for the logarithm, whose rate at zero is 0/0."""
    for k, _ in tree.scatter():
        by, step = k.manifold, k.manifold.difference(q0[k], q1[k])
        back = by.inverse_right_jacobian(-step) @ (by.tangent_map(q0[k]) @ dq0[k])
        rate = by.inverse_right_jacobian(step) @ (by.tangent_map(q1[k]) @ dq1[k]) - back
        moving = joined(q0[k], dq0[k]), joined(q1[k], dq1[k]), joined(step, rate)
        h0[k], h1[k] = (parts(x, 0)[1] for x in _difference_gradients(by, *moving, w[k]))


def _difference_gradients(by: Any, q0: Any, q1: Any, step: Any, w: Any) -> tuple[Any, Any]:
    back = by.tangent_map(q0).T @ (by.inverse_right_jacobian(-step).T @ w)
    return -back, by.tangent_map(q1).T @ (by.inverse_right_jacobian(step).T @ w)
