"""Every row of "Coming from MuJoCo", executed: the code in the document against MuJoCo's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from tests.oracle import oracle
from tests.oracles.test_porting_numbers import Cases, Row, table
from tests.tolerance import Array, assert_close

mujoco = oracle("mujoco")
rollout = oracle("mujoco.rollout")

row = Cases("from_mujoco.md", "## Simulation")
functions = table("from_mujoco.md", "## Functions")
writers = table("from_mujoco.md", "MuJoCo writes to arrays that you pass")
pytestmark = pytest.mark.filterwarnings("ignore:.*does not model:kinetree.errors.ModelWarning")


DT = 1e-3
#: The names of methods that have a counterpart.
METHODS = {"semi_implicit_euler": "Euler", "rk4": "RK4"}


def arm(integrator: str = "Euler", joint: str = "", rest: str = "") -> str:
    """Two links, without contacts."""
    link = '<geom type="capsule" size=".04" fromto="0 0 0 .4 0 .1" mass="1"/>'
    return (
        f'<mujoco><compiler angle="radian"/><option timestep="{DT}" integrator="{integrator}">'
        '<flag contact="disable"/></option><worldbody>'
        f'<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" {joint}/>{link}'
        f'<body name="lower" pos=".4 0 .1"><joint name="elbow" axis="1 1 0" {joint}/>{link}</body></body></worldbody>'
        f'<actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>{rest}</mujoco>'
    )


#: A block that stands on the ground, and what makes a foot of it here.
BLOCK = (
    f'<mujoco><option timestep="{DT}"/><worldbody>{{ground}}<body name="foot" pos="0 0 {{height}}"><freejoint/>'
    '<geom type="box" size=".1 .05 .02" mass="2"/></body></worldbody></mujoco>'
)
CORNERS = np.array([[x, y, -0.02] for x in (-0.1, 0.1) for y in (-0.05, 0.05)])
PLANE = '<geom type="plane" size="1 1 .1"/>'
WEIGHT = 2.0 * 9.81


@cache
def pair(text: str) -> tuple[kt.Model, Any]:
    return kt.load(text, loops="ignore"), mujoco.MjModel.from_xml_string(text)


def state(model: Any) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    return (0.5 * rng.normal(size=(model.nv,)), rng.normal(size=model.nv), rng.normal(size=model.nv))


def stepped(model: Any, q: Array, v: Array, tau: Array, count: int = 1, push: Array | None = None) -> Any:
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    if model.nu:
        data.ctrl[:] = tau
    if push is not None:
        data.xfrc_applied[-1] = push
    for _ in range(count):
        mujoco.mj_step(model, data)
    return data


def simulator(r: Row, robot: kt.Model, which: int = 0, **more: Any) -> simulation.Simulator:
    """A simulator with the options that a row names, and others."""
    (named,) = re.fullmatch(r"Simulator\((.*)\)", r.code[which]).groups()  # type: ignore[union-attr]
    options = eval(f"dict({named.replace('=…', '=None')})")
    return simulation.Simulator(robot, **{**options, "dt": DT, **more})


@pytest.mark.parametrize("theirs", row.rows)
def test_rows(theirs: str) -> None:
    row.check(theirs)


def test_no_case_is_left_over() -> None:
    row.require_rows()


@row("`mj_step(model, data)`")
def _(r: Row) -> None:
    robot, model = pair(arm())
    q, v, tau = state(model)
    names = {"world": simulation.Simulator(robot, dt=DT, method="semi_implicit_euler"), "q": q, "v": v, "tau": tau}
    exec(r.code[0], names)
    theirs = stepped(model, q, v, tau)
    assert_close(names["q"], theirs.qpos, 1e-12)
    assert_close(names["v"], theirs.qvel, 1e-12)
    assert_close(names["info"].acceleration, (theirs.qvel - v) / DT, 1e-9)


@row("`mujoco.rollout.rollout(…)`")
def _(r: Row) -> None:
    robot, model = pair(arm())
    rng = np.random.default_rng(1)
    q, v, taus = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 20, 2))
    world = simulation.Simulator(robot, dt=DT, method="semi_implicit_euler")
    (found,) = r.run(world=world, q=q, v=v, taus=taus)
    start = np.concatenate([np.zeros((3, 1)), q, v], axis=1)
    theirs, _ = rollout.rollout(model, mujoco.MjData(model), start, taus)
    assert_close(found.q[..., -20:, :], theirs[..., 1:3], 1e-11)
    assert_close(found.v[..., -20:, :], theirs[..., 3:5], 1e-11)


def standing(r: Row, ground: Any, text: str, height: float, **options: Any) -> tuple[Any, Any]:
    """The block at rest on its ground in both, after half a second of MuJoCo's soft contacts."""
    robot, model = pair(BLOCK.format(ground=text, height=height))
    data = stepped(model, model.qpos0, np.zeros(6), np.zeros(0), 500)
    world = simulation.Simulator(robot, dt=DT, contacts=[simulation.Points("foot", CORNERS)], ground=ground, **options)
    q, v = robot.neutral(), np.zeros(6)
    q[2] = height
    for _ in range(20):
        q, v, info = world.step(q, v)
    assert_close(q[:3], data.qpos[:3], 1e-3, 1.0)  # soft contacts sink in
    return info, data


