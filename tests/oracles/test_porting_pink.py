"""Every row of "Coming from pink and mink", executed: the code in the document against theirs, on one arm."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import control
from kinetree.errors import ModelWarning
from tests.oracle import oracle
from tests.oracles.test_porting_numbers import Cases, Row, table
from tests.tolerance import Array, assert_close

pin, mujoco = oracle("pinocchio"), oracle("mujoco")
pink, mink = oracle("pink"), oracle("mink")

row = Cases("from_pink.md", "## What is called what")
tables = {"pink": table("from_pink.md", "## pink"), "mink": table("from_pink.md", "## mink")}
DT = 0.01
COST = 0.1  # of the posture


@cache
def arm() -> kt.Model:
    robot = kt.zoo.arm7()
    return robot.with_frame("tool", "hand", (0.0, 0.02, 0.1)).with_keyframe("home", np.full(7, 0.3))


@cache
def ours() -> dict[str, Any]:
    """The names that the document uses."""
    robot, rng = arm(), np.random.default_rng(0)
    q, posture = 0.7 * rng.standard_normal((2, 7))
    target = q + 0.05 * rng.standard_normal(7)
    tool = robot.pose(target, "tool")
    ik = control.DifferentialIK(robot, ["tool"], posture=posture, posture_weight=COST, damping=0.0, error="log6")
    return {
        "kt": kt, "control": control, "robot": robot, "q": q, "v": rng.standard_normal(7), "dt": DT, "pose": tool,
        "posture": posture, "com": robot.center_of_mass(target), "twist": rng.standard_normal(6), "ik": ik,
        "apart": control.inverse(robot.pose(target, "link3")) @ tool, "targets": {"tool": tool},
    }  # fmt: skip


def swapped(twist: Array) -> Array:
    """A spatial vector with the other part first."""
    return np.concatenate([twist[3:], twist[:3]])


@cache
def of_pink() -> dict[str, Any]:
    names = ours()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = pin.buildModelFromXML(kt.to_urdf(arm()))
    configuration = pink.Configuration(model, model.createData(), names["q"])
    frame = pink.FrameTask("tool", position_cost=1.0, orientation_cost=1.0)
    relative = pink.tasks.RelativeFrameTask("tool", "link3", position_cost=1.0, orientation_cost=1.0)
    com, posture = pink.tasks.ComTask(cost=1.0), pink.PostureTask(cost=COST)
    frame.set_target(pin.SE3(names["pose"]))
    relative.set_target(pin.SE3(names["apart"]))
    com.set_target(names["com"])
    posture.set_target(names["posture"])
    return {
        "pink": pink, "configuration": configuration, "v": names["v"], "dt": DT, "frame_task": frame, "com_task": com,
        "posture_task": posture, "relative_task": relative,
    }  # fmt: skip


@cache
def of_mink() -> dict[str, Any]:
    names = ours()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        model = mujoco.MjModel.from_xml_string(kt.to_mjcf(arm()))
    frame, com = mink.FrameTask("tool", "site", position_cost=1.0, orientation_cost=1.0), mink.ComTask(cost=1.0)
    posture = mink.PostureTask(model, cost=COST)
    speeds = {joint.name: speed for joint, speed in zip(arm().joints, arm().velocity_limits, strict=True)}
    frame.set_target(mink.SE3.from_matrix(names["pose"]))
    com.set_target(names["com"])
    posture.set_target(names["posture"])
    return {
        "mink": mink, "model": model, "configuration": mink.Configuration(model, names["q"]), "v": names["v"], "dt": DT,
        "frame_task": frame, "com_task": com, "posture_task": posture, "twist": swapped(names["twist"]),
        "pose": names["pose"], "apart": names["apart"],
        "limits": [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)],
    }  # fmt: skip


def as_ours(value: Any) -> Array:
    """Poses as matrices, the angular part of spatial vectors first."""
    if hasattr(value, "homogeneous"):
        value = value.homogeneous
    if hasattr(value, "as_matrix"):
        value = value.as_matrix()
    found = np.asarray(value, dtype=float)
    return swapped(found) if found.shape[:1] == (6,) else found


@pytest.mark.parametrize(("library", "theirs"), [(name, each) for name, rows in tables.items() for each in rows])
def test_rows_as_they_stand(library: str, theirs: str) -> None:
    """Both cells, evaluated."""
    expected = as_ours(eval(theirs.strip("`"), of_pink() if library == "pink" else of_mink()))
    (found,) = tables[library][theirs].run(**ours())
    # quadratic programs are solved to the solvers' tolerance
    assert_close(np.asarray(found, dtype=float), expected, 1e-6 if "solve_ik" in theirs else 1e-10)


@pytest.mark.parametrize("theirs", row.rows)
def test_rows(theirs: str) -> None:
    row.check(theirs)


def test_no_case_is_left_over() -> None:
    row.require_rows()
    assert len(row.rows) + sum(map(len, tables.values())) >= 40


def step(goals: list[Any], targets: dict[str, Any], **options: Any) -> Array:
    """A step of ours with pink's error, and its posture."""
    names = ours()
    given = {"posture": names["posture"], "posture_weight": COST, "damping": 0.0, "limits": False, **options}
    return control.DifferentialIK(arm(), goals, **given)(names["q"], targets, DT)


def of_tasks(*tasks: Any, gain: float = 1.0, lm_damping: float = 0.0, damped: float = 0.0) -> Array:
    """A step of pink's, without limits."""
    names = of_pink()
    for task in tasks:
        task.gain, task.lm_damping = gain, lm_damping
    extra = [pink.tasks.DampingTask(cost=damped)] if damped else []
    every = [*tasks, names["posture_task"], *extra]
    found: Array = pink.solve_ik(names["configuration"], every, DT, "daqp", limits=[])
    for task in tasks:
        task.gain, task.lm_damping = 1.0, 0.0
    return found


