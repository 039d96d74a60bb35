"""Random trees with random loops and couplings: forward dynamics against dense equations with multipliers.

The oracle knows only the open tree: its mass matrix, bias, Jacobians and their drift.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.tolerance import assert_close

KINDS = ("revolute", "prismatic", "universal", "spherical", "cylindrical", "revolute", "planar", "helical", "fixed")


def tree(rng: np.random.Generator, count: int) -> tuple[kt.Builder, list[str]]:
    """A random tree on a floating base, with fixed bodies among the others."""
    builder = kt.Builder("random", gravity=rng.normal(size=3) * 5.0)
    names = ["base"]
    builder.add_body(
        "base", joint="floating", mass=3.0, com=rng.normal(size=3) * 0.1, inertia=np.diag([0.2, 0.3, 0.25])
    )
    for i in range(count):
        kind = str(rng.choice(KINDS))
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        R *= np.sign(np.linalg.det(R))
        settings: dict[str, Any] = {"pitch": 0.1} if kind == "helical" else {}
        if kind in ("revolute", "prismatic", "helical", "cylindrical", "planar"):
            settings["axis"] = rng.normal(size=3)
        if kind in ("revolute", "prismatic") and rng.random() < 0.5:
            settings["armature"] = 0.1
        at, com = (R, rng.normal(size=3) * 0.3), rng.normal(size=3) * 0.1
        parent = names[int(rng.integers(len(names)))]
        name = f"{kind}{i}"
        builder.add_body(name, parent=parent, joint=kind, placement=at, mass=1.0, com=com, inertia=np.diag(
            rng.uniform(0.05, 0.09, 3)), **settings)  # fmt: skip
        names.append(name)
    return builder, names


def closed(seed: int) -> tuple[kt.Model, list[tuple[str, str]], list[tuple[str, str, float]]] | None:
    """A robot with loops that close at a random configuration, the frames they join, and its couplings."""
    rng = np.random.default_rng(seed)
    builder, names = tree(rng, int(rng.integers(5, 9)))
    free = builder.build()
    q = free.random_configuration(rng)
    loops, couplings = [], []
    for i in range(int(rng.integers(1, 3))):
        a, b = (str(name) for name in rng.choice([*names, "world"], 2, replace=False))
        # one point of space, seen from both bodies
        point = np.append(free.pose(q, a)[:3, 3] + 0.2 * rng.normal(size=3), 1.0)
        for end, body in (("a", a), ("b", b)):
            place = (np.linalg.inv(free.pose(q, body)) @ point)[:3]
            builder.add_frame(f"{end}{i}", body=body, placement=(np.eye(3), place))
        builder.connect(f"a{i}", f"b{i}")
        loops.append((f"a{i}", f"b{i}"))
    single = [joint.name for joint in free.joints if joint.type.nq == joint.type.nv == 1]
    if len(single) >= 2:
        follower, leader = (str(name) for name in rng.choice(single, 2, replace=False))
        values = free.q_to_dict(q)
        offset = float(values[follower] - 1.7 * values[leader])
        builder.couple(follower, to=leader, ratio=1.7, offset=offset)
        couplings.append((follower, leader, 1.7))
    try:
        return builder.build(near=free.q_to_dict(q)), loops, couplings
    except kt.errors.ModelError as error:
        if "same body" in str(error) or "freedom" in str(error):
            return None
        raise


@pytest.mark.parametrize("seed", range(10))
def test_dynamics_with_multipliers(seed: int) -> None:
    made = closed(seed)
    if made is None:
        return  # a loop inside one body, or one that holds everything
    robot, loops, couplings = made
    if any(loop.singular or loop.condition > 1e4 for loop in robot.loops(robot.neutral())):
        return
    rng = np.random.default_rng(seed)
    q, v, tau = robot.neutral(), *rng.normal(size=(2, robot.nv))
    open_, order = robot.spanning_tree, robot.tree_order
    q_t, rates = robot.to_tree(q), robot.joint_rates.engine("reference")(q, v)[order]
    of = {name: getattr(open_, name).engine("reference") for name in ("mass_matrix", "bias_forces", "jacobian_dot_v")}
    rows, drift = [], []
    for ends in loops:
        J = open_.jacobian.engine("reference")(q_t, ends, reference="local_world_aligned")[:, 3:]
        k = of["jacobian_dot_v"](q_t, rates, ends, reference="local_world_aligned")[:, 3:]
        rows.append(J[0] - J[1])
        drift.append(k[0] - k[1])
    for follower, leader, ratio in couplings:
        row = np.zeros((1, open_.nv))
        row[0, open_.joint(follower).v_start], row[0, open_.joint(leader).v_start] = 1.0, -ratio
        rows.append(row)
        drift.append(np.zeros(1))
    K, k = np.concatenate(rows), np.concatenate(drift)
    assert_close(K @ rates, np.zeros(len(K)), 1e-9, scale=float(np.abs(rates).max()))
    M, h = of["mass_matrix"](q_t), of["bias_forces"](q_t, rates)
    G = robot.coupling.engine("reference")(q)[order]
    # forces of the independent joints act on themselves
    applied = np.linalg.lstsq(G.T, tau, rcond=None)[0]
    inverse = np.linalg.inv(M)
    lam = np.linalg.lstsq(K @ inverse @ K.T, -(K @ inverse @ (applied - h) + k), rcond=1e-10)[0]
    expected = inverse @ (applied - h + K.T @ lam)
    a = robot.forward_dynamics.engine("reference")(q, v, tau)
    found = robot.joint_accelerations.engine("reference")(q, v, a)[order]
    assert_close(found, expected, 1e-7)
    assert_close(robot.inverse_dynamics.engine("reference")(q, v, a), tau, 1e-8, scale=float(np.abs(tau).max()) + 10.0)
