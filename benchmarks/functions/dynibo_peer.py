"""What a user of dynibo, a library in Rust, calls for each function. `pip install dynibo`; without it, no calls.

It reads the URDF that Kinetree writes, so both have the same robot; joints are in breadth-first order. States of a
floating base are objects: they are made before the clock starts, like arrays. Angular and linear velocities of the base
are in world axes, and matrices come column by column in one vector.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

import kinetree as kt
from benchmarks.robots import Array, Robot

Calls = dict[str, Callable[..., Any]]


def calls(robot: Robot) -> Calls:
    """The calls by the names of Kinetree's functions; a state is what `states` makes of it."""
    if find_spec("dynibo") is None:
        return {}
    import dynibo

    model = robot.model
    floating = model.joints[0].kind == "floating"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "robot.urdf")
        # without further frames, which it would treat as bodies
        path.write_text(_urdf(kt.Model(model.name, model.gravity, model.bodies, model.joints, [])), encoding="utf-8")
        r: Any = (dynibo.FloatingRobot if floating else dynibo.Robot).from_urdf(str(path))
    link = r.link_id(model.bodies[-1].name)
    _compare(robot, r, floating)
    return {
        "inverse_dynamics": r.inverse_dynamics,
        "forward_dynamics": r.forward_dynamics,
        "mass_matrix": r.mass_matrix,
        "gravity_forces": r.gravity,
        "pose": lambda *state: r.forward_kinematics(*state, link),
        "velocity": lambda *state: r.forward_velocity_kinematics(*state, link),
        "acceleration": lambda *state: r.forward_acceleration_kinematics(*state, link),
        "jacobian": lambda *state: r.jacobian(*state, link),
        'jacobian, "world"': lambda *state: r.jacobian(*state, link),
        "tasks.jacobian": lambda *state: r.jacobian(*state, link),
        "jacobian_rate": lambda *state: r.jacobian_derivative(*state, link),
    }


def _urdf(model: kt.Model) -> str:
    """A robot as URDF, which for dynibo begins at the base, floating or not."""
    root = ET.fromstring(kt.to_urdf(model))
    for joint in root.findall("joint[@type='floating']"):
        parent = joint.find("parent")
        assert parent is not None
        root.remove(joint)
        for link in root.findall(f"link[@name='{parent.get('link')}']"):
            root.remove(link)
    return ET.tostring(root, encoding="unicode")


def samples(robot: Robot, name: str, letters: str, pool: list[tuple[Array, ...]]) -> list[tuple[Any, ...]]:
    """States as dynibo takes them: a base where it floats, and the joints' part of each array."""
    if robot.model.joints[0].kind != "floating":
        return list(pool)
    from dynibo import BaseState, Pose, Twist

    made, joints = [], _order(robot)
    for sample in pool:
        given = dict(zip(letters, sample))
        parts = {"frame": Pose(tuple(given["q"][:3]), tuple(np.roll(given["q"][3:7], -1)))}
        parts |= {
            kind: Twist(tuple(given[letter][:3]), tuple(given[letter][3:6]))
            for letter, kind in (("v", "velocity"), ("a", "acceleration"))
            if letter in given
        }
        arrays = [x[7:][joints] if k == "q" else x[6:][joints] for k, x in given.items()]
        if name == "forward_dynamics":  # takes the forces on the base as well
            arrays[-1] = np.concatenate((given["a"][:6], arrays[-1]))
        made.append((BaseState(**parts), *arrays))
    return made


def _order(robot: Robot) -> Any:
    """The joints but the floating one, level by level."""
    depths = {"world": 0}
    for part in robot.parts:
        depths[part.name] = depths[part.parent] + 1
    return np.argsort([depths[part.name] for part in robot.parts[1:]], kind="stable")


def _compare(robot: Robot, theirs: Any, floating: bool) -> None:
    """Refuse to time another robot: gravity at a random configuration must agree, up to the axes of the base."""
    q = robot.model.random_configuration(0)
    (state,) = samples(robot, "gravity_forces", "q", [(q,)])
    found = np.asarray(theirs.gravity(*state))
    wanted = robot.model.with_gravity((0.0, 0.0, -9.80665)).gravity_forces(q)
    if floating:
        found, wanted = found[6:], wanted[6:][_order(robot)]
    if not np.allclose(found, wanted, rtol=1e-6, atol=1e-6 * float(np.abs(wanted).max())):
        raise ValueError(f"{robot.name}: gravity of dynibo differs from Kinetree's")
