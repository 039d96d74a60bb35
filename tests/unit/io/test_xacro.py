"""xacro files, expanded if the user says so."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError
from kinetree.io import urdf as loader
from tests.oracle import oracle

oracle("xacro")

LINK = """<link name="{}"><inertial><mass value="${{mass}}"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>"""
ARM = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="joints" default="2"/>
  <xacro:property name="mass" value="${2 * 1.5}"/>
  <xacro:include filename="part.xacro"/>
  <link name="l0"/>
  <xacro:chain number="$(arg joints)"/>
</robot>
"""
PART = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:macro name="chain" params="number">
    <xacro:if value="${number > 0}">
      <xacro:chain number="${number - 1}"/>
      LINK
      <joint name="j${number}" type="continuous"><parent link="l${number - 1}"/><child link="l${number}"/></joint>
    </xacro:if>
  </xacro:macro>
</robot>
""".replace("LINK", LINK.format("l${number}"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "part.xacro").write_text(PART)
    (tmp_path / "arm.urdf.xacro").write_text(ARM)
    return tmp_path / "arm.urdf.xacro"


def test_files_are_expanded_with_arguments(path: Path) -> None:
    assert [joint.name for joint in kt.load(path, xacro={}).joints] == ["j1", "j2"]
    robot = kt.load(path, xacro={"joints": 4})
    assert [joint.name for joint in robot.joints] == ["j1", "j2", "j3", "j4"]
    assert robot.body("l3").mass == 3.0


def test_they_are_not_unless_the_user_says_so(path: Path) -> None:
    with pytest.raises(LoadError, match=r"a xacro file.*load\(…, xacro=\{\}\), if you trust it") as caught:
        kt.load(path)
    assert caught.value.line == 2


def test_what_is_expanded_is_read_with_the_usual_care(path: Path) -> None:
    path.write_text(ARM.replace('<link name="l0"/>', '<link name="l0"/><link name="l1"/>'))
    with pytest.raises(LoadError, match="'l1' is defined twice") as caught:
        kt.load(path, xacro={})
    assert caught.value.file == f"{path} (expanded)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARM.replace("2 * 1.5", "2 * unknown"), "xacro cannot expand it: .*unknown"),
        (ARM.replace("part.xacro", "nowhere.xacro"), "xacro cannot expand it: .*nowhere.xacro"),
        (ARM.replace("part.xacro", "$(find nothing)/x.xacro"), "xacro cannot expand it: "),
        (ARM.replace('default="2"', 'default="-1.0"').replace("number > 0", "True"), "xacro cannot expand it|no links"),
    ],
)
def test_files_that_xacro_refuses(text: str, message: str, path: Path) -> None:
    path.write_text(text)
    if "-1.0" in text:
        (path.parent / "part.xacro").write_text(PART.replace("${number > 0}", "true"))
    with pytest.raises(LoadError, match=message):
        kt.load(path, xacro={})


def test_time_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "PATIENCE", 0.01)
    with pytest.raises(LoadError, match="more than 0.01 s to expand"):
        kt.load(path, xacro={})


@pytest.mark.parametrize("arguments", [{"joints": None}, {"joints": [1]}, {1: 2}, {"a b": 1}, {"--inorder": 1}])
def test_arguments_that_are_none(arguments: Any, path: Path) -> None:
    with pytest.raises(InputError, match="is not a valid argument"):
        kt.load(path, xacro=arguments)


def test_texts_are_not_expanded() -> None:
    with pytest.raises(InputError, match="xacro= needs a file"):
        kt.load(ARM, xacro={})


def test_without_xacro_the_way_to_install_it_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LoadError, match=r"not installed.*kinetree\[xacro\]"):
        kt.load(path, xacro={})
