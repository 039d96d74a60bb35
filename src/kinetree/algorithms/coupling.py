"""Joints that depend on each other: velocities and forces of all joints, and constraints that close loops. Cost O(n).

For independent velocities v the velocities of all joints are q̇ = G v, their accelerations q̈ = G v̇ + Ġ v. Forces on all
joints act as τ = Gᵀ τ_joints. Nodes whose joints are independent have G = 1.
"""

from __future__ import annotations

from kinetree.recursion.algorithm import algorithm
from kinetree.recursion.forward_mode import directional_derivative
from kinetree.recursion.tree import Indexed, Tree


@algorithm(q=("q",), G=("joints", "v"), outputs=("G",), sparse=("G",))
def coupling(tree: Tree, q: Indexed, G: Indexed) -> None:
    """Velocities of all joints per independent velocity.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        G: (joints, nv).
    """
    for k, _ in tree.scatter():
        G[k, k] = k.coupling(q[k])


#: Ġ at a velocity, (joints, nv).
coupling_rate = directional_derivative(coupling, "coupling_rate", "v", {}, ("rate",))


@algorithm(q=("q",), v=("v",), rates=("joints",), outputs=("rates",))
def joint_rates(tree: Tree, q: Indexed, v: Indexed, rates: Indexed) -> None:
    """Velocities of all joints.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Independent velocities, (nv,).
        rates: G v, (joints,).
    """
    for k, _ in tree.scatter():
        rates[k] = k.coupling(q[k]) @ v[k]


@algorithm(q=("q",), v=("v",), a=("v",), rates=("joints",), outputs=("rates",))
def joint_accelerations(tree: Tree, q: Indexed, v: Indexed, a: Indexed, rates: Indexed) -> None:
    """Accelerations of all joints.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        v: Independent velocities, (nv,).
        a: Their rates, (nv,).
        rates: G a + Ġ v, (joints,).
    """
    for k, _ in tree.scatter():
        rates[k] = k.coupling(q[k]) @ a[k] + k.coupling_drift(q[k], v[k])


@algorithm(q=("q",), forces=("joints",), tau=("v",), outputs=("tau",))
def joint_forces(tree: Tree, q: Indexed, forces: Indexed, tau: Indexed) -> None:
    """Forces along the independent velocities that act like given forces on all joints.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        forces: On all joints, (joints,).
        tau: Gᵀ forces, (nv,).
    """
    for k, _ in tree.scatter():
        tau[k] = k.coupling(q[k]).T @ forces[k]


@algorithm(q=("q",), residual=("loops",), K=("loops", "joints"), outputs=("residual", "K"), sparse=("K",))
def loop_constraints(tree: Tree, q: Indexed, residual: Indexed, K: Indexed) -> None:
    """What keeps loops closed.

    Args:
        tree: The mechanism.
        q: Configuration, (nq,).
        residual: φ, zero where loops are closed, (loops,).
        K: Its rate per velocity of each joint, (loops, joints).
    """
    for k, _ in tree.scatter():
        residual[k], K[k, k] = k.loops(q[k])
