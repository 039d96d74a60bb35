"""Mechanisms with loops and couplings: recorded results of independent programs, Pinocchio and MuJoCo.

Equality constraints of MJCF files, embedded and with multipliers, against MuJoCo's residuals, Jacobians and masses.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning
from tests.mechanisms import built, positions, recorded
from tests.oracle import oracle
from tests.tolerance import assert_close, refused

TOLERANCE = 1e-11


def arranged(one: Any, robot: kt.Model) -> tuple[list[int], list[int]]:
    """Places of the robot's independent velocities, and of its joint velocities, in the records."""
    order = [tuple(rate) for rate in one["independent_order"]]
    mine = []
    starts, start = {}, 0
    for body in one["bodies"]:
        starts[body["name"]] = start
        start += 6 if body["joint"] == "floating" else 1
    rows = []
    for joint in robot.joints:
        rows += [starts[joint.child] + i for i in range(joint.type.nv)]
        if not joint.coupled:
            free = range(joint.type.nv) if joint.independent is None else joint.independent
            mine += [order.index((joint.child, i)) for i in free]
    return mine, rows


@pytest.mark.parametrize("name", list(recorded()))
def test_recorded_results(name: str) -> None:
    one, robot = recorded()[name], built(name)
    assert sorted(sorted(cluster.bodies) for cluster in robot.clusters) == sorted(map(sorted, one["clusters"]))
    columns, rows = arranged(one, robot)
    q = robot.q_from_dict(positions(one))
    v, tau = (np.array(one["state"][name])[columns] for name in ("v", "tau"))
    expected = one["reference"]
    a = np.array(expected["a"])[columns]
    for engine in ("reference", "native"):
        assert_close(robot.forward_dynamics.engine(engine)(q, v, tau), a, TOLERANCE)
        assert_close(robot.bias_forces.engine(engine)(q, v), np.array(expected["bias"])[columns], TOLERANCE)
        assert_close(robot.mass_matrix_log_determinant.engine(engine)(q), expected["log_det"], TOLERANCE)
    assert_close(robot.inverse_dynamics.engine("reference")(q, v, a), tau, 1e-9)
    if "M" not in expected:
        return
    M, G = np.array(expected["M"])[np.ix_(columns, columns)], np.array(expected["G"])[np.ix_(rows, columns)]
    for engine in ("reference", "native"):
        assert_close(robot.mass_matrix.engine(engine)(q), M, TOLERANCE)
        assert_close(robot.coupling.engine(engine)(q), G, TOLERANCE)
        drift = robot.joint_accelerations.engine(engine)(q, v, np.zeros(robot.nv))
        assert_close(drift, np.array(expected["g"])[rows], TOLERANCE)


def constrained(one: Any, names: list[str]) -> tuple[Any, Any, list[Any]]:
    """The mechanism in Pinocchio, joints depth first, with its loops as 3D contacts."""
    pin = oracle("pinocchio")
    model, numbers = pin.Model(), {"world": 0}
    model.gravity.linear = np.array(one["gravity"])
    bodies = {body["name"]: body for body in one["bodies"]}
    for name in names:
        body = bodies[name]
        kinds = {"revolute": pin.JointModelRevoluteUnaligned, "prismatic": pin.JointModelPrismaticUnaligned}
        joint = (
            pin.JointModelFreeFlyer() if body["joint"] == "floating" else kinds[body["joint"]](np.array(body["axis"]))
        )
        at = pin.SE3(np.array(body["R"]), np.array(body["p"]))
        numbers[name] = model.addJoint(numbers[body["parent"]], joint, at, f"{name}_joint")
        inertia = pin.Inertia(body["mass"], np.array(body["com"]), np.array(body["inertia"]))
        model.appendBodyToJoint(numbers[name], inertia, pin.SE3.Identity())
    loops = []
    for c in one["constraints"]:
        ends = [(numbers[c[end]], pin.SE3(np.eye(3), np.array(c[point]))) for end, point in (("a", "pa"), ("b", "pb"))]
        loops.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends[0], *ends[1]))
    return pin, model, loops


