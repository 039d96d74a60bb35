"""Robots far away on slides: nothing that does not depend on where they are loses a digit there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.language.common_frame import in_common_frame
from kinetree.runtime.function import Function
from kinetree.tasks import METHODS
from tests.laws.cases import ENGINES
from tests.tolerance import assert_close, bound, condition
from tests.trees import random_inertia, random_rotation, unit

DISTANCES = (1e4, 1e6, 1e8)


class _Robot:
    """Builds bodies of random shape one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = kt.Builder("sled")

    def add(self, name: str, parent: str, joint: str, mass: float = 1.0, reach: float = 0.5) -> None:
        inertia = random_inertia(self.rng, mass) if mass else None
        axis = unit(self.rng) if joint in ("revolute", "prismatic", "planar", "cylindrical", "helical") else None
        com = self.rng.uniform(-0.2, 0.2, 3) if mass else np.zeros(3)
        place = random_rotation(self.rng), self.rng.uniform(-reach, reach, 3)
        self.builder.add_body(
            name,
            parent=parent,
            joint=joint,
            placement=place,
            axis=axis,
            mass=mass,
            com=com,
            inertia=inertia,
            pitch=0.1 if joint == "helical" else None,
        )

    def arm(self, prefix: str, parent: str, *joints: str) -> None:
        for index, joint in enumerate(joints):
            name = f"{prefix}{index + 1}"
            self.add(name, parent, joint)
            parent = name


def _sled(mass: float) -> kt.Model:
    robot = _Robot(1)
    robot.add("x", "world", "prismatic", mass)
    robot.add("y", "x", "prismatic", mass)
    robot.arm("arm", "y", "revolute", "revolute", "prismatic", "revolute")
    return robot.builder.build()


def _drone() -> kt.Model:
    robot = _Robot(2)
    robot.add("carriage", "world", "translational", 0.0)
    robot.add("shaft", "carriage", "revolute", 0.3)
    robot.arm("arm", "shaft", "spherical", "revolute", "helical")
    return robot.builder.build()


def _two_arms(mass: float) -> kt.Model:
    robot = _Robot(3)
    robot.add("bridge", "world", "prismatic", mass)
    robot.arm("left", "bridge", "prismatic", "revolute", "revolute", "revolute")
    robot.arm("right", "bridge", "revolute", "planar", "revolute")
    return robot.builder.build()


ROBOTS: dict[str, tuple[Callable[[], kt.Model], int]] = {
    "massless carriages": (lambda: _sled(0.0), 2),
    "heavy carriages": (lambda: _sled(50.0), 2),
    "translational, shaft, ball": (_drone, 3),
    "two arms on a bridge": (lambda: _two_arms(20.0), 1),
    "two arms on a massless bridge": (lambda: _two_arms(0.0), 1),
}


@cache
def _model(name: str) -> kt.Model:
    return ROBOTS[name][0]()


class _State:
    """A state near the origin, and the same one with the slides pushed out."""

    def __init__(self, name: str, distance: float) -> None:
        self.robot = _model(name)
        rng = np.random.default_rng(5)
        self.near = self.robot.random_configuration(rng)
        self.v, self.x = rng.standard_normal((2, self.robot.nv))
        self.far = self.near.copy()
        self.far[: ROBOTS[name][1]] += distance * rng.choice([-1.0, 1.0], ROBOTS[name][1])
        #: Whether the carriages have no mass, so that nothing heavy stays behind.
        carriages = [body for body in self.robot.bodies if body.name in ("x", "y", "carriage", "bridge")]
        self.alone = all(body.mass == 0.0 for body in carriages)
        self.condition = condition(self.robot.mass_matrix(self.near))

    def compare(self, function: Callable[[Any], Any], inverted: bool = False) -> None:
        far, near = function(self.far), function(self.near)
        tolerance = bound(self.robot.nv, self.condition if inverted else 1.0)
        for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (far, near)), strict=True):
            assert_close(one, other, tolerance)


@pytest.fixture(params=[(name, d) for name in ROBOTS for d in DISTANCES], ids=lambda p: f"{p[0]}-{p[1]:.0e}")
def state(request: pytest.FixtureRequest) -> _State:
    return _State(*request.param)


