"""Telling models of other libraries from everything else, without importing those libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kinetree.errors import InputError
from kinetree.model.model import Model


def require_instance(caller: str, thing: Any, library: str, name: str, hints: Mapping[str, str]) -> None:
    """Raise unless something is an object of a class of a library.

    Args:
        caller: The function that takes it, for messages.
        thing: What was given.
        library: Name of its module. One that was never imported has no objects.
        name: Of the class.
        hints: What to write instead, by names of classes that are often given by mistake.
    """
    wanted = getattr(sys.modules.get(library), name, None)
    if isinstance(wanted, type) and isinstance(thing, wanted):
        return
    kind = type(thing)
    hint = hints.get(kind.__name__, "")
    raise InputError(
        f"{caller} takes a {library}.{name}, got {kind.__module__.partition('.')[0]}.{kind.__name__}"
        f"{'; give ' + hint if hint else ''}"
    )


def require_pair(caller: str, robot: Any, joints: Any) -> None:
    """Raise unless the first argument is a robot, and names of joints come as a dictionary.

    Args:
        caller: The function that takes them, for messages.
        robot: Should be a `Model`.
        joints: Should be a mapping of names, or None.
    """
    if not isinstance(robot, Model):
        raise InputError(f"{caller} takes a kinetree.Model first, got {type(robot).__name__}")
    if joints is not None and not (
        isinstance(joints, Mapping) and all(isinstance(name, str) for pair in joints.items() for name in pair)
    ):
        raise InputError(f"{caller}: joints is not a dictionary of names; give {{'name here': 'name there'}}")


#: What people have in their hands instead of a `mujoco.MjModel`.
MUJOCO_HINTS = {"MjSpec": "spec.compile()", "MjData": "data.model", "str": "a path or a text to kinetree.load"}
#: What people have in their hands instead of a `pinocchio.Model`.
PINOCCHIO_HINTS = {"RobotWrapper": "robot.model", "Data": "the model", "str": "a path or a text to kinetree.load"}
