"""Every row of both tables of "Converting numbers", executed against Pinocchio and MuJoCo."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.oracle import oracle
from tests.oracles.pinocchio_twin import mirrored
from tests.tolerance import assert_close

DOCS = Path(__file__).parents[2] / "docs"

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A row; the other library's cell names it."""

    theirs: str
    cells: tuple[str, ...]

    @property
    def code(self) -> list[str]:
        """The code in Kinetree's cells."""
        return [code for cell in self.cells[1:] for code in _CODE.findall(cell)]

    def run(self, **names: Any) -> list[Any]:
        """Kinetree's code as it stands, evaluated one by one."""
        return [eval(code, names) for code in self.code]


Case = Callable[[Row], None]


def table(document: str, heading: str) -> dict[str, Row]:
    """The rows of the first table below a heading that has this text, by the other library's cell."""
    lines = (DOCS / document).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if heading in line)
    first = next(i for i in range(start, len(lines)) if lines[i].startswith("|"))
    found = {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        found[cells[0]] = Row(cells[0], cells)
    return found


class Cases:
    """The checks of a table, the first one below a heading of a document, one for each row."""

    def __init__(self, document: str, heading: str) -> None:
        self.rows, self.known = table(document, heading), dict[str, Case]()

    def __call__(self, theirs: str) -> Callable[[Case], Case]:
        """Declare the check of a row."""

        def declare(case: Case) -> Case:
            assert theirs not in self.known, f"two cases for {theirs}"
            self.known[theirs] = case
            return case

        return declare

    def check(self, theirs: str) -> None:
        """Run the check of a row; there must be one."""
        assert theirs in self.known, f"no case for the row {theirs!r}: write one"
        self.known[theirs](self.rows[theirs])

    def require_rows(self) -> None:
        """Every check belongs to a row."""
        assert set(self.known) == set(self.rows), set(self.known) ^ set(self.rows)


pin, mujoco = oracle("pinocchio"), oracle("mujoco")

orders = Cases("loading.md", "## Converting numbers")
conversions = Cases("loading.md", "only one; robots that do not match are rejected")
pytestmark = pytest.mark.filterwarnings("ignore:.*does not model:kinetree.errors.ModelWarning")

TOLERANCE = 1e-11
LWA = "local_world_aligned"
SOLID = '<inertial><mass value="1"/><inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/></inertial>'
#: A floating base with two limbs, whose names are in another order than the file; the first turns without limits.
URDF = (
    f'<robot name="r"><link name="base">{SOLID}</link><link name="b">{SOLID}</link><link name="a">{SOLID}</link>'
    '<joint name="b" type="continuous"><parent link="base"/><child link="b"/><origin xyz=".1 0 .2"/><axis xyz="0 0 1"/>'
    '</joint><joint name="a" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 .3 .1"/>'
    '<axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>'
)
SOLID_MJCF = '<inertial pos="0 0 0" mass="1" diaginertia=".02 .03 .04"/>'
MJCF = (
    f'<mujoco><worldbody><body name="base"><freejoint name="root_joint"/>{SOLID_MJCF}'
    f'<body name="b" pos=".1 0 .2"><joint name="b" axis="0 0 1"/>{SOLID_MJCF}</body>'
    f'<body name="a" pos="0 .3 .1"><joint name="a" axis="1 0 0"/>{SOLID_MJCF}</body></body></worldbody></mujoco>'
)


@cache
def both() -> tuple[SimpleNamespace, SimpleNamespace]:
    """The robot and its counterparts: Pinocchio's and MuJoCo's."""
    robot = kt.load(URDF, floating_base=True)
    rng = np.random.default_rng(0)
    given = {"q": robot.random_configuration(rng), "robot": robot}
    given |= dict(zip(("v", "a", "tau"), rng.normal(size=(3, robot.nv))))
    model = pin.buildModelFromXML(URDF, pin.JointModelFreeFlyer())
    theirs = mujoco.MjModel.from_xml_string(MJCF)
    return (
        SimpleNamespace(model=model, data=model.createData(), other=kt.interop.pinocchio(robot, model), **given),
        SimpleNamespace(model=theirs, data=mujoco.MjData(theirs), other=kt.interop.mujoco(robot, theirs), **given),
    )


def convert(r: Row, s: SimpleNamespace, cell: int, **names: Any) -> list[Any]:
    """The conversions in one column of a row, as they stand."""
    code = Row("", ("", r.cells[cell])).code
    known = {"q": s.q, "v": s.v, "other": s.other, **names}
    return [eval(f"other.{each}", known) for each in code]


def at(s: SimpleNamespace) -> Any:
    """MuJoCo's data in the state."""
    s.data.qpos[:], s.data.qvel[:] = s.other.to_q(s.q), s.other.to_v(s.v, s.q)
    s.data.qacc[:] = s.other.to_a(s.a, s.v, s.q)
    mujoco.mj_inverse(s.model, s.data)
    return s.data


@pytest.mark.parametrize("row", orders.rows)
def test_orders(row: str) -> None:
    orders.check(row)


@pytest.mark.parametrize("row", conversions.rows)
def test_conversions(row: str) -> None:
    conversions.check(row)


def test_no_case_is_left_over() -> None:
    orders.require_rows()
    conversions.require_rows()


@orders("joints")
def _(_row: Row) -> None:
    one, two = both()
    assert [joint.name for joint in one.robot.joints] == ["root_joint", "b", "a"]
    assert list(one.model.names)[2:] == ["a", "b"]
    assert [two.model.joint(i).name for i in range(3)] == ["root_joint", "b", "a"]


@orders("quaternion")
def _(_row: Row) -> None:
    one, two = both()
    w, *xyz = one.q[3:7].tolist()
    assert_close(one.other.to_q(one.q)[3:7], np.array([*xyz, w]), 0.0)
    assert_close(two.other.to_q(one.q)[3:7], np.array([w, *xyz]), 0.0)


@orders("unlimited angle")
def _(_row: Row) -> None:
    one, two = both()
    joint = one.robot.joint("b")
    (angle,) = one.q[joint.q_slice]
    number = one.model.getJointId("b")
    start = one.model.joints[number].idx_q
    assert one.model.joints[number].nq == 2
    assert_close(one.other.to_q(one.q)[start : start + 2], np.array([np.cos(angle), np.sin(angle)]), 1e-15)
    assert_close(two.other.to_q(one.q)[int(two.model.joint("b").qposadr[0])], angle, 0.0)


@orders("floating `v`")
def _(_row: Row) -> None:
    one, two = both()
    angular, linear = one.v[:3], one.v[3:6]
    R = one.robot.pose(one.q, "base")[:3, :3]
    assert_close(one.other.to_v(one.v)[:6], np.concatenate([linear, angular]), 0.0)
    assert_close(two.other.to_v(one.v, one.q)[:6], np.concatenate([R @ linear, angular]), 1e-15)


@orders("twists, wrenches, Jacobian rows")
def _(_row: Row) -> None:
    one, two = both()
    x = np.arange(6.0)
    assert_close(one.other.to_spatial(x), x[[3, 4, 5, 0, 1, 2]], 0.0)
    data, parts = at(two), np.zeros((2, 3, two.model.nv))
    mujoco.mj_jacBody(two.model, data, parts[0], parts[1], two.model.body("a").id)
    ours = two.other.to_jacobian(one.robot.jacobian(one.q, "a", LWA), one.q)
    assert_close(ours[:3], parts[0], TOLERANCE)
    assert_close(ours[3:], parts[1], TOLERANCE)


@conversions("`to_q(q)`")
def _(r: Row) -> None:
    for s in both():
        (there,) = convert(r, s, 0)
        (back,) = convert(r, s, 1, q=there)
        assert_close(s.robot.difference(back, s.q), np.zeros(s.robot.nv), 1e-14, 1.0)
    one, two = both()
    pin.framesForwardKinematics(one.model, one.data, one.other.to_q(one.q))
    for frame in ("a", "b"):
        pose = one.robot.pose(one.q, frame)
        assert_close(one.data.oMf[one.other.frame_id(frame)].homogeneous, pose, TOLERANCE)
        assert_close(at(two).body(frame).xpos, pose[:3, 3], TOLERANCE)


@conversions("`to_v(v, q)`, `to_tau(tau, q)`")
def _(r: Row) -> None:
    for s in both():
        v, tau = convert(r, s, 0, tau=s.tau)
        back = convert(r, s, 1, v=v, tau=tau)
        assert_close(back[0], s.v, 1e-14)
        assert_close(back[1], s.tau, 1e-14)
        assert_close(v @ tau, s.v @ s.tau, 1e-14)  # power
    one, two = both()
    full = one.robot.inverse_dynamics(one.q, one.v, one.a)
    state = one.other.to_q(one.q), one.other.to_v(one.v), one.other.to_a(one.a)
    assert_close(one.other.to_tau(full), pin.rnea(one.model, one.data, *state), TOLERANCE)
    assert_close(two.other.to_tau(full, two.q), at(two).qfrc_inverse, TOLERANCE)


@conversions("`to_a(a, v, q)`")
def _(r: Row) -> None:
    for s in both():
        (a,) = convert(r, s, 0, a=s.a)
        (back,) = convert(r, s, 1, a=a)
        assert_close(back, s.a, 1e-13)
    one, two = both()
    tau = one.robot.inverse_dynamics(one.q, one.v, one.a)
    state = one.other.to_q(one.q), one.other.to_v(one.v), one.other.to_tau(tau)
    assert_close(convert(r, one, 0, a=one.a)[0], pin.aba(one.model, one.data, *state), 1e-9)
    data = at(two)
    data.qfrc_applied[:] = two.other.to_tau(tau, two.q)
    mujoco.mj_forward(two.model, data)
    assert_close(convert(r, two, 0, a=two.a)[0], data.qacc, 1e-9)
    data.qfrc_applied[:] = 0.0


@conversions("`to_matrix(M, q)`")
def _(r: Row) -> None:
    M = both()[0].robot.mass_matrix(both()[0].q)
    one, two = both()
    there = [convert(r, s, 0, M=M)[0] for s in both()]
    for s, matrix in zip(both(), there, strict=True):
        assert_close(convert(r, s, 1, M=matrix)[0], M, 1e-13)
    assert_close(there[0], mirrored(pin.crba(one.model, one.data, one.other.to_q(one.q))), TOLERANCE)
    full = np.zeros((two.model.nv, two.model.nv))
    mujoco.mj_fullM(two.model, at(two), full)
    assert_close(there[1], full, TOLERANCE)


@conversions("`to_jacobian(J, q)`")
def _(r: Row) -> None:
    one, two = both()
    J = one.robot.jacobian(one.q, "a", LWA)
    there = [convert(r, s, 0, J=J)[0] for s in both()]
    for s, matrix in zip(both(), there, strict=True):
        assert_close(convert(r, s, 1, J=matrix)[0], J, 1e-14)
    frame = one.other.frame_id("a")
    theirs = pin.computeFrameJacobian(one.model, one.data, one.other.to_q(one.q), frame, pin.LOCAL_WORLD_ALIGNED)
    assert_close(there[0], theirs, TOLERANCE)
    parts = np.zeros((2, 3, two.model.nv))
    mujoco.mj_jacBody(two.model, at(two), parts[0], parts[1], two.model.body("a").id)
    assert_close(there[1], np.concatenate(parts), TOLERANCE)


@conversions("`to_spatial(x)`")
def _(r: Row) -> None:
    one, two = both()
    twist = one.robot.velocity(one.q, one.v, "a", LWA)
    for s in both():
        (there,) = convert(r, s, 0, x=twist)
        assert_close(convert(r, s, 1, x=there)[0], twist, 0.0)
    pin.forwardKinematics(one.model, one.data, one.other.to_q(one.q), one.other.to_v(one.v))
    pin.updateFramePlacements(one.model, one.data)
    frame = one.other.frame_id("a")
    found = pin.getFrameVelocity(one.model, one.data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    assert_close(convert(r, one, 0, x=twist)[0], found, TOLERANCE)
    speed = np.zeros(6)  # angular part first, as ours
    mujoco.mj_objectVelocity(two.model, at(two), mujoco.mjtObj.mjOBJ_XBODY, two.model.body("a").id, speed, 0)
    assert_close(twist, speed, TOLERANCE)


@conversions("`bias_forces(q, v)`")
def _(r: Row) -> None:
    one, two = both()
    expected = pin.nonLinearEffects(one.model, one.data, one.other.to_q(one.q), one.other.to_v(one.v))
    assert_close(convert(r, one, 0)[0], expected, TOLERANCE)
    assert_close(convert(r, two, 0)[0], at(two).qfrc_bias, TOLERANCE)


@conversions("`frame_id(name)`")
def _(r: Row) -> None:
    one, two = both()
    pin.framesForwardKinematics(one.model, one.data, one.other.to_q(one.q))
    at(two)
    assert one.model.frames[convert(r, one, 0, name="a")[0]].name == "a"
    assert convert(r, two, 0, name="a")[0] == ("body", two.model.body("a").id)
    for s in both():
        (poses,) = convert(r, s, 1, data=s.data)
        assert_close(poses, s.robot.pose(s.q, s.other.frames), TOLERANCE)
