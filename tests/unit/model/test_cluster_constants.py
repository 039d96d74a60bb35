"""Zeros and ones among the constants of a cluster are left out of its formulas, and change no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.model.loops.cluster_kind import ClusterKind
from tests.mechanisms import NEAR, four_bar
from tests.tolerance import assert_close, bound


def closed_on_the_world(turn: Any = None) -> kt.Model:
    """Three links in a row, the last of which is pinned to a point of the world."""
    R = np.eye(3) if turn is None else turn
    builder, parent, at = kt.Builder("pinned", gravity=R @ (0.0, -9.81, 0.0)), "world", (R, R @ (0.1, 0.0, 0.0))
    for name, length in (("crank", 0.3), ("coupler", 0.9), ("rocker", 0.7)):
        solid = {"mass": length, "com": (length / 2, 0.01, 0.0), "inertia": length**3 / 12.0 * np.eye(3)}
        builder.add_body(name, parent=parent, placement=at, **solid)
        parent, at = name, (np.eye(3), (length, 0.0, 0.0))
    builder.add_frame("tip", body="rocker", placement=at).add_frame(
        "ground", placement=(np.eye(3), R @ (1.1, 0.0, 0.0))
    )
    builder.connect("tip", "ground").independent("crank")
    return builder.build(near={"crank": 0.8, "coupler": -0.5, "rocker": -1.5})


def closed_on_the_rocker(turn: Any = None) -> kt.Model:
    return four_bar(turn=turn).connect("tip", "pin").independent("crank").build(near=NEAR)


@pytest.mark.parametrize(
    ("make", "multiplications"), [(closed_on_the_rocker, [124, 130]), (closed_on_the_world, [166, 172])]
)
def test_a_planar_linkage_costs_the_same_in_any_plane(make: Any, multiplications: list[int]) -> None:
    """Its inside is expressed in axes of its plane; what remains is to turn gravity."""
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    flat, tilted = (make(turn) for turn in (None, R * np.sign(np.linalg.det(R))))
    q, v, tau = flat.neutral(), np.array([0.7]), np.array([1.3])
    assert_close(tilted.neutral(), q, 1e-12)
    a = flat.forward_dynamics.engine("reference")(q, v, tau)
    assert_close(tilted.forward_dynamics.engine("reference")(q, v, tau), a, bound(100))
    counts = flat.forward_dynamics.count(), tilted.forward_dynamics.count()
    assert [count.multiplications for count in counts] == multiplications


def test_tilted_linkages_on_a_moving_base() -> None:
    """One on the other, in planes of their own: dynamics, matrices and frames are those of the tree, projected."""
    rng = np.random.default_rng(0)
    builder, near, parent = kt.Builder("two linkages"), {}, "base"
    solid = {"com": (0.1, 0.2, 0.3), "inertia": np.diag([1.0, 2.0, 2.5])}
    builder.add_body("base", joint="floating", mass=1.0, **solid)
    for i in range(2):
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        R = R * np.sign(np.linalg.det(R))
        names = {name: f"{name}{i}" for name in NEAR}
        for name, carrier, x in (("crank", parent, 0.0), ("coupler", names["crank"], 0.3), ("rocker", parent, 1.0)):
            at = (R, R @ (0.1 + x, 0.0, 0.0)) if carrier == parent else (np.eye(3), (x, 0.0, 0.0))
            builder.add_body(names[name], parent=carrier, placement=at, mass=1.0, **solid)
        for end, name, length in ((f"tip{i}", "coupler", 0.9), (f"pin{i}", "rocker", 0.7)):
            builder.add_frame(end, body=names[name], placement=(np.eye(3), (length, 0.0, 0.0)))
        builder.connect(f"tip{i}", f"pin{i}").independent(names["crank"])
        near |= {names[name]: angle for name, angle in NEAR.items()}
        parent = names["coupler"]
    builder.add_body("tool", parent=parent, axis=(0.3, 0.4, 0.5), mass=0.5, **solid)
    robot = builder.build(near=near)
    tree, q, (v, a) = robot.spanning_tree, robot.neutral(), rng.normal(size=(2, robot.nv))

    def run(of: kt.Model, name: str, *arguments: Any) -> Any:
        return getattr(of, name).engine("reference")(*arguments)

    G = run(robot, "coupling", q)[robot.tree_order]
    q_tree = robot.to_tree(q)
    v_tree = run(robot, "joint_rates", q, v)[robot.tree_order]
    a_tree = run(robot, "joint_accelerations", q, v, a)[robot.tree_order]
    tau = run(robot, "inverse_dynamics", q, v, a)
    assert_close(tau, G.T @ run(tree, "inverse_dynamics", q_tree, v_tree, a_tree), bound(100))
    assert_close(run(robot, "forward_dynamics", q, v, tau), a, 1e-11)
    assert_close(run(robot, "mass_matrix", q), G.T @ run(tree, "mass_matrix", q_tree) @ G, bound(100))
    for frame in ("tool", "crank0", "rocker1", "coupler1"):
        assert_close(run(robot, "pose", q, frame), run(tree, "pose", q_tree, frame), bound(100))
        assert_close(run(robot, "velocity", q, v, frame), run(tree, "velocity", q_tree, v_tree, frame), bound(100))


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
