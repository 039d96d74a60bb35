"""Distances between capsules along the links of robots, against `pinocchio.computeDistances` on the same capsules.

python -m benchmarks.distances [--only Panda Talos]
"""

from __future__ import annotations

import argparse
from typing import Any

import coal
import numpy as np
import pinocchio as pin

import kinetree as kt
from benchmarks import robots
from benchmarks.timing import pin_to_one_core, processor, race
from kinetree import geometry as geo

#: Samples of a batch.
BATCH = 256
_THICKNESS = 0.04


def capsules(robot: kt.Model) -> kt.Model:
    """The robot with a capsule from the joint of each link to each of the next ones, or to its centre of mass."""
    ends: dict[str, list[Any]] = {body.name: [] for body in robot.bodies}
    for joint in robot.joints:
        if joint.parent in ends:
            ends[joint.parent].append(joint.placement[:3, 3])
    shapes = [
        geo.Capsule(body.name, (0.0, 0.0, 0.0), end, _THICKNESS)
        for body in robot.bodies
        for end in ends[body.name] or [body.com]
    ]
    return robot.with_shapes(shapes)


def peer(robot: robots.Robot, pairs: geo.CollisionPairs) -> Any:
    """The function of Pinocchio's configurations."""
    model, geometry = robot.pinocchio, pin.GeometryModel()
    joints = {joint.child: 1 + i for i, joint in enumerate(robot.model.joints)}
    for shape in pairs.shapes:
        core = coal.Capsule(shape.around, 2.0 * shape.half[2])
        at = pin.SE3(np.array(shape.pose))
        geometry.addGeometryObject(pin.GeometryObject(shape.name, joints[str(shape.body)], at, core))
    for i, j in pairs.numbers.tolist():
        geometry.addCollisionPair(pin.CollisionPair(i, j))
    data, found = model.createData(), geometry.createData()

    def call(q: Any) -> Any:
        pin.computeDistances(model, data, geometry, found, q)
        return found.distanceResults

    return call


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(robots.NAMES), choices=robots.NAMES)
    chosen = parser.parse_args().only
    print(f"core {pin_to_one_core()} of {processor()}; times of Pinocchio in units of Kinetree's")
    print("| robot | pairs | Pinocchio [µs] | d | d of a batch | d, n, points | of a batch | float32 |")
    for name in chosen:
        robot = robots.load(name)
        model = capsules(robot.model)
        pairs = model.collision_pairs(keep_colliding=True)
        theirs = peer(robot, pairs)
        q = model.random_configuration(np.random.default_rng(0), (BATCH,))
        converted = robot.order.to_q(q)
        mine = model.distances(q[0], pairs).distance
        difference = np.abs(mine - [result.min_distance for result in theirs(converted[0])]).max()
        if not difference < 1e-9:
            raise AssertionError(f"{name}: distances differ by {difference:.1e} m")
        small = model.astype("float32")
        alone, details = (model._distance_function(pairs, detailed) for detailed in (False, True))
        of_float32 = small._distance_function(pairs, True)
        for function in (alone, details, of_float32):
            function.compile()
        times = race(
            {
                "theirs": (theirs, [(x,) for x in converted]),
                "d": (alone, [(x,) for x in q]),
                "d of a batch": (alone, [(q,)]),
                "all": (details, [(x,) for x in q]),
                "all of a batch": (details, [(q,)]),
                "float32": (of_float32, [(q.astype(np.float32),)]),
            }
        )
        base = times.pop("theirs")
        batches = ("d of a batch", "all of a batch", "float32")
        ratios = [base * (BATCH if key in batches else 1) / seconds for key, seconds in times.items()]
        cells = " | ".join(f"{ratio:.1f}×" for ratio in ratios)
        print(f"| {name} | {len(pairs)} | {1e6 * base:.1f} | {cells} |")


if __name__ == "__main__":
    main()