@pytest.mark.parametrize(
    "name", ["four_bar", "four_bar_on_base", "slider_crank_on_base", "parallel_ankle", "stewart_pair"]
)
def test_forward_dynamics_agree_with_constrained_dynamics_of_pinocchio(name: str) -> None:
    one, robot = recorded()[name], built(name)
    names = [body.name for body in robot.bodies]  # depth first, without which Pinocchio is wrong
    pin, model, loops = constrained(one, names)
    other = kt.interop.pinocchio(robot.spanning_tree, model)
    rng = np.random.default_rng(3)
    q, v = robot.neutral(), rng.normal(size=robot.nv)
    forces = rng.normal(size=robot.mechanism.joint_starts[-1])
    order = robot.tree_order
    rates = robot.joint_rates(q, v)
    data, parts = model.createData(), [loop.createData() for loop in loops]
    pin.initConstraintDynamics(model, data, loops, parts)
    settings = pin.ProximalSettings(1e-14, 1e-12, 20)
    state = other.to_q(robot.to_tree(q)), other.to_v(rates[order]), other.to_tau(forces[order])
    theirs = other.from_a(pin.constraintDynamics(model, data, *state, loops, parts, settings))
    a = robot.forward_dynamics(q, v, robot.joint_forces(q, forces))
    assert_close(robot.joint_accelerations(q, v, a)[order], theirs, 1e-8)


mujoco = oracle("mujoco")

SOLID = '<inertial pos=".1 .02 0" mass="1" diaginertia=".01 .02 .02"/>'
#: A four-bar closed by a connection, on its coupler a hinge and a slide tied by a quartic, all with references; a weld
#: that closes another loop; a joint that is held.
FILE = f"""<mujoco><compiler angle="radian" autolimits="true"/><worldbody>
<body name="crank"><joint name="crank" axis="0 0 1" ref=".2"/>{SOLID}
 <body name="coupler" pos=".3 0 0"><joint name="coupler" axis="0 0 1"/>{SOLID}
  <body name="wheel" pos=".2 .1 0"><joint name="wheel" axis="1 0 0" ref="-.3"/>{SOLID}</body>
  <body name="lift" pos=".4 0 .1"><joint name="lift" type="slide" axis="0 0 1" ref=".1"/>{SOLID}</body></body></body>
<body name="rocker" pos="1 0 0"><joint name="rocker" axis="0 0 1"/>{SOLID}
 <body name="held" pos="0 0 .2"><joint name="held" axis="0 1 0" ref=".4"/>{SOLID}</body></body>
<body name="left" pos="0 2 0"><joint name="left" axis="0 0 1"/>{SOLID}
 <body name="half" pos=".5 0 0"><joint name="half" axis="0 0 1"/>{SOLID}</body></body>
<body name="right" pos="1 2 0"><joint name="right" axis="0 0 1"/>{SOLID}
 <body name="other" pos=".4 0 0"><joint name="other" axis="0 0 1"/>{SOLID}</body></body>
</worldbody><equality>
<connect name="pin" body1="coupler" body2="rocker" anchor=".9 0 0"/>
<joint name="cam" joint1="lift" joint2="wheel" polycoef=".05 .2 .3 0 .1"/>
<joint joint1="held" polycoef=".3 0 0 0 0"/>
<weld body1="half" body2="other" relpose=".3 0 0 1 0 0 0"/>
<joint joint1="crank" joint2="wheel" active="false"/>
</equality><keyframe><key qpos=".9 -.3 0 .1 1.2 .4 1 -1.2 1.9 1.3"/></keyframe></mujoco>"""


def quiet(text: str, **options: Any) -> kt.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return kt.load(text, **options)


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return quiet(FILE, loops="embed")


def at(robot: kt.Model, model: Any, q: Any, rates: Any) -> Any:
    """MuJoCo's data at a state of ours."""
    data = mujoco.MjData(model)
    by_name = robot.q_to_dict(q)
    for joint, rate in zip(robot.joints, rates, strict=True):
        data.qpos[model.joint(joint.name).qposadr[0]] = by_name[joint.name]
        data.qvel[model.joint(joint.name).dofadr[0]] = rate
    data.qpos[model.joint("held").qposadr[0]] = 0.7
    mujoco.mj_forward(model, data)
    return data


def test_constraints_are_those_of_mujoco(robot: kt.Model) -> None:
    model = mujoco.MjModel.from_xml_string(FILE)
    rng = np.random.default_rng(0)
    q = robot.integrate(robot.neutral(), 0.05 * rng.normal(size=robot.nv))
    v = rng.normal(size=robot.nv)
    rates = robot.joint_rates(q, v)
    data = at(robot, model, q, rates)
    equal = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    assert equal.sum() == 3 + 1 + 1 + 6
    assert np.abs(data.efc_pos[equal]).max() < 1e-12
    J = data.efc_J.reshape(-1, model.nv)[equal]
    G = np.zeros((model.nv, robot.nv))
    for row, joint in zip(robot.coupling(q), robot.joints, strict=True):
        G[model.joint(joint.name).dofadr[0]] = row
    assert_close(J @ G, np.zeros((11, robot.nv)), 1e-12)
    assert robot.nv == model.nv - np.linalg.matrix_rank(J)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    assert_close(robot.mass_matrix(q), G.T @ M @ G, 1e-12)
    # loops start from the keyframe, not from the reference
    assert abs(robot.q_to_dict(robot.neutral())["crank"] - 0.9) < 0.3  # the reference is 0.2


