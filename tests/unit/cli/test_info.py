"""The commands about files: `info`, `check`, and `demo` with a robot."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import app, check, demo
from kinetree.cli.commands import center_of_mass
from kinetree.interrupts import UNUSABLE
from kinetree.model.dynamics import FUNCTIONS

INERTIA = '<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>'
LINK = '<link name="{}"><inertial><origin xyz="0 0 .5"/><mass value="2"/>' + INERTIA + "</inertial></link>"
URDF = (
    '<robot name="arm">'
    + "".join(LINK.format(name) for name in ("base", "upper", "fore"))
    + '<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 1"/>'
    '<axis xyz="0 1 0"/><limit lower="-1" upper="2" velocity="3" effort="40"/></joint>'
    '<joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/><origin xyz="0 0 1"/>'
    '<axis xyz="0 1 0"/><mimic joint="shoulder"/></joint></robot>'
)
MASSLESS = URDF.replace(LINK.format("fore"), '<link name="fore"/>')
MJCF = (
    '<mujoco model="pole"><worldbody><body name="cart"><freejoint/><geom size=".1"/>'
    '<body name="pole" pos="0 0 1"><joint name="hinge" pos="0 .1 0"/><geom size=".1"/></body></body></worldbody>'
    "</mujoco>"
)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command, with shorter timings than a user wants."""
    monkeypatch.setattr(demo, "TOTAL", 0.0)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def urdf(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    return path


@pytest.fixture
def mjcf(tmp_path: Path) -> Path:
    pytest.importorskip("mujoco")
    path = tmp_path / "pole.xml"
    path.write_text(MJCF)
    return path


# -- info --------------------------------------------------------------------------------------------------------------


def test_info(call: Callable[..., Any], urdf: Path) -> None:
    result = call("info", urdf)
    assert result.exit_code == 0, result.output
    rows = {words[0]: words[1:] for line in result.output.splitlines() if (words := line.split())}
    assert rows["arm:"][:3] == ["2", "moving", "joints,"]
    assert rows["shoulder"] == ["revolute", "-1", "2", "3", "40", "–"]
    assert "elbow     revolute" in result.output
    assert "mass 6 kg, centre of mass in the neutral configuration (0, 0, 1.5) m" in result.output
    assert "warning" not in result.output
    assert "elbow = shoulder" in result.output


def test_info_as_json(call: Callable[..., Any], urdf: Path) -> None:
    result = call("info", urdf, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["name"] == "arm"
    assert (told["nq"], told["nv"]) == (1, 1)
    assert told["couplings"] == ["elbow = shoulder"]
    assert told["mass"] == 6.0
    assert told["center_of_mass"] == pytest.approx([0.0, 0.0, 1.5])
    assert told["frames"] == ["world", "base", "upper", "fore"]
    joints = {joint["name"]: joint for joint in told["joints"]}
    assert joints["shoulder"]["limits"] == {"lower": [-1.0], "upper": [2.0], "velocity": [3.0], "effort": [40.0]}
    assert joints["elbow"]["limits"]["lower"] == [None]
    assert joints["shoulder"]["q"] == [0, 1]
    assert joints["elbow"]["q"] is None
    assert joints["root_joint"]["q"] is None
    assert [body["parent"] for body in told["bodies"]] == ["world", "base", "upper"]
    assert told["warnings"] == []


def test_info_with_a_floating_base(call: Callable[..., Any], urdf: Path) -> None:
    assert "nq 8, nv 7" in call("info", urdf, "--floating-base").output


def test_info_of_mjcf(call: Callable[..., Any], mjcf: Path) -> None:
    result = call("info", mjcf)
    assert result.exit_code == 0, result.output
    assert "pole: 2 moving joints, nq 8, nv 7" in result.output


def test_the_centre_of_mass_is_that_of_all_bodies() -> None:
    robot = kt.zoo.humanoid24()
    com = center_of_mass(robot)
    assert com is not None
    assert np.allclose(com, robot.center_of_mass(robot.neutral()), rtol=1e-13)
    builder = kt.Builder()
    builder.add_body("ghost")
    assert center_of_mass(builder.build()) is None


@pytest.mark.parametrize("command", ["info", "check", "demo"])
def test_files_that_cannot_be_used(call: Callable[..., Any], command: str, tmp_path: Path) -> None:
    missing, broken = tmp_path / "missing.urdf", tmp_path / "broken.urdf"
    broken.write_text('<robot name="x">\n<link/></robot>')
    for path, told in ((missing, "no such file"), (broken, "broken.urdf:2")):
        result = call(command, path)
        assert result.exit_code == UNUSABLE
        assert "LoadError" in result.output
        assert told in result.output


# -- check -------------------------------------------------------------------------------------------------------------


def test_check(call: Callable[..., Any], urdf: Path) -> None:
    result = call("check", urdf, "--samples", "4")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert sum(line.startswith("passed") for line in lines) >= len(check.LAWS)
    assert "all passed" in result.output
    assert "warning: " in result.output
    if importlib.util.find_spec("pinocchio"):
        assert sum("as in Pinocchio" in line for line in lines) == 4


@pytest.mark.skipif(not importlib.util.find_spec("pinocchio"), reason="compares with Pinocchio")
def test_inertias_without_products_are_completed_for_pinocchio(call: Callable[..., Any], tmp_path: Path) -> None:
    """urdfdom drops an <inertia> that lacks a product; this is said, and the comparison is made all the same."""
    path = tmp_path / "robot.urdf"
    path.write_text(URDF.replace(' ixy="0" ixz="0"', ""))
    result = call("check", path, "--samples", "4")
    assert result.exit_code == 0, result.output
    assert "note: <inertia> lacks ixy, ixz or iyz in link 'base', 'upper', 'fore'. Kinetree takes" in result.output
    assert sum("as in Pinocchio" in line and line.startswith("passed") for line in result.output.splitlines()) == 4
    path.write_text(URDF)
    assert "note:" not in call("check", path, "--samples", "4").output


def test_check_says_what_its_numbers_are(call: Callable[..., Any], urdf: Path) -> None:
    lines = call("check", urdf, "--samples", "4").output.splitlines()
    (header,) = (i for i, line in enumerate(lines) if line.split() == ["error", "allowed"])
    (definite,) = (line for line in lines if "positive definite" in line)
    assert lines.index(definite) > header
    assert "−λmin/λmax" in definite
    error, allowed = map(float, definite.split()[-2:])
    assert -1.0 < error < 0.0 < allowed  # the eigenvalues themselves, not only that they pass


def test_the_worst_of_several_checks() -> None:
    good, better, bad, nan = (check.Check(r, 1.0) for r in (0.5, 0.1, 2.0, float("nan")))
    assert good.worse(better) is good
    assert better.worse(good) is good
    assert good.worse(bad) is bad
    assert nan.worse(good) is nan
    assert good.worse(nan) is nan


def test_check_of_mjcf(call: Callable[..., Any], mjcf: Path) -> None:
    result = call("check", mjcf, "--samples", "4")
    assert result.exit_code == 0, result.output
    assert sum("as in MuJoCo" in line and line.startswith("passed") for line in result.output.splitlines()) == 4


def test_check_of_sdf(call: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "gate.sdf"
    inertial = "<inertial><mass>2</mass></inertial>"
    path.write_text(
        f'<sdf version="1.9"><model name="gate"><link name="post">{inertial}</link><link name="wing">{inertial}</link>'
        '<joint name="hinge" type="revolute"><parent>post</parent><child>wing</child><axis/></joint></model></sdf>'
    )
    result = call("check", path)
    assert result.exit_code == 0, result.output
    assert "neither Pinocchio nor MuJoCo reads SDF" in result.output


def test_check_with_a_floating_base(call: Callable[..., Any], urdf: Path) -> None:
    result = call("check", urdf, "--samples", "2", "--floating-base")
    assert result.exit_code == 0, result.output
    assert "nv 8" in result.output


def test_what_cannot_be_asked_for_is_skipped(call: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "massless.urdf"
    path.write_text(MASSLESS)
    result = call("check", path, "--samples", "2")
    assert result.exit_code == 0, result.output
    assert "skipped  M M⁻¹ = 1: body 'fore': no inertia resists" in result.output
    assert "passed   M a + h = inverse dynamics" in result.output


def test_a_broken_law_fails(call: Callable[..., Any], urdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check.LAWS, "M M⁻¹ = 1", lambda _: check.Check(float("nan"), 1.0))
    result = call("check", urdf, "--samples", "2")
    assert result.exit_code == 1
    assert "FAILED   M M⁻¹ = 1" in result.output
    assert "1 failed" in result.output


@pytest.mark.skipif(not importlib.util.find_spec("pinocchio"), reason="compares with Pinocchio")
def test_a_difference_fails(call: Callable[..., Any], urdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check.interop, "pinocchio", lambda robot, model: _off_by_a_bit(robot, model))
    result = call("check", urdf, "--samples", "2")
    assert result.exit_code == 1
    assert "FAILED   mass matrix as in Pinocchio" in result.output


def _off_by_a_bit(robot: kt.Model, model: Any) -> Any:
    model.inertias[1].mass += 1e-6
    return kt.interop.PinocchioCounterpart(robot, model)


def test_without_pinocchio_only_the_laws_are_checked(
    call: Callable[..., Any], urdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pinocchio", None)
    result = call("check", urdf, "--samples", "2")
    assert result.exit_code == 0, result.output
    assert "skipped  comparison with Pinocchio: Pinocchio is not installed" in result.output


def test_nothing_moves(call: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "stone.urdf"
    path.write_text('<robot name="stone">' + LINK.format("stone") + "</robot>")
    for command in ("check", "demo"):
        result = call(command, path)
        assert result.exit_code == 0, result.output
        assert "Nothing moves" in result.output
    assert "mass 2 kg" in call("info", path).output


# -- demo --------------------------------------------------------------------------------------------------------------


def test_demo_of_a_file(call: Callable[..., Any], urdf: Path) -> None:
    result = call("demo", urdf, "--batch", "8")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0] for line in result.output.splitlines() if line.split()}
    assert set(FUNCTIONS) <= rows
    assert "of fore" in result.output


def test_demo_of_a_robot_without_all_masses(call: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "massless.urdf"
    path.write_text(MASSLESS)
    result = call("demo", path, "--batch", "4")
    assert result.exit_code == 0, result.output
    assert "no inertia resists" in result.output
    rows = {line.split()[0] for line in result.output.splitlines() if line.split()}
    assert "inverse_dynamics" in rows
    assert "forward_dynamics" not in rows
