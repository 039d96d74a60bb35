"""Locking joints: the same robot with some of them fixed where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.aggregation import Constraint
from kinetree.model.coordinates import numbers
from kinetree.model.coupling import Coupling, LinearCoupling, reduced_couplings
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS
from kinetree.model.loop import Loop
from kinetree.model.stages import displaced
from kinetree.model.surgery import EditableModel

_Model = TypeVar("_Model", bound=EditableModel)
_NO_LIMITS = Limits().expanded(KINDS["fixed"])


def reduced(robot: _Model, lock: Mapping[str, Any]) -> _Model:
    """The robot with some joints locked; see `Model.reduced`."""
    if not isinstance(lock, Mapping):
        raise InputError(f"reduced() needs a mapping of joints to values, such as {{'hip': 0.1}}; got {lock!r}")
    names = {joint.name: None for joint in robot.joints}
    for name in lock:
        if name not in names:
            raise UnknownNameError("moving joint", name, tuple(names))
    for joint in robot.joints:
        if joint.name in lock and joint.node is not None:
            raise InputError(f"{joint.name!r} is a general node and cannot be locked; give it a stiff spring")
    for cluster in robot.clusters:
        loop = next((one for one in cluster.constraints if isinstance(one, Loop)), None)
        for joint in robot.joints:
            if loop is not None and joint.name in lock and joint.child in cluster.bodies:
                raise InputError(f"joint {joint.name!r} is part of a loop, closed by {loop}, and cannot be locked")
    couplings, lock = reduced_couplings(_without_loops(robot.joint_constraints), lock)
    equal, held = reduced_couplings(_without_loops(robot.equalities), lock)
    ties = [LinearCoupling((name,), np.ones(1), held[name]) for name in held if name not in lock]
    return robot._edited(
        joints=[_locked(one, lock[one.name]) if one.name in lock else one for one in robot._every_joint],
        constraints=[*couplings, *_loops(robot.joint_constraints)],
        independent=[rate for rate in robot.independent if rate[0] not in lock],
        equalities=[*equal, *ties, *_loops(robot.equalities)],
    )


def _loops(constraints: Iterable[Constraint]) -> list[Loop]:
    return [one for one in constraints if isinstance(one, Loop)]


def _without_loops(constraints: Iterable[Constraint]) -> list[Coupling]:
    return [one for one in constraints if not isinstance(one, Loop)]


def _locked(joint: Joint, value: Any) -> Joint:
    """A fixed joint that holds another one at a configuration."""
    q = np.atleast_1d(numbers(f"lock of joint {joint.name!r}", value))
    if q.shape != (joint.type.nq,) or q.dtype.kind == "c":
        raise InputError(f"joint {joint.name!r} has {joint.type.nq} real coordinates to lock, got {value!r}")
    with np.errstate(all="ignore"):
        placement = displaced(joint, q)
    if not np.isfinite(placement).all():
        raise InputError(f"joint {joint.name!r} cannot be locked at {value!r}, which is not a configuration")
    none = np.zeros(0)
    kept = joint.parent, joint.child, placement
    return Joint(joint.name, "fixed", *kept, none, 0.0, none, _NO_LIMITS, none, none, 0, 0)