def test_what_is_soft_there_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "kinetree"):
        kt.load(FILE)
    assert "slack of equality constraints, which hold exactly here (4)" in caplog.text
    assert "equality constraints that are inactive (1)" in caplog.text
    with pytest.warns(ModelWarning, match=r"equality constraints, left out.*\(5\)"):
        assert kt.load(FILE, loops="ignore").nv == 10


def test_compiled_models_can_be_embedded_too(robot: kt.Model) -> None:
    model = mujoco.MjModel.from_xml_string(FILE)
    other = kt.from_mujoco(model)
    assert other.nv == robot.nv
    assert_close(other.neutral(), robot.neutral(), 1e-12)
    with pytest.raises(InputError, match="loops='soft' is not known; choose one of 'embed', 'multipliers', 'ignore'"):
        kt.from_mujoco(model, loops="soft")


def test_sites_can_be_tied() -> None:
    text = FILE.replace('<connect name="pin" body1="coupler" body2="rocker" anchor=".9 0 0"/>', "").replace(
        "<weld", '<connect site1="s1" site2="s2"/><weld'
    )
    text = text.replace('<body name="wheel"', '<site name="s1" pos=".9 0 0"/><body name="wheel"')
    text = text.replace('<body name="held"', '<site name="s2" pos=".7 0 0"/><body name="held"')
    tied = quiet(text, loops="embed")
    q = tied.neutral()
    assert_close(tied.pose(q, "s1")[:3, 3], tied.pose(q, "s2")[:3, 3], 1e-12)


def test_what_cannot_be_embedded_is_refused() -> None:
    tendon = FILE.replace("</equality>", '<tendon tendon1="t"/></equality>')
    with pytest.raises(
        LoadError, match=":18: equality constraint '<tendon>' has no exact counterpart; delete it, or load"
    ):
        quiet(tendon, loops="embed")
    refused("loops='soft' is not known; choose one of 'embed', 'multipliers', 'ignore'", kt.load, FILE, loops="soft")
    apart = FILE.replace('anchor=".9 0 0"', 'anchor="9 0 0"')
    assert quiet(apart, loops="embed").nv == quiet(FILE, loops="embed").nv  # anchors coincide at the reference


def test_multipliers_agree_with_embedding_and_with_the_rows_of_mujoco(robot: kt.Model) -> None:
    """Open tree and constraint forces: the same accelerations, and rows that span those of MuJoCo."""
    tree = quiet(FILE, loops="multipliers")
    assert tree.nv == 10
    assert len(tree.equalities) == 4
    rng, order = np.random.default_rng(5), robot.tree_order
    q, v, forces = robot.neutral(), rng.normal(size=robot.nv), rng.normal(size=len(order))
    a = robot.joint_accelerations(q, v, robot.forward_dynamics(q, v, robot.joint_forces(q, forces)))
    names = [joint.name for joint in robot.joints]
    _, into = tree.joint_indices(names)  # the joint that is held is not among them
    state = np.zeros(tree.nq), np.zeros(tree.nv), np.zeros(tree.nv)
    values = {**robot.q_to_dict(q), "held": 0.7}
    state[0][:] = tree.q_from_dict(values)
    for array, given in zip(state[1:], (robot.joint_rates(q, v), forces), strict=True):
        array[into] = given
    found = tree.constrained_dynamics(*state, tree.equalities)
    assert_close(found.acceleration[into], a, 1e-10)
    assert abs(found.acceleration[tree.joint("held").v_slice]) < 1e-12
    held = tree.constraints(tree.equalities)
    assert np.abs(held.error(state[0])).max() < 1e-12
    model = mujoco.MjModel.from_xml_string(FILE)
    data = at(robot, model, q, robot.joint_rates(q, v))
    theirs = data.efc_J.reshape(data.nefc, model.nv)[: data.ne]
    columns = [model.joint(joint.name).dofadr[0] for joint in tree.joints]
    ours, theirs = held.jacobian(state[0]), theirs[:, columns]
    both = np.concatenate([ours, theirs])
    ranks = [np.linalg.matrix_rank(rows, 1e-9) for rows in (ours, theirs, both)]
    assert ranks[0] == ranks[1] == ranks[2] == tree.nv - robot.nv
