"""Tasks of robots with loops, coupled joints and flexible bodies: definitions, and the dynamics that they describe."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.operational_space import ALGORITHMS, inverse_inertia, takes_any_node
from kinetree.engines.count import count
from kinetree.engines.reference import run
from kinetree.recursion.common_frame import in_common_frame
from tests.mechanisms import NEAR, built, four_bar, gripper, whip
from tests.tolerance import assert_close, bound, condition
from tests.trees import mixed, random_mechanism
from tests.unit.test_closed_loops import suspended
from tests.unit.test_couplings import hand

LWA = "local_world_aligned"


ROBOTS = {
    "hand": (lambda: hand(coupled=True), "ball", "nail"),
    "suspended": (suspended, None, None),
    "whip": (whip, "tool", "hub"),
}


@cache
def robot(name: str) -> kt.Model:
    return ROBOTS[name][0]()


@cache
def tasks(name: str, reference: str = "local") -> Any:
    """A frame, one relative to another, and the centre of mass."""
    of = robot(name)
    far, near = ROBOTS[name][1] or of.frames[-1], ROBOTS[name][2] or of.frames[1]
    between = kt.RelativeTask(near, far, (1, 3, 4))
    return of.tasks([kt.Task(far, (2, 3, 4)), between, kt.CenterOfMassTask((3, 4))], reference=reference)


def states(of: kt.Model) -> tuple[Any, Any]:
    return of.random_configuration(1, 3), np.random.default_rng(1).uniform(-1, 1, (3, of.nv))


@pytest.mark.parametrize("name", ROBOTS)
def test_definitions(name: str) -> None:
    of, made = robot(name), tasks(name).engine("reference")
    q, v = (x[0] for x in states(of))
    frame, near = made.tasks[0].frame, made.tasks[1].frame_a
    J, M = made.jacobian(q), of.mass_matrix(q)
    assert made.method == "pv_osim"
    assert_close(J[:3], of.jacobian(q, frame)[[2, 3, 4]], bound(of.nv))
    A, B = of.pose(q, near), of.pose(q, frame)
    into, both = A[:3, :3].T, of.jacobian(q, [near, frame], reference=LWA)
    apart = both[1] - both[0]
    apart[3:] += np.cross(B[:3, 3] - A[:3, 3], both[0, :3].T).T
    turned = np.concatenate([into @ apart[:3], into @ apart[3:]])
    assert_close(J[3:6], turned[[1, 3, 4]], bound(of.nv))
    tolerance = bound(of.nv, condition(M))
    solved = np.linalg.solve(M, J.T)
    assert_close(made.inverse_inertia(q), J @ solved, tolerance)
    assert_close(made.core.recursions.response(q), solved, tolerance)
    # the velocity of the centre of mass, from the power of gravity
    free = of.with_gravity(np.zeros(3)).gravity_forces.engine("reference")(q)  # springs
    up = of.with_gravity((-1.0, 0.0, 0.0)).gravity_forces.engine("reference")(q) - free
    assert_close(J[6] * of.mass, up, bound(of.nv), float(np.abs(up).max() + np.abs(free).max()))  # springs cancel
    h = 1e-6
    rate = (made.jacobian(of.integrate(q, v, h)) - made.jacobian(of.integrate(q, v, -h))) @ v / (2 * h)
    assert_close(made.jacobian_dot_v(q, v), rate, 1e-7, float(np.abs(rate).max()) + 1.0)


@pytest.mark.parametrize("reference", ["world", LWA])
def test_references(reference: str) -> None:
    of, made = robot("hand"), tasks("hand", reference).engine("reference")
    q, v = (x[0] for x in states(of))
    frame = made.tasks[0].frame
    assert_close(made.jacobian(q)[:3], of.jacobian(q, frame, reference=reference)[[2, 3, 4]], bound(of.nv))
    drift = of.jacobian_dot_v(q, v, frame, reference=reference)[[2, 3, 4]]
    assert_close(made.jacobian_dot_v(q, v)[:3], drift, bound(of.nv), float(np.abs(drift).max()) + 1.0)


def test_engines_agree_and_bits_do_not_depend_on_the_batch() -> None:
    of = gripper()
    made = of.tasks([kt.Task("tip", (2, 3, 4)), kt.RelativeTask("link1", "right", (4,)), kt.CenterOfMassTask((5,))])
    q, v = states(of)
    expected, M = made.engine("reference"), of.mass_matrix(q[0])
    tolerance = bound(of.nv, condition(M) ** 1.5)
    for name in ("inverse_inertia", "jacobian", "inertia", "jacobian_dot_v"):
        function, of_reference = getattr(made, name), getattr(expected, name)
        given = (q, v) if name == "jacobian_dot_v" else (q,)
        found = function(*given)
        assert_close(found[0], of_reference(*(x[0] for x in given)), tolerance, float(np.abs(found[0]).max()))
        for i in range(3):
            assert np.array_equal(function(*(x[i] for x in given)), found[i])
        out = np.empty_like(found)
        assert function(*given, out=out) is out
        assert np.array_equal(out, found)
    assert np.array_equal(pickle.loads(pickle.dumps(made.inertia))(q), made.inertia(q))
    assert made.inverse_inertia.count().multiplications > 0


def test_forces_accelerate_tasks() -> None:
    """With τ = JᵀF, Λ ẍ + bias = F, if all rows can move; ẍ from forward dynamics."""
    of = gripper()
    made = of.tasks([kt.Task("tip", (3,))], singular="raise")
    q, v = (x[0] for x in states(of))
    F = np.array([0.7])
    inertia, consistent, nullspace = made.dynamics(q)
    J = made.jacobian(q)
    a = of.forward_dynamics(q, v, J.T @ F)
    motion = J @ a + made.jacobian_dot_v(q, v)
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    assert_close(inertia @ motion + made.bias(q, v), F, tolerance, float(np.abs(made.bias(q, v)).max()) + 1.0)
    assert_close(J @ consistent, np.eye(1), tolerance)
    assert_close(nullspace, np.eye(of.nv) - consistent @ J, tolerance)
    assert_close(consistent, made.core.recursions.response(q) @ inertia, tolerance)


METHODS = [method for method in ALGORITHMS if takes_any_node(method)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ROBOTS)
def test_methods_for_any_node(name: str, method: str) -> None:
    """Single frames, relative tasks and the centre of mass, on clusters, beams and outlets."""
    of, made = robot(name), tasks(name)
    q = states(of)[0]
    found, expected = (of.tasks(made.tasks, method=one).inverse_inertia(q) for one in (method, "definition"))
    J, M = made.jacobian(q), of.mass_matrix(q)
    tolerance = bound(of.nv, condition(M))
    assert_close(found, expected, tolerance, float(np.abs(expected).max()))
    assert_close(found, J @ np.linalg.solve(M, np.swapaxes(J, 1, 2)), tolerance, float(np.abs(expected).max()))


@pytest.mark.parametrize("method", [method for method in ALGORITHMS if method not in METHODS])
def test_methods_for_rigid_bodies_only(method: str) -> None:
    with pytest.raises(kt.errors.UnsupportedError, match=f"method '{method}' is for trees of rigid bodies"):
        robot("hand").tasks(["ball"], method=method)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("seed", range(3))
def test_views_of_rigid_bodies(seed: int, method: str) -> None:
    """Each text gives the same in own coordinates and in the common frame of the tree, whatever the joints."""
    of = random_mechanism("rigid", mixed(8, seed), seed).kinetree()
    frames = [of.bodies[-1].name, of.bodies[len(of.bodies) // 2].name, of.bodies[0].name]
    relative = kt.RelativeTask(frames[2], frames[0], (0, 4))
    made = of.tasks([kt.Task(frames[0]), relative, kt.Task(frames[1], "position"), kt.CenterOfMassTask()])
    recursions, q = made.core.recursions, of.random_configuration(seed)
    text = inverse_inertia(method, "local", recursions._parts)
    own, common = (run(one, of.mechanism, recursions.sites, [q])[0] for one in (text, in_common_frame(text)))
    expected = made.engine("reference").inverse_inertia(q)
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    for found in (own, common):
        assert_close(found, expected, tolerance, float(np.abs(expected).max()))


def test_propagators_take_more_operations_than_sums() -> None:
    """EFPA's way outward costs more than sums at nodes on the way inward."""
    of = kt.zoo.asimo35()
    sites = [of.site(frame) for frame in ("right_hand", "left_hand", "right_foot", "left_foot")]
    sums, propagators = (count(inverse_inertia(method, "local"), of.mechanism, sites) for method in ("pv_osim", "efpa"))
    assert (sums.multiplications, sums.additions) == (9748, 8555)
    assert propagators.total > 1.1 * sums.total


