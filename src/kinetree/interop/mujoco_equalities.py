"""MuJoCo's equality constraints as exact couplings and loops.

In MuJoCo they are soft, and relative to the reference configuration `qpos0`: a joint equality says q₁ − r₁ = p(q₂ − r₂)
for reference positions r; without a second joint it holds the first one. Points of a connection coincide at `qpos0`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.interop.mujoco_counterpart import CODECS
from kinetree.interop.mujoco_names import Names
from kinetree.model.builder import Builder
from kinetree.model.loop import Loop
from kinetree.spatial.rotation import matrix_of
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array

# values of `eq_type`, and of `eq_objtype`
_CONNECT, _WELD, _JOINT = 0, 1, 2
_SITE = 6
_Z = np.array([0.0, 0.0, 1.0])


def add_equalities(builder: Builder, model: Any, names: Names) -> tuple[int, dict[str, float]]:
    """Add the active equality constraints of a model.

    Args:
        builder: Has the bodies already.
        model: A `mujoco.MjModel`.
        names: Names in Kinetree.

    Returns:
        Their number, and joints that they hold, with their positions.

    Raises:
        ModelError: If one of them is not between bodies, sites or joints.
    """
    held: dict[str, float] = {}
    active = [i for i in range(model.neq) if model.eq_active0[i]]
    for i in active:
        kind, data = int(model.eq_type[i]), np.array(model.eq_data[i], dtype=float)
        name = model.equality(i).name or f"equality{i}"
        if kind == _JOINT:
            _add_coupling(builder, model, names, i, data, held)
        elif kind in (_CONNECT, _WELD):
            builder.add_loop(_loop(model, names, i, name, "connect" if kind == _CONNECT else "weld", data))
        else:
            raise ModelError(
                f"equality constraint {name!r} ties tendons or flexible bodies, which have no counterpart; load with "
                'loops="ignore"'
            )
    return len(active), held


def _add_coupling(builder: Builder, model: Any, names: Names, i: int, data: Array, held: dict[str, float]) -> None:
    first, second = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    follower = names.joints[first]
    r1 = float(model.qpos0[model.jnt_qposadr[first]])
    if second < 0:
        held[follower] = r1 + float(data[0])
        return
    r2 = float(model.qpos0[model.jnt_qposadr[second]])
    # r₁ + Σ cᵢ (x − r₂)ⁱ, in powers of x
    shifted = np.polynomial.Polynomial(data[:5])(np.polynomial.Polynomial([-r2, 1.0])).coef.tolist()
    shifted[0] += r1
    while len(shifted) > 2 and shifted[-1] == 0.0:
        shifted.pop()
    if len(shifted) < 2 or not any(shifted[1:]):
        held[follower] = shifted[0]
    elif len(shifted) == 2:
        builder.couple(follower, to=names.joints[second], ratio=shifted[1], offset=shifted[0])
    else:
        builder.couple(follower, to=names.joints[second], poly=shifted)


def _loop(model: Any, names: Names, i: int, name: str, kind: str, data: Array) -> Loop:
    ends = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    if int(model.eq_objtype[i]) == _SITE:
        bodies = tuple(names.bodies[model.site_bodyid[site]] for site in ends)
        turns = matrix_of(np.array([model.site_quat[site] for site in ends]))
        first, second = (pose(turn, np.array(model.site_pos[site])) for turn, site in zip(turns, ends, strict=True))
    else:
        bodies = tuple(names.bodies[body] for body in ends)
        if kind == "connect":
            first, second = pose(np.eye(3), data[:3]), pose(np.eye(3), data[3:6])
        else:
            first, second = pose(matrix_of(data[None, 6:10])[0], data[3:6]), np.eye(4)
    return Loop(name, kind, (bodies[0], bodies[1]), first, second, _Z)


def start(model: Any, names: Names) -> dict[str, Array]:
    """Where to close loops: the first keyframe, or the reference configuration, by joint."""
    qpos = np.array(model.key_qpos[0] if model.nkey else model.qpos0, dtype=float)
    found = {}
    for joint, name in enumerate(names.joints):
        at = int(model.jnt_qposadr[joint])
        found[name] = qpos[at : at + CODECS[model.jnt_type[joint]].nq]
    return found
