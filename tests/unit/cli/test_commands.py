"""The commands: what they print, and what their exit codes say."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")


import kinetree as kt
from kinetree import geometry as geo
from kinetree.cli import INSTALL, check, demo
from kinetree.cli.commands import center_of_mass
from kinetree.interrupts import UNUSABLE
from kinetree.model.dynamics import FUNCTIONS


def test_version(output_of: Callable[..., str]) -> None:
    output = output_of("--version")
    assert output.strip() == f"kinetree {kt.__version__}"


def test_no_command_shows_help(call: Callable[..., Any]) -> None:
    assert "demo" in call().output


def test_demo(output_of: Callable[..., str]) -> None:
    kt.set_threads(2)
    output = output_of("demo", "--seed", "3", "--batch", "8")
    assert str(kt.zoo.humanoid24()) in output
    assert "8 random states: passed" in output
    rows = {words[0]: words[1:] for line in output.splitlines() if (words := line.split())}
    # angles are plain numbers: they need no normalizing, and these derivatives are constant
    free = {"normalize", "dintegrate", "ddifference", "tangent_map", "bracket"}
    for name in FUNCTIONS:
        operations, *times = (float(word.replace(",", "")) for word in rows[name])
        assert (operations > 0) != (name in free)
        assert len(times) == 5
        assert all(time > 0 for time in times)
    for name in kt.tasks.METHODS:
        operations, difference, *times = (float(word.replace(",", "")) for word in rows[name])
        assert operations > 0
        assert difference < 1e-9
        assert len(times) == 4
    assert kt.get_threads() == 2
    assert "try --batch 65536" in output


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "arm.urdf"
    path.write_text(
        f'<robot name="arm"><link name="base"/><link name="rod">{inertial}</link>'
        '<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>'
    )
    return path


def test_one_thread_has_one_column(output_of: Callable[..., str], arm: Path) -> None:
    """And there is no advice to try larger batches, which would change nothing."""
    with demo.threads(1):
        output = output_of("demo", arm, "--batch", "4")
    (header,) = (line for line in output.splitlines() if "1 thr." in line)
    assert header.count("thr.") == 1
    rows = {words[0]: words[1:] for line in output.splitlines() if (words := line.split())}
    assert len(rows["mass_matrix"]) == 5
    assert "try --batch" not in output


def test_a_large_batch_gets_no_advice_to_try_one(call: Callable[..., Any], arm: Path) -> None:
    with demo.threads(2):
        result = call("demo", arm, "--batch", "1025")
    assert "try --batch" not in result.output


def test_large_results_are_timed_on_fewer_samples(
    output_of: Callable[..., str], arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results take bounded memory, whatever the batch; the rows that this concerns are marked."""
    monkeypatch.setattr(demo, "LARGEST", 1024)
    output = output_of("demo", arm, "--batch", "32")
    rows = {line.split()[0] for line in output.splitlines() if line.split()}
    assert {"pose*", "mass_matrix", "jacobian*", "inverse_dynamics"} <= rows
    assert "* fewer samples" in output
    robot = kt.load(arm)
    states = {"q": robot.random_configuration(0, 32), "v": np.ones((32, 1))}
    assert demo.cost(robot, "pose", states, "rod").batch == 1024 // (3 * 16 * 8)
    assert demo.cost(robot, "mass_matrix", states, "rod").batch == 32


def test_demo_fails_if_the_dynamics_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "FAILED" in result.output


