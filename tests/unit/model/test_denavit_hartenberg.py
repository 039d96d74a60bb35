"""Robots from Denavit–Hartenberg tables: poses by the matrices of the book, dynamics in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[np.float64]]


def matrix(row: kt.DHRow, q: float, convention: str) -> Array:
    """Frame i in frame i−1, entry by entry as the books print it."""
    theta = row.theta + (q if row.joint == "revolute" else 0.0)
    d = row.d + (q if row.joint == "prismatic" else 0.0)
    ct, st, ca, sa, a = math.cos(theta), math.sin(theta), math.cos(row.alpha), math.sin(row.alpha), row.a
    if convention == "standard":
        rows = [[ct, -st * ca, st * sa, a * ct], [st, ct * ca, -ct * sa, a * st], [0, sa, ca, d], [0, 0, 0, 1]]
    else:
        rows = [[ct, -st, 0, a], [st * ca, ct * ca, -sa, -sa * d], [st * sa, ct * sa, ca, ca * d], [0, 0, 0, 1]]
    return np.array(rows, dtype=float)


def table(seed: int) -> list[kt.DHRow]:
    rng = np.random.default_rng(seed)
    kinds = ["revolute", "prismatic", "revolute", "revolute", "prismatic", "revolute"]
    return [kt.DHRow(*rng.uniform(-1.5, 1.5, 4), joint, mass=1.0, inertia=np.eye(3)) for joint in kinds]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("convention", ["standard", "modified"])
def test_poses_are_products_of_matrices(convention: str, seed: int) -> None:
    rows = table(seed)
    base = np.eye(4)
    base[:3, 3] = 0.1, 0.2, 0.3
    tool = np.eye(4)
    tool[:3, 3] = 0.0, 0.0, 0.5
    robot = kt.from_dh(rows, convention=convention, base=base, tool=tool)
    q = robot.random_configuration(seed)
    expected = base
    for i, (row, angle) in enumerate(zip(rows, q, strict=True), start=1):
        expected = expected @ matrix(row, angle, convention)
        assert_close(robot.pose(q, f"link{i}"), expected, bound(robot.nv))
    assert_close(robot.pose(q, "tool"), expected @ tool, bound(robot.nv))


@pytest.mark.parametrize("convention", ["standard", "modified"])
def test_a_planar_arm_in_closed_form(convention: str) -> None:
    """Two links of length l with their masses half way; standard frames are at the links' ends."""
    length, mass, moment = 0.7, 2.0, 0.3
    inertia = np.diag([0.1, moment, moment])
    com = (-length / 2, 0, 0) if convention == "standard" else (length / 2, 0, 0)
    first, second = (length, length) if convention == "standard" else (0.0, length)
    rows = [kt.DHRow(a=a, mass=mass, com=com, inertia=inertia) for a in (first, second)]
    robot = kt.from_dh(rows, convention=convention)
    q = np.array([0.4, -0.9])
    half, cosine = length / 2, math.cos(q[1])
    far = moment + mass * half**2
    both = far + mass * length * half * cosine
    M = [[2 * far + mass * length**2 + 2 * mass * length * half * cosine, both], [both, far]]
    assert_close(robot.mass_matrix(q), np.array(M), bound(2))


def test_rows_of_numbers_and_names() -> None:
    robot = kt.from_dh([(0.1, 0.2, 0.3, 0.4), kt.DHRow(name="hand", armature=0.1)], convention="modified", name="arm")
    assert robot.name == "arm"
    assert robot.frames == ("world", "base", "link1", "hand")
    assert [joint.name for joint in robot.joints] == ["joint1", "joint2"]
    assert robot.joints[1].armature == 0.1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one row"),
        ("abcd", "needs rows.* got str"),
        (5, "needs rows.* got int"),
        ([(1, 2, 3)], "row 1 of the table, .* is neither a DHRow"),
        ([(0, 0, 0, 0), None], "row 2 of the table, None, is neither a DHRow"),
        ([(0, 0, 0, math.nan)], "row 1 of the table: theta=nan is not a finite number"),
        ([kt.DHRow(a="long")], "row 1 of the table: a='long' is not a finite number"),  # type: ignore[arg-type]
    ],
)
def test_tables_that_are_none(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kt.from_dh(rows, convention="standard")


def test_what_a_table_cannot_say() -> None:
    with pytest.raises(InputError, match="convention='craig' is not known; choose one of 'standard', 'modified'"):
        kt.from_dh([(0, 0, 0, 0)], convention="craig")
    with pytest.raises(ModelError, match="row 1 of the table: joint='planar' must be 'revolute' or 'prismatic'"):
        kt.from_dh([kt.DHRow(joint="planar")], convention="standard")
    with pytest.raises(ModelError, match="body 'link1'"):
        kt.from_dh([kt.DHRow(mass=-1.0)], convention="modified")
