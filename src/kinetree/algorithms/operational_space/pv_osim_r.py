"""Λ⁻¹ by the Popov–Vereshchagin sweep with stations: no chain of joints is gone through twice. Cost O(n + m²).

    pass       loop                       leaves                                                       source
    place      scatter, frames            bodies and task rows χ in the frame of the tree
    sweep      gather, passing rows       P and Ω of each source as far as the station where it ends       [S24] Alg. 3
    stations   stations, base to tips     Ω₀ of each station: acceleration per unit force on it
    reach      stations, tips to base     extended propagators of all rows to all stations
    response   stations, rows             Ω₀ applied to them
    join       pairs of tasks             Λ⁻¹ at the first station that both arrive at

Where more than six rows arrive, a body can be a station: six unit forces stand in for the rows from there to the base.
A source is what passes a joint: a task, tasks that pass together, or the unit forces of a station.
`kinetree.algorithms.operational_space.stations` says where there are stations, and how this departs from the paper.

[S24] A. Sathya, W. Decré, J. Swevers, "PV-OSIMr: a lowest order complexity algorithm for computing the Delassus
      matrix", IEEE Robotics and Automation Letters 9, 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kinetree.algorithms import tree_frame
from kinetree.algorithms.kinematics import View
from kinetree.algorithms.operational_space import mobility, stations, task_space
from kinetree.algorithms.operational_space.pv_osim import through_joint
from kinetree.algorithms.operational_space.task_space import PLAIN, Parts
from kinetree.recursion.roles import NodeRole
from kinetree.recursion.tree import Indexed, Tree
from kinetree.spatial.inertia import ArticulatedInertia, Compliance
from kinetree.spatial.motion import Force
from kinetree.spatial.value import Array


def pv_osim_r(view: View, parts: Parts = PLAIN) -> Callable[..., None]:
    """Λ⁻¹, seen through a reference."""

    def pv_osim_r(tree: Tree, q: Indexed, inverse_inertia: Indexed) -> None:
        chi, block = tree.array("passing"), tree.array("passing", "passing")
        reach, response = tree.array("node", "sorted_rows"), tree.array("node", "sorted_rows")
        sweep(tree, q, view, chi, block, parts)

        tree.world.V = Compliance.zero()
        for k, above in stations.scatter(tree):
            k.V = mobility.through(above.V, propagator(tree, k, chi), own(tree, k, block))  # Ω₀ = Ω + P Ω₀ Pᵀ

        extend(tree, chi, reach)
        for k, _ in stations.scatter(tree):
            for row in tree.carried(k):
                response[k, row] = k.V @ reach[k, row]

        join(tree, reach, response, block)
        task_space.finish(tree, view, block, inverse_inertia, parts)

    return pv_osim_r


def sweep(tree: Tree, q: Indexed, view: View, chi: Indexed, block: Indexed, parts: Parts) -> None:
    """Take every source through the joints to the station where it ends: χ becomes its P, the block its Ω."""
    scaled = [tree.array("passing") for _ in range(6)]
    tree_frame.start(tree)
    tree.world.P = ArticulatedInertia.zero()
    task_space.clear(tree, block)
    for k, parent in tree.scatter():
        tree_frame.move(k, parent, q)
        k.S = k.H.basis(k.C, k.armature)
        k.P = k.C.congruence(k.M).articulated()
    task_space.rows(tree, view, chi, parts)
    for k, _ in stations.gather(tree):
        for i, one in enumerate(stations.units(tree, k)):
            chi[one] = Force.unit(i)
            for other in stations.units(tree, k)[i:]:
                block[one, other] = 0.0

    for k, parent in tree.gather():
        k.D, k.G, P_plus = k.S.hinge(k.P, k.armature)
        parent.P += P_plus
        through_joint(k, partial(stations.passing_groups, tree), chi, scaled, block)


def propagator(tree: Tree, station: NodeRole, chi: Indexed) -> Array:
    """P: takes forces on the station to forces on the next one, row by row, (6, 6)."""
    return np.array([chi[one].data for one in stations.units(tree, station)])


def own(tree: Tree, station: NodeRole, block: Indexed) -> Array:
    """Ω: what the joints from the station to the next one give way, upper triangle, (6, 6)."""
    units = stations.units(tree, station)
    return np.array([[block[units[min(i, j)], units[max(i, j)]] for j in range(6)] for i in range(6)])


def extend(tree: Tree, chi: Indexed, reach: Indexed) -> None:
    """Take all rows to all stations below them: extended propagators."""
    for k, _ in stations.gather(tree):
        for row in tree.carried(k):
            reach[k, row] = chi[row]  # of rows that passed no station before
    for k, above in stations.gather(tree):
        P = propagator(tree, k, chi)
        for row in tree.carried(k):
            reach[above, row] = Force(reach[k, row].data @ P)


def join(tree: Tree, reach: Indexed, response: Indexed, block: Indexed) -> None:
    """Add what tasks feel of each other from the station where they join on."""
    for k, one, other in stations.joins(tree):
        for r in tree.rows_of(one):
            for s in tree.rows_of(other, r):
                block[r, s] = block[r, s] + reach[k, r].data @ response[k, s].data