@row('`geom` of a foot and `<geom type="plane">`')
def _(r: Row) -> None:
    points, plane = r.run(simulation=simulation, corners=CORNERS)
    assert isinstance(points, simulation.Points)
    assert_close(np.asarray(points.positions), CORNERS, 0.0)
    info, data = standing(r, plane, PLANE, 0.02)
    assert_close(info.contact_forces.sum(axis=0), np.array([0.0, 0.0, WEIGHT]), 1e-6)
    assert info.penetration < 1e-6  # rigid
    assert 1e-6 < 0.02 - data.qpos[2] < 1e-2  # soft


@row('`<weld body1="a" body2="b">`')
def _(r: Row) -> None:
    robot, _ = pair(arm())
    text = arm(rest='<equality><weld body1="upper" body2="lower"/></equality>')
    model = mujoco.MjModel.from_xml_string(text)
    (weld,) = eval(f"[{r.code[0]}]".replace('"a"', '"upper"').replace('"b"', '"lower"'), {"kt": kt})
    q, v = np.array([0.3, 0.0]), np.array([0.5, 0.0])
    world = simulation.Simulator(robot, constraints=[weld], at=q, dt=DT)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    for _ in range(200):
        mujoco.mj_step(model, data)
        q, v, _ = world.step(q, v)
    assert abs(q[1]) < 1e-9
    assert 1e-9 < abs(data.qpos[1]) < 1e-2
    assert_close(q[0], data.qpos[0], 2e-2, 1.0)


@row("`data.qfrc_passive`")
def _(r: Row) -> None:
    robot, model = pair(arm(joint='damping="2"'))
    q, v, tau = state(model)
    data = stepped(model, q, v, tau)
    mujoco.mj_forward(model, (before := stepped(model, q, v, tau, 0)))
    assert_close(before.qfrc_passive, -2.0 * v, 1e-12)
    free = simulation.Simulator(robot, dt=DT).step(q, v, tau)[2].acceleration
    damped = simulator(r, robot).step(q, v, tau)[2].acceleration
    # passive forces are what differs
    assert_close(robot.mass_matrix(q) @ (damped - free), before.qfrc_passive, 1e-1)
    assert_close(damped, (data.qvel - v) / DT, 2e-2)


@row("`implicitfast`")
def _(_row: Row) -> None:
    """Dampers so strong that explicit steps would explode bring the joints to rest, in both alike."""
    robot, model = pair(arm("implicitfast", joint='damping="1e4"'))
    q, v, tau = state(model)
    data = stepped(model, q, v, tau, 10)
    world = simulation.Simulator(robot, dt=DT, damping=True)
    for _ in range(10):
        q, v, _ = world.step(q, v, tau)
    assert np.abs(data.qvel).max() < 1e-3
    assert_close(v, data.qvel, 1e-3)


@row("`<joint damping= frictionloss= range=>`")
def _(r: Row) -> None:
    robot, model = pair(arm(joint='damping=".5" frictionloss="3" range="-.2 .2"'))
    assert_close(np.concatenate([joint.damping for joint in robot.joints]), model.dof_damping, 0.0)
    assert_close(np.concatenate([joint.friction for joint in robot.joints]), model.dof_frictionloss, 0.0)
    assert_close(np.stack([robot.lower_limits, robot.upper_limits], axis=1), model.jnt_range, 0.0)
    world = simulator(r, robot)
    # pushed into its stop: hard here, soft there
    tau, q, v = np.array([60.0, 60.0]), np.zeros(2), np.zeros(2)
    data = stepped(model, q, v, tau, 400)
    for _ in range(400):
        q, v, info = world.step(q, v, tau)
    assert_close(q, np.full(2, 0.2), 1e-6)
    assert_close(data.qpos, np.full(2, 0.2), 0.2)
    assert (info.joint_forces < -10.0).all()
    assert (data.qfrc_constraint < -10.0).all()


