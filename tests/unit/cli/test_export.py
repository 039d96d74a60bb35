"""`kinetree export`: C for a robot file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import app
from kinetree.errors import InputError, UnknownNameError

URDF = """<robot name="two link arm">
  <link name="base"/>
  <link name="upper"><inertial><mass value="1.5"/><origin xyz="0 0 0.2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><mass value="1"/><origin xyz="0 0 0.1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="0 0 0.4"/>
    <axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(URDF, encoding="utf-8")
    return path


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_specialized_code(arm: Path, tmp_path: Path) -> None:
    sources = []
    for options in ((), ("--specialize",)):
        folder = tmp_path / "out" / "".join(options)
        result = call("export", arm, "--functions", "gravity_forces", "--directory", folder, *options)
        assert result.exit_code == 0, result.output
        sources.append((folder / "two_link_arm.c").read_text(encoding="utf-8"))
    shared, own = sources
    assert "CONSTANTS[" in shared
    assert "CONSTANTS" not in own
    assert own == _exported(kt.load(arm).compile((), specialize="batch"), tmp_path)


def _exported(model: kt.Model, folder: Path) -> str:
    _, source = model.export_c(["gravity_forces"], folder)
    return source.read_text(encoding="utf-8")


def test_two_files(arm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = call("export", arm, "--functions", "gravity_forces,jacobian", "--frames", "lower", "--directory", folder)
    assert result.exit_code == 0, result.output
    assert result.output.split() == [str(folder / "two_link_arm.h"), str(folder / "two_link_arm.c")]
    model = kt.load(arm)
    expected = model.export_c(["gravity_forces", "jacobian"], tmp_path / "same", frames=["lower"])
    for one in expected:
        assert one.read_bytes() == (folder / one.name).read_bytes()
    header = (folder / "two_link_arm.h").read_text(encoding="utf-8")
    assert "v[1]  lower (joint elbow)" in header
    assert "void two_link_arm_jacobian(const double q[2], double J[12]);" in header


def test_what_does_not_exist_is_named(arm: Path, tmp_path: Path) -> None:
    result = call("export", arm, "--functions", "gravity", "--directory", tmp_path / "out")
    assert isinstance(result.exception, UnknownNameError)
    assert "gravity_forces" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_names_that_no_file_has(tmp_path: Path) -> None:
    robot = (
        kt.Builder("a" * 300)
        .add_body("x", joint="revolute", mass=1.0, inertia=[[1, 0, 0], [0, 1, 0], [0, 0, 1]])
        .build()
    )
    with pytest.raises(
        InputError, match="export_c: .* cannot be written: File name too long, .* give it a shorter name"
    ):
        robot.export_c(["energy"], tmp_path)


def test_directories_that_cannot_be(arm: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="export_c: .*arm.urdf.* cannot be written: (File exists|Not a directory)$"):
        kt.load(arm).export_c(["energy"], arm)
