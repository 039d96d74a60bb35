"""Frames of nodes are Kinetree's choice: results are those of the same robot with the frames of its joints."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.papers.general import general
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.kinematics.frame_kinematics import poses
from kinetree.language.algorithm import Algorithm
from kinetree.model.assembly.assembly import assemble
from kinetree.runtime import reference
from tests.tolerance import assert_close, bound, condition
from tests.trees import mixed, random_mechanism

Array = np.ndarray[Any, np.dtype[np.float64]]


def turn(axis: int, angle: float) -> Array:
    """A rotation about a coordinate axis."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[u, u], R[v, v], R[u, v], R[v, u] = np.cos(angle), np.cos(angle), -np.sin(angle), np.sin(angle)
    return R


#: Axes of children relative to their parent's: every branch that placements distinguish, and those next to them.
DIRECTIONS = {
    "parallel": np.eye(3),
    "opposite": turn(0, np.pi),
    **{f"quarter {i}": turn(2, i * np.pi / 2) @ turn(0, np.pi / 2) for i in range(4)},
    "right angle": turn(2, 0.7) @ turn(0, np.pi / 2),
    "tilted": turn(2, 0.7) @ turn(0, 0.9),
    "tilted about x": turn(0, -0.9),
    "nearly parallel": turn(2, 0.7) @ turn(0, 1e-3),
    "hardly tilted": turn(2, 0.7) @ turn(0, 1e-9),
    "nearly opposite": turn(2, 0.7) @ turn(0, np.pi - 1e-7),
    "nearly a quarter": turn(0, np.pi / 2 + 1e-8),
    "tilted by rounding": turn(2, 0.7) @ turn(0, 3e-16),
}


def branches(base: str, joint: str) -> kt.Model:
    """Two joints in each direction on one body."""
    rng = np.random.default_rng(len(base) + len(joint))
    builder = kt.Builder(f"{joint} on {base}", gravity=(0.3, -0.5, -9.7))
    pitch = {"pitch": 0.1} if joint == "helical" else {}
    own: dict[str, Any] = {"mass": 1.0, "com": (0.1, -0.2, 0.05), "inertia": np.diag([0.02, 0.03, 0.04])}
    builder.add_body("base", joint=base, placement=(turn(1, 0.3), (0.1, 0.2, 0.3)), **own)
    for name, R in DIRECTIONS.items():
        at = (R, np.zeros(3) if name == "tilted" else rng.uniform(-0.5, 0.5, 3))
        builder.add_body(name, parent="base", joint=joint, placement=at, **own, **pitch)
        builder.add_body(f"{name}, next", parent=name, joint=joint, placement=at, armature=0.1, **own, **pitch)
        builder.add_frame(f"{name}, tip", body=f"{name}, next", placement=(turn(1, 0.4), (0.1, 0.0, 0.2)))
    return builder.build()


MODELS: dict[str, Callable[[], kt.Model]] = {
    **{
        f"{joint} on {base}": lambda base=base, joint=joint: branches(base, joint)
        for base, joint in (
            ("revolute", "revolute"),
            ("floating", "revolute"),
            ("spherical", "helical"),
            ("prismatic", "revolute"),
            ("revolute", "prismatic"),
            ("cylindrical", "cylindrical"),
        )
    },
    "every kind": lambda: random_mechanism("every kind", mixed(20, 4), 4, armature=0.5).kinetree(),
    "forest": lambda: random_mechanism("forest", mixed(15, 24), 24, roots=3).kinetree(),
    "chain": lambda: random_mechanism("chain", ["revolute"] * 9, 3, branching=0.0).kinetree(),
    "humanoid24": kt.zoo.humanoid24,
}


@cache
def model(name: str) -> kt.Model:
    return MODELS[name]()


def run(robot: kt.Model, reframed: bool, algorithm: Algorithm, *arguments: Array) -> Array:
    """An algorithm on the robot, with frames moved or not."""
    mechanism, sites = robot.mechanism, robot.sites
    if not reframed:
        joints = {joint.child: joint for joint in (*robot.joints, *robot.fixed_joints)}
        assembled = assemble(robot.bodies, joints, robot.extra_frames, robot.gravity, reframed=False)
        mechanism, sites = assembled.mechanism, assembled.sites()
    (result,) = reference.run(algorithm, mechanism, sites, arguments)
    return result


@pytest.mark.parametrize("name", MODELS)
def test_results_do_not_depend_on_frames(name: str) -> None:
    robot, rng = model(name), np.random.default_rng(7)
    q = robot.random_configuration(rng)
    v, a, dq, dv, da = rng.uniform(-1.0, 1.0, (5, robot.nv))
    wrenches = rng.uniform(-1.0, 1.0, (len(robot.sites), 6))
    kappa = condition(run(robot, True, mass_matrix, q))
    checks: list[tuple[Algorithm, tuple[Array, ...], float]] = [
        (poses, (q,), 0.0),
        (inverse_dynamics, (q, v, a, wrenches), 0.0),
        (mass_matrix, (q,), 0.0),
        (forward_dynamics, (q, v, a, wrenches), kappa),
        (mass_matrix_inverse, (q,), kappa),
        (forward_dynamics_jvp, (q, v, a, dq, dv, da, wrenches), kappa),
    ]
    for algorithm, arguments, loss in checks:
        results = [run(robot, reframed, algorithm, *arguments) for reframed in (True, False)]
        assert_close(*results, bound(robot.nv, loss))


def test_general_placements_can_still_be_counted() -> None:
    robot = kt.zoo.humanoid24()
    assert {kind.name for kind in general(robot).kinds} == {"revolute"}
    assert general(robot).parents == robot.mechanism.parents


def test_a_robot_far_away_on_a_slide_loses_no_digit() -> None:
    """Frames are not shifted before the first joint that rotates, whatever the offsets along axes are."""
    rng = np.random.default_rng(3)
    own: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0.0, 0.02), "inertia": np.diag([0.02, 0.03, 0.04])}

    def robot(distance: float) -> kt.Model:
        builder = kt.Builder("sled")
        builder.add_body("slide", joint="prismatic", axis=(1.0, 0.0, 0.0), **own)
        builder.add_body("lift", parent="slide", joint="prismatic", placement=(turn(0, 0.3), (0, 0, distance)), **own)
        builder.add_body("arm", parent="lift", placement=(np.eye(3), (0.0, 0.0, distance)), **own)
        builder.add_body("hand", parent="arm", placement=(turn(0, np.pi / 2), (0.3, 0.2, 0.1)), **own)
        return builder.build()

    q, v, a = rng.uniform(-1.0, 1.0, (3, 4))
    near, far = robot(0.0), robot(1e7)
    tolerance = bound(4, condition(near.mass_matrix.engine("reference")(q)))
    for function in ("inverse_dynamics", "forward_dynamics"):
        results = [getattr(each, function).engine("reference")(q, v, a) for each in (far, near)]
        assert_close(*results, tolerance)