@row("`<hfield>`")
def _(r: Row) -> None:
    heights, size = np.full((4, 5), 0.3), (2.0, 2.0)
    heights[0, 0] = 0.0  # somewhere else, so that it has a height at all in MuJoCo
    (ground,) = r.run(simulation=simulation, heights=heights, size=size)
    text = BLOCK.format(ground='<geom type="hfield" hfield="h"/>', height=0.32).replace(
        "<worldbody>", '<asset><hfield name="h" nrow="5" ncol="4" size="1 1 .3 .1"/></asset><worldbody>'
    )
    model = mujoco.MjModel.from_xml_string(text)
    model.hfield_data[:] = heights.T.ravel() / 0.3
    data = stepped(model, model.qpos0, np.zeros(6), np.zeros(0), 500)
    robot, _ = pair(BLOCK.format(ground=PLANE, height=0.32))
    world = simulation.Simulator(robot, dt=DT, contacts=[simulation.Points("foot", CORNERS)], ground=ground)
    q, v = robot.neutral(), np.zeros(6)
    q[2] = 0.32
    for _ in range(50):
        q, v, info = world.step(q, v)
    assert_close(q[2], data.qpos[2], 3e-3, 1.0)  # soft contacts sink in
    assert_close(info.contact_forces[:, 2].sum(), WEIGHT, 1e-4)


@row("`data.contact`, `mj_contactForce`")
def _(r: Row) -> None:
    info, data = standing(r, simulation.Plane(), PLANE, 0.02)
    model, total = pair(BLOCK.format(ground=PLANE, height=0.02))[1], np.zeros(3)
    for i in range(data.ncon):
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, i, force)
        total += data.contact[i].frame.reshape(3, 3).T @ force[:3]
    forces, depth, residual = r.run(info=info)
    assert_close(forces.sum(axis=0), total, 1e-2)
    assert depth < 1e-6
    assert residual < 1e-6


@row("`data.qfrc_constraint`")
def _(r: Row) -> None:
    """Held by a weld, and at a stop: both balance gravity and torques, by name and by joint."""
    tau, at = np.array([60.0, 60.0]), np.full(2, 0.2)
    for joint, rest, options in (
        ("", '<equality><weld body1="lower"/></equality>', {"constraints": [kt.Weld("lower")], "at": at}),
        ('range="-.2 .2"', "", {"limits": True}),
    ):
        robot, model = pair(arm(joint=joint, rest=rest))
        world, q, v = simulation.Simulator(robot, dt=DT, **options), at, np.zeros(2)
        for _ in range(3):
            q, v, info = world.step(q, v, tau)
        by_name, of_joints = r.run(info=info)
        found = of_joints if joint else robot.jacobian(q, "lower", "local_world_aligned").T @ by_name["lower"]
        assert_close(found, robot.gravity_forces(q) - tau, 1e-3 if joint else 1e-9)  # of a stop, the mean of a step
        if joint:
            assert_close(found, stepped(model, at, np.zeros(2), tau, 2000).qfrc_constraint, 1e-2)


@row("`option.integrator`, `option.timestep`")
def _(r: Row) -> None:
    for method, integrator in METHODS.items():
        robot, model = pair(arm(integrator))
        q, v, tau = state(model)
        world = simulator(r, robot, method=method, dt=float(model.opt.timestep))
        data = stepped(model, q, v, tau, 5)
        for _ in range(5):
            q, v, _ = world.step(q, v, tau)
        assert_close(q, data.qpos, 1e-11)
        assert_close(v, data.qvel, 1e-11)


@row("`option.iterations`, `data.qacc_warmstart`")
def _(r: Row) -> None:
    """Rounds end when all is solved, from nothing; MuJoCo needs more iterations without its last accelerations."""
    robot, model = pair(BLOCK.format(ground=PLANE, height=0.02))
    given = {"contacts": [simulation.Points("foot", CORNERS)], "ground": simulation.Plane()}
    world = simulator(r, robot, rounds=30, **given)
    q, v = robot.neutral(), np.zeros(6)
    q[2] = 0.02
    for _ in range(30):
        q, v, info = world.step(q, v)
        assert info.residual < 1e-9
    data = stepped(model, model.qpos0, np.zeros(6), np.zeros(0), 500)
    warm, start = data.solver_niter[0], data.qacc_warmstart.copy()
    data.qacc_warmstart[:] = 1e3
    mujoco.mj_forward(model, data)
    assert warm <= data.solver_niter[0]
    assert np.isfinite(start).all()


