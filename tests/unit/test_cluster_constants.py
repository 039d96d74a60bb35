"""Zeros and ones among the constants of a cluster are left out of its formulas, and change no result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kinetree as kt
from kinetree.model.cluster import ClusterKind
from tests.mechanisms import NEAR, four_bar
from tests.tolerance import assert_close, bound


def test_a_linkage_in_the_plane_of_its_base_costs_a_fraction_of_a_tilted_one() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turns = None, turn * np.sign(np.linalg.det(turn))
    flat, tilted = (four_bar(turn=R).connect("tip", "pin").independent("crank").build(near=NEAR) for R in turns)
    q, v, tau = flat.neutral(), np.array([0.7]), np.array([1.3])
    a = flat.forward_dynamics.engine("reference")(q, v, tau)
    assert_close(tilted.forward_dynamics.engine("reference")(q, v, tau), a, bound(100))
    counts = flat.forward_dynamics.count(), tilted.forward_dynamics.count()
    assert [count.multiplications for count in counts] == [124, 639]


def rotors(axis: tuple[float, ...], places: Sequence[tuple[float, ...]]) -> kt.Model:
    """Links in a row, each with a geared rotor on the link before."""
    builder = kt.Builder("rotors")
    parent = "world"
    for i, place in enumerate(places):
        solid = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": 0.1 * np.eye(3), "placement": (np.eye(3), place)}
        builder.add_body(f"link{i}", parent=parent, axis=axis, **solid)
        builder.add_rotor(f"link{i}", ratio=9.0, mass=0.1, inertia=1e-3 * np.eye(3))
        parent = f"link{i}"
    return builder.build()


@pytest.mark.parametrize(("axis", "count", "kinds"), [((0.6, 0.8, 0.0), 4, 4), ((0.0, 0.0, 1.0), 6, 2)])
def test_clusters_with_too_many_patterns_share_their_kind(axis: tuple[float, ...], count: int, kinds: int) -> None:
    """The last link carries nothing, and is of another kind. Turned axes leave rounding errors in place of zeros."""
    places = [(x, y, z) for x in (0.0, 0.1) for y in (0.0, 0.1) for z in (0.0, 0.1)]
    robot = rotors(axis, places[:count])
    found = {kind for kind in robot.mechanism.kinds if isinstance(kind, ClusterKind)}
    assert len(found) == kinds
    assert max(len(kind.known) for kind in found) > 16  # two rotations by nothing
    q, v, tau = np.random.default_rng(1).normal(size=(3, robot.nv))
    G, tree = robot.coupling.engine("reference")(q)[robot.tree_order], robot.spanning_tree
    projected = G.T @ tree.mass_matrix.engine("reference")(robot.to_tree(q)) @ G
    a = robot.forward_dynamics.engine("reference")(q, v, tau)
    assert_close(projected @ a + robot.bias_forces.engine("reference")(q, v), tau, 1e-12)
