"""Loops and couplings through flexible bodies and nodes of users: against open trees, multipliers and rigid twins."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.transform import Transform
from tests.general_nodes import Bead, Telescope, Two
from tests.laws.cases import H
from tests.tolerance import Array, assert_close, bound, condition, peak

SOLID = {"mass": 0.4, "com": (0.15, 0.02, 0.0), "inertia": np.diag([2e-3, 0.02, 0.021])}
ENDS: dict[str, dict[str, Any]] = {
    "connect": {},
    "hinge": {"axis": (0, 0, 1)},
    "weld": {},
    "distance": {"length": 0.35},
}


def linkage(kind: str) -> kt.Builder:
    """A four-bar linkage on a moving base, whose coupler is a beam that carries a camera on its way."""
    builder = kt.Builder("linkage", gravity=(0.3, -9.81, 0.2)).add_body("base", axis=(1, 0.2, 0), **SOLID)
    builder.add_body("crank", parent="base", armature=0.1, **SOLID)
    beam = kt.Beam(0.9, 50.0, 0.8, modes=2, planes="yz", stations={"mid": 0.4}, axial_inertia=1e-2)
    builder.add_flexible("beam", beam, parent="crank", joint="spherical", placement=(np.eye(3), (0.3, 0, 0)))
    builder.add_body("camera", parent="beam/mid", axis=(0, 1, 0), **SOLID)
    builder.add_body("rocker", parent="base", placement=(np.eye(3), (1.0, 0, 0)), **SOLID)
    builder.add_frame("pin", body="rocker", placement=(np.eye(3), (0.7, 0, 0)))
    return getattr(builder, kind)("beam/tip", "pin", **ENDS[kind])  # type: ignore[no-any-return]


@cache
def built(kind: str) -> kt.Model:
    return linkage(kind).build(near={"crank_joint": 0.8, "rocker_joint": 1.6})


def reference(of: kt.Model, name: str, *given: Any) -> Any:
    return getattr(of, name).engine("reference")(*given)


def state(of: kt.Model, step: float = 0.02) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(1)
    q = reference(of, "integrate", of.neutral(), step * rng.normal(size=of.nv))
    return q, *rng.normal(size=(2, of.nv))


def assert_like_the_tree(of: kt.Model, q: Array, v: Array, a: Array) -> None:
    """M = GᵀMG, τ = GᵀID, the same energy, and poses; the rates of closed loops satisfy their constraints."""
    tree, order = of.spanning_tree, of.tree_order
    G = reference(of, "coupling", q)[order]
    there = of.to_tree(q)
    rates, pushes = (reference(of, name, *x)[order] for name, x in
                     (("joint_rates", (q, v)), ("joint_accelerations", (q, v, a))))  # fmt: skip
    close = bound(of.nv)
    M = reference(tree, "mass_matrix", there)
    assert_close(reference(of, "mass_matrix", q), G.T @ M @ G, close, peak(M))
    forces = reference(tree, "inverse_dynamics", there, rates, pushes)
    assert_close(reference(of, "inverse_dynamics", q, v, a), G.T @ forces, close, peak(forces))
    assert_close(np.array(reference(of, "energy", q, v)), np.array(reference(tree, "energy", there, rates)), close)
    tau = reference(of, "inverse_dynamics", q, v, a)
    solved = reference(of, "forward_dynamics", q, v, tau)
    inertia = reference(of, "mass_matrix", q)
    assert_close(solved, a, bound(of.nv, condition(inertia)), peak(a, np.linalg.solve(inertia, tau)))
    if of.mechanism.loop_starts[-1]:
        phi, K = reference(of, "loop_constraints", q)
        assert_close(phi, 0.0 * phi, 1e-13)
        assert_close(K @ reference(of, "joint_rates", q, v), 0.0 * phi, close, peak(K))


@pytest.mark.parametrize("kind", ENDS)
def test_loops_through_a_beam(kind: str) -> None:
    of = built(kind)
    q, v, a = state(of)
    assert of.nv == {"connect": 8, "hinge": 6, "weld": 5, "distance": 10}[kind]
    assert_like_the_tree(of, q, v, a)
    poses = (reference(each, "pose", x, ["camera", "beam/tip", "pin"]) for each, x in
             ((of, q), (of.spanning_tree, of.to_tree(q))))  # fmt: skip
    assert_close(*poses, 1e-13)


def test_accelerations_are_those_with_multipliers() -> None:
    of = built("connect")
    q, v, tau = state(of)
    tree = linkage("connect").build(loops="multipliers")
    there, rates = of.to_tree(q, v)
    forces = np.zeros(tree.nv)
    G = of.coupling(q)[of.tree_order]
    forces[:] = np.linalg.lstsq(G.T, tau, rcond=None)[0]
    a, _ = tree.constrained_dynamics(there, rates, forces, tree.equalities)
    found = of.forward_dynamics(q, v, tau)
    expected = of.to_tree(q, v, found)[2]
    assert_close(a, expected, 100.0 * bound(of.nv, condition(tree.mass_matrix(there))), peak(expected))
    # compiled: bits do not depend on the batch, and a copy has the same
    assert np.array_equal(of.forward_dynamics(np.stack([q] * 5), v, tau)[3], found)
    assert np.array_equal(pickle.loads(pickle.dumps(of)).forward_dynamics(q, v, tau), found)


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_energy_is_kept(kind: str) -> None:
    """Its rate is the power of the joint forces, springs included."""
    of = built(kind)
    q, v, a = state(of)
    moved = of.integrate.engine("reference")(q.astype(complex), 1j * H * v)
    rate = sum(np.imag(part) / H for part in reference(of, "energy", moved, v + 1j * H * a))
    tau = reference(of, "inverse_dynamics", q, v, a)
    assert_close(rate, v @ tau, bound(of.nv), peak(tau))


def test_amplitudes_of_beams_are_independent() -> None:
    """They are stiff: a joint that follows moves freely."""
    joints = {joint.name: joint for joint in built("connect").joints}
    assert joints["beam"].nv == 4
    assert joints["crank_joint"].nv == 1
    assert joints["rocker_joint"].nv == 0
    assert joints["beam_joint"].independent == (0,)  # its spin moves no end of it


def arms(telescope: bool) -> kt.Model:
    """A loop of a crank and a telescopic arm on a ball joint, one node or two bodies."""
    builder = kt.Builder("arms").add_body("base", axis=(1, 0.2, 0), **SOLID)
    builder.add_body("crank", parent="base", axis=(0, 1, 0.1), **SOLID)
    at = (np.eye(3), (0.2, 0.3, -0.4))
    if telescope:
        builder.add_node("arm", Telescope(**SOLID), parent="base", placement=at)
        end, independent, near = "arm/end", ("arm", 2), {"arm": (1.0, 0.1, 0.2, 0.0, 0.4)}
    else:
        builder.add_body("ball", parent="base", joint="spherical", placement=at)
        builder.add_body("end", parent="ball", joint="prismatic", axis=(0, 0, 1), **SOLID)
        end, independent = "end", ("ball_joint", 2)
        near = {"ball_joint": (1.0, 0.1, 0.2, 0.0), "end_joint": (0.4,)}
    builder.add_body("tool", parent=end, axis=(1, 1, 0), placement=(np.eye(3), (0.1, 0.0, 0.1)), **SOLID)
    builder.add_frame("hook", body=end, placement=(np.eye(3), (0.1, 0, 0.1)))
    builder.add_frame("tip", body="crank", placement=(np.eye(3), (0.4, 0.1, 0)))
    return builder.connect("tip", "hook").independent("crank_joint", independent).build(near=near)


def test_a_node_in_a_loop_is_what_its_bodies_are() -> None:
    node, bodies = arms(True), arms(False)
    q, v, a = state(node, 0.1)
    assert_like_the_tree(node, q, v, a)
    assert_close(bodies.close(q), q, 1e-12)
    for name, given in (("inverse_dynamics", (q, v, a)), ("forward_dynamics", (q, v, a)), ("mass_matrix", (q,)),
                        ("energy", (q, v)), ("center_of_mass", (q,)), ("coriolis_matrix", (q, v))):  # fmt: skip
        found, wanted = (np.array(reference(each, name, *given)) for each in (node, bodies))
        assert_close(found, wanted, bound(node.nv, condition(reference(node, "mass_matrix", q))), peak(wanted))


def test_outlets_of_one_node_are_tied() -> None:
    """Then the node itself is inside the loop, though both ends of it are outlets."""
    rng = np.random.default_rng(3)
    rows = [
        (Transform.of(np.eye(3), rng.uniform(-0.3, 0.3, 3)), RigidInertia.of(0.4, (0.1, 0, 0), 0.02 * np.eye(3)))
        for _ in range(2)
    ]
    builder = kt.Builder("pair").add_body("base", axis=(1, 0.2, 0), **SOLID)
    builder.add_node("pair", Two(rows), parent="base", placement=(np.eye(3), (0.1, 0, 0)))
    builder.add_frame("a", body="pair/left", placement=(np.eye(3), (0.3, 0, 0.1)))
    builder.add_frame("b", body="pair/right", placement=(np.eye(3), (0.2, 0.1, 0)))
    of = builder.distance("a", "b", length=0.5).build()
    assert of.nv == 2
    assert_like_the_tree(of, *state(of, 0.1))


def test_nodes_follow_joints() -> None:
    """A bead with a spring follows a crank, by a function; the node lies in no loop."""
    builder = kt.Builder("cam").add_body("base", axis=(1, 0.2, 0), **SOLID).add_body("crank", parent="base", **SOLID)
    builder.add_node("bead", Bead(0.5, 0.8, stiffness=20.0), parent="crank", placement=(np.eye(3), (0.1, 0, 0.2)))
    of = builder.couple("bead", to="crank_joint", function=lambda y: 0.3 * np.sin(y) + 0.1 * y * y).build()
    assert (of.nq, of.nv) == (2, 2)
    q, v, a = state(of, 0.5)
    assert_like_the_tree(of, q, v, a)
    assert of.q_to_dict(q)["bead"] == pytest.approx(0.3 * np.sin(q[1]) + 0.1 * q[1] ** 2)


def test_what_is_refused() -> None:
    with pytest.raises(kt.errors.ModelError, match="'arm' is a node joint; only joints with one coordinate"):
        kt.Builder().add_body("crank", **SOLID).add_node("arm", Telescope(**SOLID)).couple(
            "arm", to="crank_joint", ratio=2.0
        ).build()
    with pytest.raises(kt.errors.ModelError, match="'beam' is a general node, and takes no mass"):
        built("connect").with_payload("beam", 1.0).mass_matrix(np.zeros(12))
    with pytest.raises(kt.errors.UnsupportedError, match="a single velocity of a node joint is independent"):
        reference(arms(True), "difference", arms(True).neutral(), arms(True).neutral())
    with pytest.raises(kt.errors.InputError, match="'beam' is a general node, without a frame of its own"):
        built("connect").pose(built("connect").neutral(), "beam")
    with pytest.raises(kt.errors.ModelError, match="cannot be chosen|cannot all be independent"):
        linkage("connect").independent("crank_joint", "beam", "rocker_joint", "beam_joint").build(
            near={"crank_joint": 0.8, "rocker_joint": 1.6}
        )
