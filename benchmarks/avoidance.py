"""Differential inverse kinematics that keeps two arms apart, against pink and mink with the same twelve rows.

Part of `python -m benchmarks.control`. Two arms of seven joints, a capsule along each link, 69 pairs; targets of both
hands between the arms, which a clear configuration reaches. A run succeeds if both hands arrive within 10 mm and
nothing ever comes closer than 1 mm less than the distance to keep. All start from the same states, and solve with DAQP;
times are those of states on the way of Kinetree.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin

import kinetree as kt
from benchmarks.robots import Array
from benchmarks.table import Table
from benchmarks.timing import race
from kinetree import control
from kinetree import geometry as geo

APART, WITHIN, ROWS, DT, STEPS, GAIN, SHARE = 0.02, 0.15, 12, 0.02, 250, 0.25, 0.5
RUNS, POOL_RUNS, POOL = 20, 8, 10
_LENGTHS = (0.15, 0.2, 0.15, 0.2, 0.12, 0.1, 0.08)
_OFFSETS = (0.15, 0.05, 0.2, 0.15, 0.2, 0.12, 0.1)
HANDS = ("left_hand", "right_hand")

#: A step of a peer: from q to the next one.
Step = Callable[[Array], Array]


def arms() -> tuple[kt.Model, geo.CollisionPairs]:
    """The robot, and its pairs."""
    builder, shapes = kt.Builder("arms"), []
    for side, y in (("left", 0.22), ("right", -0.22)):
        parent = "world"
        for i, (offset, length) in enumerate(zip(_OFFSETS, _LENGTHS, strict=True)):
            at = (0.0, 0.0, offset) if i else (0.0, y, 0.1)
            builder.add_body(
                f"{side}{i}", parent=parent, joint="revolute", axis=(0, i % 2, 1 - i % 2), placement=(np.eye(3), at),
                mass=2.0, com=(0.0, 0.0, length / 2), inertia=0.01 * np.eye(3),
                limits=kt.Limits(lower=-2.6, upper=2.6, velocity=2.5, effort=100.0),
            )  # fmt: skip
            parent = f"{side}{i}"
            shapes.append(geo.Capsule(parent, (0, 0, 0), (0, 0, length), 0.055 if i < 4 else 0.045))
    robot = builder.build().with_shapes(shapes)
    for side in ("left", "right"):
        robot = robot.with_frame(f"{side}_hand", f"{side}6", (np.eye(3), (0.0, 0.0, 0.1)))
    pairs = robot.collision_pairs(keep_colliding=True)
    for side in ("left", "right"):
        for i in range(5):
            pairs = pairs.without(f"{side}{i}", f"{side}{i + 2}")
    return robot, pairs


def problems(robot: kt.Model, pairs: geo.CollisionPairs) -> tuple[Array, Array]:
    """Starts, (n, nq), and positions of both hands to be reached, (n, 2, 3)."""
    rng, found = np.random.default_rng(1), np.empty((0, robot.nq))
    while len(found) < 2 * RUNS:
        q = rng.uniform(-1.3, 1.3, (2000, robot.nq)) + 0.8 * (np.arange(robot.nq) % 7 == 3)
        q = q[robot.clearance(q, pairs) > APART + 0.03]
        hands = robot.pose(q, list(HANDS))[..., :3, 3]
        between = (np.abs(hands[..., 1]) < 0.25).all(axis=1) & (np.linalg.norm(hands[:, 0] - hands[:, 1], axis=1) < 0.5)
        found = np.concatenate([found, q[between]])
    return found[: 2 * RUNS : 2], robot.pose(found[1 : 2 * RUNS : 2], list(HANDS))[..., :3, 3]


def avoidance(seconds: float) -> Table:
    """A step of differential inverse kinematics with twelve rows of distances, and how many runs succeed.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        "differential inverse kinematics of two arms, 12 rows of distances; all with DAQP",
        ["", "a step", "× Kinetree", "runs that succeed", "closest"],
    )
    robot, pairs = arms()
    starts, goals = problems(robot, pairs)
    solver = control.DifferentialIK(
        robot, [control.Goal(kt.Task(hand, "position")) for hand in HANDS], gain=GAIN, posture_weight=0.0, damping=1e-3,
        approach=SHARE, avoid=control.Avoid(pairs, APART, WITHIN, ROWS),
    )  # fmt: skip

    def own(goal: Array) -> Step:
        targets = dict(zip(HANDS, goal, strict=True))
        return lambda q: robot.integrate(q, solver(q, targets, DT), DT)

    contenders: dict[str, Callable[[Array], Step]] = {"Kinetree": own}
    for name, peer in (("pink", _pink), ("mink", _mink)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = peer(robot, pairs)
        if started is not None:
            contenders[name] = started
    logging.disable(logging.WARNING)  # pink's, of joints 1e-6 beyond their limits
    films = {name: _runs(starts, goals, begin) for name, begin in contenders.items()}
    results = {name: _results(robot, pairs, film, goals) for name, film in films.items()}
    states = films["Kinetree"][:POOL_RUNS, :: STEPS // POOL]
    calls: dict[str, Any] = {}
    for name, begin in contenders.items():
        steps = [begin(goal) for goal in goals[:POOL_RUNS]]
        calls[name] = (_step, [(step, q) for step, film in zip(steps, states, strict=True) for q in film])
    times = race(calls, seconds)
    logging.disable(logging.NOTSET)
    for name, (success, closest) in results.items():
        ratio = f"{times[name] / times['Kinetree']:.1f}×"
        made.add(name, f"{1e6 * times[name]:.3g} µs", ratio, f"{success} of {RUNS}", f"{1e3 * closest:.1f} mm")
    return made


def _step(step: Step, q: Array) -> Array:
    return step(q)


def _runs(starts: Array, goals: Array, begin: Callable[[Array], Step]) -> Array:
    """All configurations of all runs, (n, steps + 1, nq)."""
    films = []
    for q, goal in zip(starts, goals, strict=True):
        step, film = begin(goal), [q]
        for _ in range(STEPS):
            film.append(np.array(step(film[-1])))
        films.append(film)
    return np.array(films)


def _results(robot: kt.Model, pairs: geo.CollisionPairs, films: Array, goals: Array) -> tuple[int, float]:
    """How many runs succeed, and the smallest distance."""
    least = robot.clearance(films, pairs).min(axis=1)
    off = np.linalg.norm(robot.pose(films[:, -1], list(HANDS))[..., :3, 3] - goals, axis=-1).max(axis=1)
    return int(((off < 0.01) & (least > APART - 1e-3)).sum()), float(least.min())


def _pink(robot: kt.Model, pairs: geo.CollisionPairs) -> Callable[[Array], Step] | None:
    try:
        import coal
        import pink
        from pink.barriers import SelfCollisionBarrier
    except ImportError:
        return None
    model = pin.buildModelFromXML(kt.to_urdf(robot.with_shapes([])))
    geometry = pin.GeometryModel()
    for shape in pairs.shapes:
        frame = model.frames[model.getFrameId(shape.body)]
        place = frame.placement * pin.SE3(np.eye(3), np.array([0.0, 0.0, shape.half[2]]))  # along z from the joint
        geometry.addGeometryObject(
            pin.GeometryObject(shape.name, frame.parentJoint, place, coal.Capsule(shape.around, 2 * shape.half[2]))
        )
    for i, j in pairs.numbers.tolist():
        geometry.addCollisionPair(pin.CollisionPair(i, j))

    def begin(goal: Array) -> Step:
        tasks: list[Any] = [pink.tasks.FrameTask(hand, 1.0, 0.0, gain=GAIN) for hand in HANDS]
        for task, target in zip(tasks, goal, strict=True):
            task.set_target(pin.SE3(np.eye(3), target))
        tasks.append(pink.tasks.DampingTask(cost=0.03))
        barrier = SelfCollisionBarrier(ROWS, gain=SHARE / DT, safe_displacement_gain=0.0, d_min=APART)
        configuration = pink.Configuration(
            model, model.createData(), robot.neutral(), collision_model=geometry,
            collision_data=pin.GeometryData(geometry),
        )  # fmt: skip

        def step(q: Array) -> Array:
            configuration.update(q)
            v = pink.solve_ik(configuration, tasks, DT, "daqp", barriers=[barrier], safety_break=False)
            return np.asarray(configuration.integrate(v, DT))

        return step

    return begin


def _mink(robot: kt.Model, pairs: geo.CollisionPairs) -> Callable[[Array], Step] | None:
    try:
        import mink
        import mujoco
    except ImportError:
        return None
    m = mujoco.MjModel.from_xml_string(kt.to_mjcf(robot))
    collisions = mink.CollisionAvoidanceLimit(
        m, [([a], [b]) for a, b in pairs], gain=SHARE * DT, minimum_distance_from_collisions=APART,
        collision_detection_distance=WITHIN,
    )  # fmt: skip
    fastest = {m.joint(k).name: 2.5 for k in range(m.njnt)}
    limits = [mink.ConfigurationLimit(m), mink.VelocityLimit(m, fastest), collisions]

    def begin(goal: Array) -> Step:
        configuration = mink.Configuration(m)
        tasks: list[Any] = [mink.FrameTask(hand, "site", 1.0, 0.0, gain=GAIN) for hand in HANDS]
        for task, target in zip(tasks, goal, strict=True):
            task.set_target(mink.SE3.from_rotation_and_translation(mink.SO3.identity(), target))
        tasks.append(mink.DampingTask(m, cost=0.03))

        def step(q: Array) -> Array:
            configuration.update(q)
            v = mink.solve_ik(configuration, tasks, DT, "daqp", limits=limits)
            return np.asarray(configuration.integrate(v, DT))

        return step

    return begin
