"""Angles of files that stand for quarter turns: `load(…, snap_angles=True)`."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'


def urdf(rpy: str) -> str:
    """Three joints, each turned against the last by some angles."""
    links = "".join(f'<link name="link{i}">{INERTIAL}</link>' for i in range(4))
    joints = "".join(
        f'<joint name="joint{i}" type="continuous"><parent link="link{i}"/><child link="link{i + 1}"/>'
        f'<origin xyz="0.1 0.2 0.3" rpy="{rpy}"/><axis xyz="0 0 1"/></joint>'
        for i in range(3)
    )
    return f'<robot name="arm">{links}{joints}</robot>'


def sdf(rpy: str, attributes: str = "") -> str:
    inertial = "<inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial>"
    pose = f'<pose relative_to="base" {attributes}>0.1 0.2 0.3 {rpy}</pose>'
    links = f'<link name="base">{inertial}</link><link name="tip">{pose}{inertial}</link>'
    joint = "<parent>base</parent><child>tip</child><axis><xyz>0 0 1</xyz></axis>"
    joint = f'<joint name="joint" type="revolute">{joint}</joint>'
    return f'<sdf version="1.9"><model name="arm">{links}{joint}</model></sdf>'


def angle(file: str, joint: str, **options: Any) -> float:
    """The angle by which a placement turns about x."""
    R = kt.load(file, **options).joint(joint).placement[:3, :3]
    return float(np.arctan2(R[2, 1], R[1, 1]))


@pytest.mark.parametrize(
    ("word", "quarters"),
    [
        ("1.57079632679", 1),
        ("-1.5707963", -1),
        ("1.570796", 1),
        ("+1570796e-6", 1),
        ("3.14159265359", 2),
        ("-4.71238898038469", -3),
        ("0.0", 0),
    ],
)
def test_rounded_quarter_turns(word: str, quarters: int) -> None:
    found = angle(urdf(f"{word} 0 0"), "joint0", snap_angles=True)
    expected = np.arctan2(np.sin(quarters * np.pi / 2), np.cos(quarters * np.pi / 2))
    assert abs(abs(found) - abs(expected)) < 1e-15
    assert angle(sdf(f"{word} 0 0"), "joint", snap_angles=True) == pytest.approx(found, abs=1e-15)


@pytest.mark.parametrize(
    "word",
    [
        "1.5708",  # 3.7e-6 rad off: within its digits, but too far
        "1.5707964",  # not the nearest number of so many digits
        "1.570796320",  # the last digit says that this is no rounding
        "1.5707963200",
        "3.1415926",  # cut off instead of rounded
        "1e-7",
        "0.0000003",
        "1.2",
    ],
)
def test_other_angles_are_taken_as_written(word: str) -> None:
    assert angle(urdf(f"{word} 0 0"), "joint0", snap_angles=True) == pytest.approx(float(word), rel=0, abs=1e-15)
    robots = [kt.load(urdf(f"{word} 0 0"), snap_angles=snap) for snap in (False, True)]
    np.testing.assert_array_equal(*(robot.joint("joint0").placement for robot in robots))


def test_angles_are_taken_as_written_unless_asked_for() -> None:
    assert angle(urdf("1.57079632679 0 0"), "joint0") == pytest.approx(1.57079632679, rel=0, abs=1e-15)
    assert angle(sdf("1.57079632679 0 0"), "joint") == pytest.approx(1.57079632679, rel=0, abs=1e-15)


def test_degrees() -> None:
    """Their quarter turns are exact as they are."""
    for written in ("90 0 0", "89.99999 0 0"):
        found = [angle(sdf(written, 'degrees="true"'), "joint", snap_angles=snap) for snap in (False, True)]
        assert found[0] == found[1] == pytest.approx(np.radians(float(written.split()[0])), abs=1e-15)


def test_what_it_saves_and_what_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    file = urdf("1.57079632679 0 0.4")
    with caplog.at_level(logging.INFO, logger="kinetree"):
        plain = kt.load(file)
        assert not caplog.messages
        snapped = kt.load(file, snap_angles=True)
    assert caplog.messages == ["<string>: 3 angles replaced by quarter turns, changed by up to 4.9e-12 rad"]
    assert snapped.count("forward_dynamics").total < plain.count("forward_dynamics").total
    rng = np.random.default_rng(2)
    q, v, tau = rng.uniform(-1.0, 1.0, (3, 3))
    one, other = (robot.forward_dynamics.engine("reference")(q, v, tau) for robot in (plain, snapped))
    assert 0.0 < np.abs(one - other).max() < 1e-9


def test_it_is_a_switch() -> None:
    with pytest.raises(InputError, match="snap_angles=1e-06 is neither True nor False"):
        kt.load(urdf("0 0 0"), snap_angles=1e-6)  # type: ignore[arg-type]
