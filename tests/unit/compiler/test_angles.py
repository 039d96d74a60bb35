"""Angles whose sines and cosines are computed ahead: which they are, where they are, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.compiler.ir import Op, walk
from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.passes.hoist import ANGLES, MOST_LANES
from kinetree.compiler.programs import lowered, variants_of
from tests.mechanisms import NEAR, four_bar
from tests.trees import serial


def chain(kinds: Sequence[str]) -> kt.Model:
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.2), "inertia": np.eye(3) / 9, "placement": (np.eye(3), (0.3, 0.1, 0.0))}
    own = {"helical": {"pitch": 0.1}, "universal": {"axes": np.eye(3)[:2]}}
    return serial({"joint": kind, **solid, **own.get(kind, {})} for kind in kinds).build()


def program_of(robot: kt.Model) -> Lowered:
    return lowered(forward_dynamics, variants_of(forward_dynamics, robot.mechanism, ()))


def positions(robot: kt.Model) -> list[int]:
    """Positions of the angles in q, as kernels read them."""
    mechanism, program = robot.mechanism, program_of(robot)
    tables = Tables(forward_dynamics, variants_of(forward_dynamics, mechanism, ()), mechanism, (), program.metadata)
    packed, workspace = tables.packed()
    start, count, kept = (int(packed[program.head.index(name)]) for name in ANGLES)
    assert workspace - kept == 2 * MOST_LANES * -(-count // MOST_LANES)
    return packed[start : start + count].tolist()


def test_every_sine_and_cosine_of_a_coordinate_is_found() -> None:
    program = program_of(chain(("revolute", "planar", "cylindrical", "helical", "universal")))
    found = [item for item in walk(program.program.top) if isinstance(item, Op) and item.code in ("sin", "cos")]
    assert program.angles is not None
    assert {id(op) for op in found} == {id(op) for op, _ in program.angles.ops}


def test_positions() -> None:
    assert positions(chain(("revolute", "revolute"))) == [0, 1]
    # θ is the third coordinate of a planar joint; nodes without an angle have the place of some number
    assert positions(chain(("planar", "prismatic", "cylindrical", "spherical", "revolute"))) == [2, 3, 4, 6, 10]


def test_nodes_behind_the_last_angle_have_no_place() -> None:
    assert positions(chain(("revolute", "helical", "prismatic", "prismatic"))) == [0, 1]


def test_a_robot_without_angles() -> None:
    robot = chain(("prismatic", "spherical"))
    assert program_of(robot).angles is None
    assert np.all(np.isfinite(robot.forward_dynamics(robot.neutral(), np.zeros(robot.nv), np.ones(robot.nv))))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 17])
def test_bits_of_a_single_sample(count: int, dtype: str) -> None:
    kinds = ("revolute", "planar", "prismatic", "cylindrical", "revolute", "spherical", "helical")
    robot = chain([kinds[i % len(kinds)] for i in range(count)]).astype(dtype)
    rng = np.random.default_rng(count)
    q = robot.random_configuration(rng, shape=(16,)).astype(dtype)
    v, tau = (rng.standard_normal((16, robot.nv)).astype(dtype) for _ in range(2))
    batch = robot.forward_dynamics(q, v, tau)
    assert np.array_equal(batch, [robot.forward_dynamics(*sample) for sample in zip(q, v, tau)])


def test_nodes_of_several_angles() -> None:
    """A four-bar is one node of three angles; the others are computed where they are needed."""
    robot = four_bar().connect("tip", "pin").build(near=NEAR)
    q = robot.random_configuration(0, (9,))
    v = np.ones((9, robot.nv))
    batch = robot.inverse_dynamics(q, v, v)
    assert np.array_equal(batch, [robot.inverse_dynamics(*sample) for sample in zip(q, v, v)])


def test_an_angle_that_is_no_number_stays_in_its_node() -> None:
    robot = kt.zoo.chain(4)
    q = np.array([0.1, np.nan, 0.2, 0.3])
    poses = robot.pose(q, [robot.bodies[0].name, robot.bodies[-1].name])
    assert np.all(np.isfinite(poses[0]))
    assert not np.all(np.isfinite(poses[1]))