def planar() -> kt.Model:
    """A four-bar, whose loop has one row more than it needs, with a pen on its coupler."""
    builder = four_bar().connect("tip", "pin").independent("crank")
    return builder.add_frame("pen", body="coupler", placement=(np.eye(3), (0.4, 0.2, 0.0))).build(near=NEAR)


@pytest.mark.parametrize(
    ("make", "frame", "loops", "rank"),
    [
        (planar, "pen", [("tip", "pin")], 2),
        (lambda: built("stewart_pair"), "plate", [("a0", "b0"), ("a1", "b1")], 6),
    ],
    ids=["four-bar", "stewart pair"],
)
def test_closed_chains(make: Any, frame: str, loops: list[tuple[str, str]], rank: int) -> None:
    """[W12] §VI: Λ⁻¹ of a closed chain by embedding is that of the open tree, with loops as contacts eliminated."""
    of = make()
    q = of.neutral()
    held = of.spanning_tree.tasks([frame], contacts=[kt.RelativeTask(*ends, "position") for ends in loops])
    there = held.at(of.to_tree(q))
    assert there.contact_rank == rank
    tolerance = bound(of.nv, condition(of.spanning_tree.mass_matrix(of.to_tree(q))))
    assert_close(of.tasks([frame]).inverse_inertia(q), there.inverse_inertia, tolerance)
