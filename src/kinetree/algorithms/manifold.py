"""The manifold of configurations: node by node, what adding a velocity to a configuration means. Cost O(n).

Most joints have plain numbers for coordinates; quaternions and planar motions are Lie groups. Each kind of node brings
its own formulas (`recursion.node.Manifold`). Derivatives are along tangents, and block diagonal.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.tree import Indexed, Tree


@algorithm(q=("q",), v=("v",), dt=(), end=("q",), outputs=("end",), any_node=True)
def integrate(tree: Tree, q: Indexed, v: Indexed, dt: Indexed, end: Indexed) -> None:
    """q ⊕ v dt: where a constant velocity leads.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Velocities, (nv,).
        dt: Seconds.
        end: Configuration, (nq,).
    """
    for k, _ in tree.scatter():
        end[k] = k.manifold.integrate(q[k], v[k] * dt[...])


@algorithm(q0=("q",), q1=("q",), v=("v",), outputs=("v",), any_node=True)
def difference(tree: Tree, q0: Indexed, q1: Indexed, v: Indexed) -> None:
    """The velocity that leads from one configuration to another in one second.

    Args:
        tree: The mechanism.
        q0: Configuration, (nq,).
        q1: Configuration, (nq,).
        v: Velocities, (nv,).
    """
    for k, _ in tree.scatter():
        v[k] = k.manifold.difference(q0[k], q1[k])


@algorithm(
    q=("q",), v=("v",), dt=(), dq=("v", "v"), dv=("v", "v"), outputs=("dq", "dv"), any_node=True, sparse=("dq", "dv")
)  # fmt: skip
def dintegrate(tree: Tree, q: Indexed, v: Indexed, dt: Indexed, dq: Indexed, dv: Indexed) -> None:
    """Derivatives of q ⊕ v dt.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,); nothing depends on it.
        v: Velocities, (nv,).
        dt: Seconds.
        dq: With respect to q, (nv, nv).
        dv: With respect to v, (nv, nv).
    """
    del q  # gives its leading axes
    for k, _ in tree.scatter():
        step = v[k] * dt[...]
        dq[k, k] = k.manifold.transport(step)
        dv[k, k] = k.manifold.right_jacobian(step) * dt[...]


@algorithm(
    q0=("q",), q1=("q",), dq0=("v", "v"), dq1=("v", "v"), outputs=("dq0", "dq1"), any_node=True, sparse=("dq0", "dq1")
)  # fmt: skip
def ddifference(tree: Tree, q0: Indexed, q1: Indexed, dq0: Indexed, dq1: Indexed) -> None:
    """Derivatives of the velocity that leads from one configuration to another.

    Args:
        tree: The mechanism.
        q0: Configuration, (nq,).
        q1: Configuration, (nq,).
        dq0: With respect to q0, (nv, nv).
        dq1: With respect to q1, (nv, nv).
    """
    for k, _ in tree.scatter():
        step = k.manifold.difference(q0[k], q1[k])
        dq0[k, k] = -k.manifold.inverse_right_jacobian(-step)
        dq1[k, k] = k.manifold.inverse_right_jacobian(step)


@algorithm(q=("q",), T=("v", "q"), outputs=("T",), any_node=True, sparse=("T",))
def tangent_map(tree: Tree, q: Indexed, T: Indexed) -> None:
    """Takes changes of the numbers q to tangents.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        T: (nv, nq).
    """
    for k, _ in tree.scatter():
        T[k, k] = k.manifold.tangent_map(q[k])


@algorithm(x=("v",), ad=("v", "v"), outputs=("ad",), any_node=True, sparse=("ad",))
def bracket(tree: Tree, x: Indexed, ad: Indexed) -> None:
    """Matrix of the Lie bracket.

    Args:
        tree: The mechanism.
        x: A tangent, (nv,).
        ad: (nv, nv).
    """
    for k, _ in tree.scatter():
        ad[k, k] = k.manifold.bracket(x[k])


@algorithm(q=("q",), unit=("q",), outputs=("unit",), any_node=True)
def normalize(tree: Tree, q: Indexed, unit: Indexed) -> None:
    """The same configuration with quaternions of length one.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        unit: Configuration, (nq,).
    """
    for k, _ in tree.scatter():
        unit[k] = k.manifold.normalize(q[k])
