"""Loading: numbers that are remembered by how they are written, and couplings that are refused."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import LoadError, ModelWarning
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