@pytest.mark.parametrize("engine", ENGINES)
class TestNothingDependsOnTheDistance:
    def test_mass_matrix(self, state: _State, engine: str) -> None:
        state.compare(state.robot.mass_matrix.engine(engine))
        state.compare(state.robot.mass_matrix_inverse.engine(engine), inverted=True)

    def test_in_the_common_frame(self, state: _State, engine: str) -> None:
        for text in (mass_matrix, mass_matrix_inverse):
            function: Any = Function(text.name, state.robot.mechanism, in_common_frame(text))
            state.compare(function.engine(engine), inverted=text is mass_matrix_inverse)

    def test_coriolis_matrix(self, state: _State, engine: str) -> None:
        state.compare(lambda q: state.robot.coriolis_matrix.engine(engine)(q, state.v))

    def test_derivatives(self, state: _State, engine: str) -> None:
        robot, v, x = state.robot, state.v, state.x
        state.compare(lambda q: robot.inverse_dynamics_derivatives.engine(engine)(q, v, x))
        state.compare(lambda q: robot.forward_dynamics_derivatives.engine(engine)(q, v, x), inverted=True)

    def test_frames(self, state: _State, engine: str) -> None:
        robot, v = state.robot, state.v
        for frame in robot.frames:
            for reference in ("local", "local_world_aligned"):
                state.compare(lambda q, f=frame, r=reference: robot.jacobian.engine(engine)(q, f, r))
                state.compare(lambda q, f=frame, r=reference: robot.jacobian_rate.engine(engine)(q, v, f, r))
                state.compare(lambda q, f=frame, r=reference: robot.velocity_derivative.engine(engine)(q, v, f, r))
        state.compare(lambda q: robot.regressor.engine(engine)(q, v, state.x))

    def test_momentum(self, state: _State, engine: str) -> None:
        state.compare(state.robot.center_of_mass_jacobian.engine(engine))
        if state.alone:
            state.compare(state.robot.centroidal_momentum_matrix.engine(engine))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["massless carriages", "two arms on a bridge"])
def test_operational_space(name: str, method: str) -> None:
    """Tasks of single frames, and across branches that have reference points of their own."""
    state = _State(name, 1e6)
    robot = state.robot
    tips = [frame for frame in robot.frames if frame.endswith("3")]
    tasks: list[Any] = [kt.Task(tip, "position") for tip in tips]
    if len(tips) == 2:
        tasks += [kt.RelativeTask(*tips, (2, 5))]
    state.compare(robot.tasks(tasks, method=method).inverse_inertia, inverted=True)
    state.compare(robot.tasks(tasks, method=method).jacobian)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("distance", [0.0, 1e3, 1e6, 1e9])
def test_centroidal_momentum(engine: str, distance: float) -> None:
    """One robot on a floating base, wherever it is; the shift is exact in binary."""
    robot = kt.zoo.asimo35()
    q = robot.random_configuration(3)
    near, far = q.copy(), q.copy()
    near[:3] = 0.0
    far[:3] = distance, -distance, 2.0 * distance
    matrix = robot.centroidal_momentum_matrix.engine(engine)
    assert_close(matrix(far), matrix(near), bound(robot.nv))


def test_centroidal_momentum_of_a_forest_far_away() -> None:
    """Two robots side by side, both far away: their distance from each other matters, and nothing else."""
    one = kt.zoo.asimo35()
    both = one.attach("world", one, prefix="other_")
    near = both.random_configuration(0)
    near[:3], near[one.nq : one.nq + 3] = (0.25, 0.5, -0.125), (2.0, 1.0, 0.75)
    far = near.copy()
    far[:3] += 2.0**20
    far[one.nq : one.nq + 3] += 2.0**20
    assert_close(both.centroidal_momentum_matrix(far), both.centroidal_momentum_matrix(near), bound(both.nv))


def test_centroidal_momentum_of_carriages() -> None:
    """Momentum about the centre of mass, from first principles: Σ (c − com) × m v over bodies that only slide."""
    robot = _model("heavy carriages")
    q = _State("heavy carriages", 1e3).far
    com, A = robot.center_of_mass(q), robot.centroidal_momentum_matrix(q)
    poses = dict(zip(robot.frames, robot.pose(q), strict=True))
    x = poses["x"][:3, :3] @ robot.joint("x_joint").axes[0]
    places = [poses[b.name][:3, :3] @ b.com + poses[b.name][:3, 3] for b in robot.bodies]
    expected = sum(b.mass * np.cross(c - com, x) for b, c in zip(robot.bodies, places, strict=True))
    assert_close(A[:3, 0], expected, bound(robot.nv), scale=robot.mass * 1e3)
    assert_close(A[3:, 0], robot.mass * x, bound(robot.nv))
