"""Loading: numbers remembered by how they are written, couplings that are refused, angles taken as quarter turns."""

from __future__ import annotations

import logging
import random
import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, LoadError, ModelWarning
from kinetree.io import document
from kinetree.model.model import Model
from tests.fuzz.mutations import ROBOT, mutated


def outcome(data: str | bytes, **options: Any) -> tuple[object, list[str]]:
    """The model, or the message of the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result: object = kt.load(data, **options)
        except LoadError as error:
            result = str(error)
    return result, [str(each.message) for each in caught]


def without_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every number to the code that explains what is wrong with it."""
    monkeypatch.setattr(document._Vectors, "__missing__", lambda *_: ())


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_the_memo_neither_accepts_nor_changes_anything(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    files = [mutated(random.Random(seed)) for seed in range(start, start + 100)]
    quick = [outcome(file) for file in files]
    without_memo(monkeypatch)
    for file, found in zip(files, quick, strict=True):
        assert outcome(file) == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('lower="-1" upper="1" velocity="3" effort="40"', limit)
        for limit in (
            'lower="-1" upper="1" effort="40"/><dynamics velocity="3"',
            'upper="1" effort="40" lower="-1" velocity="3"',
            'lower="-1" upper="1" velocity="inf" effort="1e16"',
            'lower="-1e16" upper="1e300" velocity="3" effort="40"',
            'lower="-inf" upper="inf" velocity="3" effort="40"',
            'lower="1" upper="-1" velocity="3" effort="40"',
            'lower="-1" upper="1" velocity="-3" effort="x"',
            'lower="-1" upper="1" velocity="3"',
            'lower=" -1 " upper="&#9;1&#10;" velocity="3" effort="40"',
            'lower="-1" upper="1_0" velocity="3" effort="40"',
            'lower="-1" upper="1" velocity="3" effort="40" speed="fast"',
            f'lower="-1" upper="1" velocity="3" effort="4{"0" * 1000}"',
        )
    ]
    + [
        ('xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"', pose)
        for pose in (
            'rpy="0.1 0.2 0.3" xyz="0.1 0 0.2"',
            'xyz="0.1&#9;0&#10;0.2"',
            'xyz="7e99 7e99 7e99"',
            'xyz="1e101 0 0"',
            'xyz="0 0" rpy="0 0 0 0"',
            'xyz="0 0 ١"',
            'xyz="0 0 1_0"',
            'quat_xyzw="0 0 0 2" xyz="1 2 3"',
            'quat_xyzw="0 0 0 2" rpy="1 2 3" xyz="1"',
            f'xyz="0 0{" " * 1000}0"',
        )
    ]
    + [
        ('ixx="0.1" ixy="0.01" ixz="0" iyy="0.12" iyz="0" izz="0.09"', inertia)
        for inertia in (
            'izz="0.09" iyy="0.12" ixx="0.1"',
            'ixx="0.1" ixy="0.01" ixz="0" iyy="0.12" iyz="0"',
            'ixx="nan" ixy="0.01" ixz="0" iyy="0.12" iyz="0" izz="0.09"',
            'ixx="0.1 0" ixy="0.01" ixz="0" iyy="0.12" iyz="0" izz="0.09"',
        )
    ],
)
def test_the_memo_and_unusual_numbers(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    assert old in ROBOT
    text = ROBOT.replace(old, new)
    quick = outcome(text)
    without_memo(monkeypatch)
    assert outcome(text) == quick


def test_a_loaded_model_counts_its_coordinates() -> None:
    robot = kt.load(ROBOT)
    assert robot.nq == 1 + 1 + 1 + 4 + 3 + 7
    assert robot.nv == 1 + 1 + 1 + 3 + 3 + 6
    assert len(robot.bodies) == 9
    assert [joint.name for joint in robot.joints if joint.coupled] == ["thumb"]


@pytest.mark.parametrize("mimic", ["couple", "independent", "lock"])
def test_a_loaded_model_is_made_of_its_parts(mimic: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        fresh, other = (kt.load(ROBOT, mimic=mimic) for _ in range(2))
    whole = Model(other.name, other.gravity, other.bodies, other._every_joint, constraints=other.joint_constraints)
    assert fresh == whole
    assert hash(fresh) == hash(whole)
    assert (fresh.nq, fresh.nv) == (whole.nq, whole.nv)


def test_couplings_are_refused_when_the_file_is_loaded() -> None:
    old, new = ('<mimic joint="finger" multiplier="-1" offset="0.01"/>', '<mimic joint="finger" multiplier="1e-13"/>')
    with pytest.raises(LoadError, match="no freedom"):
        kt.load(ROBOT.replace(old, new))


def test_extreme_multipliers_and_chains_are_checked_when_the_file_is_loaded() -> None:
    joints = "".join(
        f'<link name="l{i}"/><joint name="j{i}" type="continuous"><parent link="base"/><child link="l{i}"/>'
        f"{rule}</joint>"
        for i, rule in enumerate(["", '<mimic joint="j0" multiplier="2"/>', '<mimic joint="j1" multiplier="1e-7"/>'])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot = kt.load(f'<robot name="chain"><link name="base"/>{joints}</robot>')
    np.testing.assert_array_equal(robot.neutral(), [0.0])
    assert robot.nv == 1


def test_clusters_that_may_be_too_large_are_refused_when_the_file_is_loaded() -> None:
    links = "".join(f'<link name="l{i}"/>' for i in range(70))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i - 1}"/><child link="l{i}"/>'
        + ('<mimic joint="j1"/>' if i == 69 else "")
        + "</joint>"
        for i in range(1, 70)
    )
    with pytest.raises(LoadError, match='69 bodies.*load with mimic="independent"'):
        kt.load(f'<robot name="long">{links}{joints}</robot>')


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
