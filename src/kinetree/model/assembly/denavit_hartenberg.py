"""Serial robots from tables of Denavit–Hartenberg parameters.

    convention   frame i in frame i−1                    joint i moves about    also called
    standard     Rz(θᵢ) Tz(dᵢ) Tx(aᵢ) Rx(αᵢ)             z of frame i−1         distal, classic
    modified     Rx(αᵢ) Tx(aᵢ) Rz(θᵢ) Tz(dᵢ)             z of frame i           proximal, Craig's

In row i of his table, Craig writes aᵢ₋₁ and αᵢ₋₁ for the parameters that are called a and alpha of row i here.

[DH55] J. Denavit, R. Hartenberg, "A kinematic notation for lower-pair mechanisms based on matrices", Journal of Applied
       Mechanics 22, 1955.
[C86]  J. Craig, "Introduction to Robotics: Mechanics and Control", 1986, section 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetree.errors import InputError, ModelError
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.spatial.reproducible import product, sincos
from kinetree.spatial.value import Array

_CONVENTIONS = ("standard", "modified")


@dataclass(frozen=True, eq=False)
class DHRow:
    """One row of a table: a joint and the link that it moves.

    Attributes:
        a: Link length, along x [m].
        alpha: Link twist, about x [rad].
        d: Offset along z [m]; for a prismatic joint, its value at q = 0.
        theta: Angle about z [rad]; for a revolute joint, its value at q = 0.
        joint: "revolute" or "prismatic".
        name: Name of the link and its frame; by default "link1", "link2", ….
        mass: Mass of the link [kg].
        com: Its centre of mass in frame i, (3,) [m].
        inertia: About the centre of mass, along the axes of frame i, (3, 3) [kg m²]. By default zero.
        armature: Reflected rotor inertia [kg m² or kg].
        limits: Joint limits; by default none.
        damping: Viscous damping. Stored, but not part of the dynamics.
        friction: Dry friction. Stored, but not part of the dynamics.
    """

    a: float = 0.0
    alpha: float = 0.0
    d: float = 0.0
    theta: float = 0.0
    joint: str = "revolute"
    name: str | None = None
    mass: float = 0.0
    com: Any = (0.0, 0.0, 0.0)
    inertia: Any = None
    armature: float = 0.0
    limits: Limits | None = None
    damping: float = 0.0
    friction: float = 0.0


def from_dh(
    rows: Iterable[Any],
    *,
    convention: str,
    name: str = "robot",
    base: Any = None,
    tool: Any = None,
    gravity: Any = (0.0, 0.0, -9.81),
) -> Model:
    """A serial robot from a table of Denavit–Hartenberg parameters.

    The frames are those of the table, named after their links, and "tool". Joints are named "joint1", "joint2", …. In
    the standard convention, a joint moves a massless body "link1 (joint1)" at its axis, to which the link is fixed.

    Args:
        rows: `DHRow`s or, for revolute joints, tuples (a, alpha, d, theta) [m, rad, m, rad].
        convention: "standard" or "modified"; there is no default, since a table does not reveal its convention.
        name: Name of the model.
        base: Pose of frame 0 in the world: a 4×4 array, a pair (R, p), or None.
        tool: Pose of the tool in the last frame.
        gravity: Acceleration of free fall in the world frame, (3,) [m/s²].

    Raises:
        InputError: If a row is malformed, or the convention is unknown.
        ModelError: If a link is not physical; names it.
    """
    if convention not in _CONVENTIONS:
        raise InputError(f"convention={convention!r} is not known; choose one of {', '.join(map(repr, _CONVENTIONS))}")
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise InputError(f"from_dh needs rows, each a DHRow or (a, alpha, d, theta), got {type(rows).__name__}")
    table = [_checked(row, i) for i, row in enumerate(rows, start=1)]
    if not table:
        raise InputError("from_dh needs at least one row, got none")
    builder = Builder(name, gravity)
    parent = "base"
    builder.add_body(parent, joint="fixed", joint_name="base_joint", placement=base)
    for i, row in enumerate(table, start=1):
        link, joint = row.name or f"link{i}", f"joint{i}"
        solid: dict[str, Any] = {"mass": row.mass, "com": row.com, "inertia": row.inertia}
        moving: dict[str, Any] = {
            "joint": row.joint,
            "joint_name": joint,
            "armature": row.armature,
            "limits": row.limits,
            "damping": row.damping,
            "friction": row.friction,
        }
        along, about = _screw_x(row.alpha, row.a), _screw_z(row.theta, row.d)
        if convention == "modified":
            builder.add_body(link, parent=parent, placement=product(along, about), **moving, **solid)
        else:
            carrier = f"{link} ({joint})"
            builder.add_body(carrier, parent=parent, placement=about, **moving)
            builder.add_body(link, parent=carrier, joint="fixed", placement=along, joint_name=f"{link}_joint", **solid)
        parent = link
    if tool is not None:
        builder.add_frame("tool", body=parent, placement=tool)
    return builder.build()


def _checked(row: Any, number: int) -> DHRow:
    """A row as a `DHRow`, with finite numbers."""
    if not isinstance(row, DHRow):
        try:
            a, alpha, d, theta = (float(x) for x in row)
        except (TypeError, ValueError):
            raise InputError(
                f"row {number} of the table, {row!r}, is neither a DHRow nor (a, alpha, d, theta)"
            ) from None
        return _checked(DHRow(a, alpha, d, theta), number)
    for name in ("a", "alpha", "d", "theta"):
        arguments.number(f"row {number} of the table: {name}", getattr(row, name))
    if row.joint not in ("revolute", "prismatic"):
        raise ModelError(f"row {number} of the table: joint={row.joint!r} must be 'revolute' or 'prismatic'")
    return row


def _screw_x(angle: float, distance: float) -> Array:
    s, c = (float(part) for part in sincos(np.array(float(angle))))
    return np.array([[1.0, 0.0, 0.0, distance], [0.0, c, -s, 0.0], [0.0, s, c, 0.0], [0.0, 0.0, 0.0, 1.0]], dtype=float)


def _screw_z(angle: float, distance: float) -> Array:
    s, c = (float(part) for part in sincos(np.array(float(angle))))
    return np.array([[c, -s, 0.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, distance], [0.0, 0.0, 0.0, 1.0]], dtype=float)