def test_demo_fails_if_algorithms_disagree(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SLACK", 0.0)
    result = call("demo", "--batch", "8")
    assert result.exit_code == 1
    assert "not singular: FAILED" in result.output


def test_the_bound_on_lambda_is_of_the_size_of_its_error(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandth of the bound is less than rounding leaves, so the bound is no more than that above it."""
    monkeypatch.setattr(demo, "SLACK", 1e-3)
    assert "not singular: FAILED" in call("demo", "--batch", "512").output


def test_a_residual_of_nan_fails() -> None:
    assert not check.Check(residual=float("nan"), tolerance=1.0).passed


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named_with_the_way_to_install_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from kinetree.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert INSTALL in done.stderr
    assert "Traceback" not in done.stderr


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


def test_info(output_of: Callable[..., str], urdf: Path) -> None:
    output = output_of("info", urdf)
    rows = {words[0]: words[1:] for line in output.splitlines() if (words := line.split())}
    assert rows["arm:"][:3] == ["2", "moving", "joints,"]
    assert rows["shoulder"] == ["revolute", "-1", "2", "3", "40", "–"]
    assert "elbow     revolute" in output
    assert "mass 6 kg, centre of mass in the neutral configuration (0, 0, 1.5) m" in output
    assert "warning" not in output
    assert "elbow = shoulder" in output


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


def test_info_lists_shapes(output_of: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    shapes = [geo.Box("left_hand", (1, 1, 1)), geo.Box("left_hand", (1, 1, 2)), geo.Sphere("right_hand", (0, 0, 0), 1)]
    file.write_text(kt.to_urdf(kt.zoo.humanoid24().with_shapes(shapes)))
    output = output_of("info", file)
    assert "collision shapes: 2 boxes, 1 sphere" in output
    assert "box 'left_hand_1' on 'left_hand': size 1 1 2, rounding 0" in output
    assert "sphere 'right_hand': center 0 0 0, radius 1" in output
    told = json.loads(output_of("info", file, "--json"))["shapes"]
    assert told[1]["size"] == [1.0, 1.0, 2.0]
    assert told[2] == {
        "name": "right_hand", "kind": "sphere", "center": [0.0, 0.0, 0.0], "radius": 1.0, "body": "right_hand",
        "friction": None, "masks": None, "placement": np.eye(4).tolist(),
    }  # fmt: skip


def test_info_with_a_floating_base(call: Callable[..., Any], urdf: Path) -> None:
    assert "nq 8, nv 7" in call("info", urdf, "--floating-base").output


def test_info_of_mjcf(output_of: Callable[..., str], mjcf: Path) -> None:
    output = output_of("info", mjcf)
    assert "pole: 2 moving joints, nq 8, nv 7" in output


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


def test_check(output_of: Callable[..., str], urdf: Path) -> None:
    output = output_of("check", urdf, "--samples", "4")
    lines = output.splitlines()
    assert sum(line.startswith("passed") for line in lines) >= len(check.LAWS)
    assert "all passed" in output
    assert "warning: " in output
    if importlib.util.find_spec("pinocchio"):
        assert sum("as in Pinocchio" in line for line in lines) == 4


@pytest.mark.skipif(not importlib.util.find_spec("pinocchio"), reason="compares with Pinocchio")
def test_inertias_without_products_are_completed_for_pinocchio(
    call: Callable[..., Any], output_of: Callable[..., str], tmp_path: Path
) -> None:
    """urdfdom drops an <inertia> that lacks a product; this is said, and the comparison is made all the same."""
    path = tmp_path / "robot.urdf"
    path.write_text(URDF.replace(' ixy="0" ixz="0"', ""))
    output = output_of("check", path, "--samples", "4")
    assert "note: <inertia> lacks ixy, ixz or iyz in link 'base', 'upper', 'fore'. Kinetree takes" in output
    assert sum("as in Pinocchio" in line and line.startswith("passed") for line in output.splitlines()) == 4
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


def test_check_of_mjcf(output_of: Callable[..., str], mjcf: Path) -> None:
    output = output_of("check", mjcf, "--samples", "4")
    assert sum("as in MuJoCo" in line and line.startswith("passed") for line in output.splitlines()) == 4


def test_check_of_sdf(output_of: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "gate.sdf"
    inertial = "<inertial><mass>2</mass></inertial>"
    path.write_text(
        f'<sdf version="1.9"><model name="gate"><link name="post">{inertial}</link><link name="wing">{inertial}</link>'
        '<joint name="hinge" type="revolute"><parent>post</parent><child>wing</child><axis/></joint></model></sdf>'
    )
    output = output_of("check", path)
    assert "neither Pinocchio nor MuJoCo reads SDF" in output


def test_check_with_a_floating_base(output_of: Callable[..., str], urdf: Path) -> None:
    output = output_of("check", urdf, "--samples", "2", "--floating-base")
    assert "nv 8" in output


def test_what_cannot_be_asked_for_is_skipped(output_of: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "massless.urdf"
    path.write_text(MASSLESS)
    output = output_of("check", path, "--samples", "2")
    assert "skipped  M M⁻¹ = 1: body 'fore': no inertia resists" in output
    assert "passed   M a + h = inverse dynamics" in output


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
    output_of: Callable[..., str], urdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pinocchio", None)
    output = output_of("check", urdf, "--samples", "2")
    assert "skipped  comparison with Pinocchio: Pinocchio is not installed" in output


def test_nothing_moves(call: Callable[..., Any], output_of: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "stone.urdf"
    path.write_text('<robot name="stone">' + LINK.format("stone") + "</robot>")
    for command in ("check", "demo"):
        output = output_of(command, path)
        assert "Nothing moves" in output
    assert "mass 2 kg" in call("info", path).output


# -- demo --------------------------------------------------------------------------------------------------------------


def test_demo_of_a_file(output_of: Callable[..., str], urdf: Path) -> None:
    output = output_of("demo", urdf, "--batch", "8")
    rows = {line.split()[0] for line in output.splitlines() if line.split()}
    assert set(FUNCTIONS) <= rows
    assert "of fore" in output


def test_demo_of_a_robot_without_all_masses(output_of: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "massless.urdf"
    path.write_text(MASSLESS)
    output = output_of("demo", path, "--batch", "4")
    assert "no inertia resists" in output
    rows = {line.split()[0] for line in output.splitlines() if line.split()}
    assert "inverse_dynamics" in rows
    assert "forward_dynamics" not in rows


# -- options of all commands that read a robot -------------------------------------------------------------------------

KEYED = (
    '<mujoco><worldbody><body name="a"><joint name="left" axis="1 0 0"/><geom size=".1" pos="0 0 1"/></body>'
    '<body name="b"><joint name="right" axis="1 0 0"/><geom size=".1"/></body></worldbody>'
    '<actuator><motor joint="left"/></actuator><equality><joint joint1="right" joint2="left"/></equality>'
    '<keyframe><key name="home" qpos="3.141592653589793 3.141592653589793"/></keyframe></mujoco>'
)


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    pytest.importorskip("mujoco")
    path = tmp_path / "keyed.xml"
    path.write_text(KEYED)
    return path


def test_info_tells_what_is_left_out_and_where_the_robot_is(output_of: Callable[..., str], keyed: Path) -> None:
    output = output_of("info", keyed, "--configuration", "home")
    assert "centre of mass in this configuration (0, -6.123e-17, -0.5) m" in output
    assert "keyframe home: (3.142)" in output
    assert "left out: actuators (1); softness of contacts; slack of equality constraints" in output
    assert "warning" not in output
    assert "(0, 0, 0.5) m" in output_of("info", keyed, "--configuration", "left=0")
    told = json.loads(output_of("info", keyed, "--json"))
    assert told["keyframes"] == {"home": [3.141592653589793]}
    assert len(told["notes"]) == 1


def test_loops_and_mimics_are_chosen(call: Callable[..., Any], keyed: Path, urdf: Path) -> None:
    assert "nv 1" in call("info", keyed).output
    assert "nv 2" in call("info", keyed, "--loops", "multipliers").output
    assert "nv 2" in call("info", keyed, "--mimic", "independent").output
    assert "nv 2" in call("info", urdf, "--mimic", "independent").output
    assert "choose one of 'embed'" in call("info", keyed, "--loops", "soft").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--configuration", "hom"), "there are: neutral, home"),
        (("--configuration", "left=x"), "is no number"),
        (("--configuration", "elbow=1"), "elbow"),
        (("--xacro", "hand"), "is not name=value"),
    ],
)
def test_options_that_are_wrong(call: Callable[..., Any], keyed: Path, words: tuple[str, ...], told: str) -> None:
    result = call("info", keyed, *words)
    assert result.exit_code == UNUSABLE
    assert told in result.output


def test_xacro_files_are_expanded(output_of: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.urdf.xacro"
    head = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="arm"><xacro:arg name="tip" default="t"/>'
    path.write_text(head + '<link name="$(arg tip)"/></robot>')
    assert "hand" in output_of("info", path, "--xacro", "tip=hand")
    assert "t " in output_of("info", path, "--xacro", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("box", "--picture", "x.xyz"), ".xyz files cannot be written; choose .png"),
        (("box", "--film", "x.avi"), ".avi files cannot be written; choose .html"),
        (("view", "--film", "x"), "files without a suffix cannot be written"),
        (("view", "--film", "nowhere/x.html"), "there is no directory nowhere"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(
    call: Callable[..., Any], words: tuple[str, ...], told: str
) -> None:
    for module in ("matplotlib", "viser"):
        pytest.importorskip(module)
    result = call(*words)
    assert result.exit_code == UNUSABLE
    assert told in " ".join(result.output.split())


def test_similar_names_of_files_are_proposed(call: Callable[..., Any], urdf: Path) -> None:
    assert f"did you mean {urdf}?" in call("info", urdf.with_name("amr.urdf")).output
    assert "looked in" in call("info", urdf.with_name("quadruped.sdf")).output