@row("`xfrc_applied`")
def _(r: Row) -> None:
    """MuJoCo's force acts at the centre of mass in world axes; here it acts on a frame, in its own axes."""
    robot, model = pair(arm())
    q, v, tau = state(model)
    push = np.array([1.0, 2.0, -3.0, 0.4, 0.5, -0.6])  # force first
    theirs = stepped(model, q, v, tau, push=push)
    pose = robot.pose(q, "lower")
    arm_ = model.body("lower").ipos
    R = pose[:3, :3]
    force, moment = R.T @ push[:3], R.T @ push[3:]
    wrench = np.concatenate([moment + np.cross(arm_, force), force])
    world = simulation.Simulator(robot, dt=DT, method="semi_implicit_euler")
    assert r.code == ['step(…, f_ext={"frame": wrench})']
    _, found, _ = world.step(q, v, tau, f_ext={"lower": wrench})
    assert_close(found, theirs.qvel, 1e-12)


@row("many `MjModel`s with other masses")
def _(r: Row) -> None:
    robot, model = pair(arm())
    q, v, tau = state(model)
    scales = np.array([0.5, 1.0, 2.0])
    parameters = scales[:, None, None] * robot.inertial_parameters
    (many,) = r.run(robot=robot, inertial_parameters=parameters, gravity=robot.gravity)
    found = simulation.Simulator(many, dt=DT, method="semi_implicit_euler").step(
        np.stack([q] * 3), np.stack([v] * 3), tau
    )
    for i, scale in enumerate(scales):
        other = mujoco.MjModel.from_xml_string(arm())
        other.body_mass[:] *= scale
        other.body_inertia[:] *= scale
        mujoco.mj_setConst(other, mujoco.MjData(other))
        assert_close(found[1][i], stepped(other, q, v, tau).qvel, 1e-11)


@pytest.mark.parametrize("theirs", functions)
def test_functions_as_they_stand(theirs: str) -> None:
    """Both cells, evaluated."""
    joint = 'damping=".5" frictionloss=".2" armature=".1" stiffness="3" springref=".4" range="-1 1"'
    text = arm(joint=joint, rest='<keyframe><key name="home" qpos="0.1 0.2"/></keyframe>')
    text = text.replace("</body></body>", '<site name="tip" pos="0.1 0.2 0.3"/></body></body>')
    robot, model = pair(text)
    q, v, _ = state(model)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    if "qacc" in theirs:
        model = mujoco.MjModel.from_xml_string(text)
        off = mujoco.mjtDisableBit
        model.opt.disableflags |= off.mjDSBL_SPRING | off.mjDSBL_DAMPER | off.mjDSBL_CONSTRAINT
    mujoco.mj_forward(model, data)
    tau = np.zeros(2)
    a = np.array([0.3, -0.7])
    if "inverse" in theirs:
        data.qacc[:] = a
        model = mujoco.MjModel.from_xml_string(text)
        off = mujoco.mjtDisableBit
        model.opt.disableflags |= off.mjDSBL_SPRING | off.mjDSBL_DAMPER | off.mjDSBL_CONSTRAINT
        mujoco.mj_inverse(model, data)
    expected = np.array(eval(theirs.strip("`"), {"model": model, "data": data}), dtype=float)
    (found,) = functions[theirs].run(robot=robot, q=q, v=v, a=a, tau=tau)
    assert_close(np.asarray(found, dtype=float), expected, 1e-10)


@pytest.mark.parametrize("theirs", writers)
def test_functions_that_write(theirs: str) -> None:
    """MuJoCo's call, then the array that it wrote to, against Kinetree's result."""
    text = arm(joint='armature=".1"').replace("</body></body>", '<site name="tip" pos=".1 .2 .3"/></body></body>')
    robot, model = pair(text)
    q, v, p = state(model)
    data = stepped(model, q, v, np.zeros(2), 0)
    mujoco.mj_forward(model, data)
    ours = {"robot": robot, "q": q, "v": v, "p": p.copy(), "dt": DT}
    names = {
        "mujoco": mujoco, "model": model, "data": data, "M": np.zeros((2, 2)), "J": np.zeros((6, 2)), "y": np.zeros(2),
        "x": np.zeros((1, 2)), "twist": np.zeros(6), "SITE": mujoco.mjtObj.mjOBJ_SITE, "site": model.site("tip").id,
        "body": model.body("lower").id, "q": q, "v": v, "p": q.copy() if "integrate" in theirs else p, "dt": DT,
    }  # fmt: skip
    exec(theirs.strip("`"), names)
    result, code = writers[theirs].code
    assert_close(eval(code, ours), np.asarray(eval(result, names)), 1e-12)