@row("`pink.Configuration(model, data, q)`, `mink.Configuration(model)`")
def _(r: Row) -> None:
    assert_close(of_pink()["configuration"].q, *r.run(**ours()), 0.0)
    assert_close(of_mink()["configuration"].q, *r.run(**ours()), 0.0)


@row('`FrameTask("tool", position_cost=1.0, orientation_cost=1.0)`')
def _(r: Row) -> None:
    (goal,) = r.run(**ours())
    found = step([goal], ours()["targets"], error="log6")
    assert_close(found, of_tasks(of_pink()["frame_task"]), 1e-6)
    # a cost is squared
    task = pink.FrameTask("tool", position_cost=3.0, orientation_cost=3.0)
    task.set_target(pin.SE3(ours()["pose"]))
    heavy = step([control.Goal("tool", weight=9.0)], ours()["targets"], error="log6")
    assert_close(heavy, of_tasks(task), 1e-6)


@row("the same with `orientation_cost=0.0`")
def _(r: Row) -> None:
    """Positions alone: mink's error is in the frame's axes, ours in the world's; the step is the same."""
    (goal,) = r.run(**ours())
    task = mink.FrameTask("tool", "site", position_cost=1.0, orientation_cost=0.0)
    now = arm().pose(ours()["q"], "tool")
    aim = now.copy()
    aim[:3, 3] += [1e-3, -2e-3, 1e-3]
    task.set_target(mink.SE3.from_matrix(aim))
    theirs = mink.solve_ik(of_mink()["configuration"], [task, of_mink()["posture_task"]], DT, "daqp", limits=[])
    assert_close(step([goal], {"tool": aim}), theirs, 1e-6)


@row('`RelativeFrameTask("tool", "link3", …)`')
def _(r: Row) -> None:
    """pink's is on the logarithm of the pose; close to the target both lead there."""
    (goal,) = r.run(**ours())
    near = control.inverse(arm().pose(ours()["q"], "link3")) @ arm().pose(ours()["q"], "tool")
    near[:3, 3] += 1e-4
    task = pink.tasks.RelativeFrameTask("tool", "link3", position_cost=1.0, orientation_cost=1.0)
    task.set_target(pin.SE3(near))
    assert_close(step([goal], {"tool": near}), of_tasks(task), 1e-3)


@row("`ComTask(cost=1.0)`")
def _(r: Row) -> None:
    (goal,) = r.run(**ours())
    assert_close(step([goal], {"center_of_mass": ours()["com"]}), of_tasks(of_pink()["com_task"]), 1e-6)


@row("`PostureTask(cost=0.1)`, `set_target(q)`")
def _(r: Row) -> None:
    (ik,) = r.run(**{**ours(), "q": ours()["posture"]})
    found = ik(ours()["q"], ours()["targets"], DT)
    posture, frame = of_pink()["posture_task"], of_pink()["frame_task"]
    assert posture.cost == COST
    theirs = pink.solve_ik(of_pink()["configuration"], [frame, posture], DT, "daqp")
    assert_close(found, theirs, 5e-2)  # the error is pink's with error="log6"


@row("`DampingTask(cost=0.1)`")
def _(r: Row) -> None:
    (ik,) = r.run(**ours())
    assert ik._damping == pytest.approx(0.1**2)
    found = step(["tool"], ours()["targets"], damping=0.1**2, error="log6")
    assert_close(found, of_tasks(of_pink()["frame_task"], damped=0.1), 1e-6)


@row("`gain=0.5` of a task")
def _(r: Row) -> None:
    r.run(**ours())
    found = step(["tool"], ours()["targets"], gain={"tool": 0.5}, error="log6")
    assert_close(found, of_tasks(of_pink()["frame_task"], gain=0.5), 1e-6)


@row("`lm_damping=0.1` of a task")
def _(r: Row) -> None:
    r.run(**ours())
    found = step(["tool"], ours()["targets"], lm_damping=0.1, error="log6")
    assert_close(found, of_tasks(of_pink()["frame_task"], lm_damping=0.1), 1e-6)


@row("`ConfigurationLimit(model)`, `VelocityLimit(model)`")
def _(_row: Row) -> None:
    """A target that is far away in a short time: both move as fast as joints may."""
    target = arm().pose(ours()["posture"], "tool")
    task = pink.FrameTask("tool", position_cost=1.0, orientation_cost=1.0)
    task.set_target(pin.SE3(target))
    configuration = of_pink()["configuration"]
    fastest = configuration.model.velocityLimit
    theirs = pink.solve_ik(configuration, [task, of_pink()["posture_task"]], DT, "daqp")
    found = step(["tool"], {"tool": target}, limits=True, error="log6")
    assert (np.abs(theirs) > 0.999 * fastest).any()
    assert_close(found, theirs, 1e-6)


@row("`task.set_target(pose)`")
def _(r: Row) -> None:
    (found,) = r.run(**ours())
    assert_close(found, ours()["ik"](ours()["q"], ours()["targets"], DT), 0.0)


@row('`solve_ik(configuration, tasks, dt, solver="daqp")`')
def _(r: Row) -> None:
    (found,) = r.run(**ours())
    many = ours()["ik"](np.stack([ours()["q"]] * 3), ours()["targets"], DT)
    assert_close(many, np.stack([found] * 3), 0.0)


@row("a loop until the error is small")
def _(r: Row) -> None:
    ((q, report),) = r.run(**ours())
    assert report.success
    assert_close(arm().pose(q, "tool"), ours()["pose"], 2e-6)
