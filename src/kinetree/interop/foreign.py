"""Recognises objects of other libraries without importing these libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from kinetree.errors import InputError
from kinetree.model.model import Model


def require_instance(caller: str, thing: Any, library: str, name: str, hints: Mapping[str, str]) -> None:
    """Raise unless an object is an instance of a class of another library.

    Args:
        caller: The calling function, for messages.
        thing: The object.
        library: Name of the library's module. If it was never imported, there are no instances.
        name: Name of the class.
        hints: What to write instead, by names of classes often given by mistake.
    """
    wanted = getattr(sys.modules.get(library), name, None)
    if isinstance(wanted, type) and isinstance(thing, wanted):
        return
    kind = type(thing)
    hint = hints.get(kind.__name__, "")
    raise InputError(
        f"{caller} takes a {library}.{name}, got {kind.__module__.partition('.')[0]}.{kind.__name__}"
        f"{'; pass ' + hint if hint else ''}"
    )


def require_pair(caller: str, robot: Any, joints: Any) -> None:
    """Raise unless `robot` is a `Model` and `joints` a mapping of names or None.

    Args:
        caller: The calling function, for messages.
        robot: The robot.
        joints: Names of joints in the other library, by name in Kinetree.
    """
    if not isinstance(robot, Model):
        raise InputError(f"{caller} takes a kinetree.Model first, got {type(robot).__name__}")
    if joints is not None and not (
        isinstance(joints, Mapping) and all(isinstance(name, str) for pair in joints.items() for name in pair)
    ):
        raise InputError(f"{caller}: joints is not a dictionary of names; pass {{'name here': 'name there'}}")


#: Objects often given instead of a `mujoco.MjModel`.
MUJOCO_HINTS = {"MjSpec": "spec.compile()", "MjData": "data.model", "str": "files to kinetree.load instead"}
#: Objects often given instead of a `pinocchio.Model`.
PINOCCHIO_HINTS = {"RobotWrapper": "robot.model", "Data": "the model", "str": "files to kinetree.load instead"}
