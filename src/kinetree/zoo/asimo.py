"""The ASIMO Next-Generation humanoid of [W12] Figure 4, and the mechanisms derived from it in Figure 6.

The paper specifies 35 bodies, a floating base and revolute joints. The connectivity is a reconstruction: of those
with 3 joints in the head, 7 per arm, 2 per hand, 1 in the torso and 6 per leg, it is the one whose mass matrix has the
published fraction of zeros (56 %, and 73 % with two more arms and legs). It is rooted at the upper torso, and thumb and
forefinger are both attached to the hand. Dimensions and masses are ours.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetree.errors import UnknownNameError
from kinetree.model.builder import Builder
from kinetree.model.model import Model
from kinetree.spatial.value import Array
from kinetree.zoo.small import thick_rod

_HANDS_FEET = ("right_hand", "left_hand", "right_foot", "left_foot")
_SIDES = {"right": -1.0, "left": 1.0}
# axes of successive joints along a limb, repeated as needed
_AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
_ARM, _LEG, _HEAD, _FINGER = "yxzyzyx", "zxyyyx", "zyx", "yxx"


@dataclass(frozen=True)
class _Variant:
    """How a mechanism of Figure 6 differs from the first one, and its operational space."""

    tasks: tuple[str, ...] = _HANDS_FEET
    arm: int = 7
    leg: int = 6
    extra_limbs: bool = False
    four_fingers: bool = False
    one_foot: bool = False


_VARIANTS = {
    "hands_feet": _Variant(),
    "hands_feet_head": _Variant(tasks=(*_HANDS_FEET, "head")),
    "forefingers_thumbs_feet": _Variant(
        tasks=("right_forefinger", "right_thumb", "left_forefinger", "left_thumb", "right_foot", "left_foot")
    ),
    "legs_plus_2": _Variant(leg=8),
    "legs_plus_4": _Variant(leg=10),
    "arms_plus_2": _Variant(arm=9),
    "arms_plus_4": _Variant(arm=11),
    "two_arms_two_legs": _Variant(tasks=_HANDS_FEET + tuple(f"rear_{name}" for name in _HANDS_FEET), extra_limbs=True),
    "four_fingers": _Variant(four_fingers=True),
    "one_foot": _Variant(tasks=("right_hand", "left_hand", "left_foot"), one_foot=True),
}

#: Variants accepted by `asimo35`: the cases of [W12] Figure 6 in its order, then the one of its last paragraph.
ASIMO_VARIANTS = tuple(_VARIANTS)


def asimo35(variant: str = "hands_feet") -> Model:
    """35 bodies, nv = 40: a floating torso and 34 revolute joints; or a mechanism derived from it.

    Args:
        variant: "hands_feet", "hands_feet_head" and "forefingers_thumbs_feet" are the same mechanism with different
            `asimo35_tasks`. "legs_plus_2", "legs_plus_4", "arms_plus_2" and "arms_plus_4" have 2 or 4 more joints per
            limb. "two_arms_two_legs" has two extra arms and two extra legs. "four_fingers" has hands with 4 fingers of
            3 joints. "one_foot" stands on its right foot, which is fixed to the world.
    """
    chosen = _chosen(variant)
    builder = Builder(f"asimo35_{variant}")
    if chosen.one_foot:
        # the right leg from the foot up: its foot is the world, and it ends at the pelvis
        hip = _limb(builder, "right_stance", _LEG[::-1][:-1], "world", (0, -0.1, 0.08), 0.8, 12.0, "right_hip")
        builder.add_body("pelvis", parent=hip, placement=_at(0, 0, 0.1), **thick_rod(6.0, (0, 0.2, 0.1)))
        builder.add_body("torso", parent="pelvis", placement=_at(0, 0.1, 0.15), **thick_rod(15.0, (0, 0, 0.4)))
    else:
        builder.add_body("torso", joint="floating", placement=_at(0, 0, 1.0), **thick_rod(15.0, (0, 0, 0.4)))
    _limb(builder, "neck", _HEAD, "torso", (0, 0, 0.42), 0.15, 3.0, "head")
    for prefix in ("", "rear_") if chosen.extra_limbs else ("",):
        for side in _SIDES:
            _arm(builder, chosen, prefix, side)
    if not chosen.one_foot:
        builder.add_body("pelvis", parent="torso", placement=_at(0, 0, -0.05), **thick_rod(6.0, (0, 0, -0.15)))
    for prefix in ("", "rear_") if chosen.extra_limbs else ("",):
        for side in ("left",) if chosen.one_foot else _SIDES:
            _leg(builder, chosen, prefix, side)
    return builder.build()


def asimo35_tasks(variant: str = "hands_feet") -> tuple[str, ...]:
    """The frames whose motions are the operational space of a variant."""
    return _chosen(variant).tasks


def _chosen(variant: str) -> _Variant:
    if variant not in _VARIANTS:
        raise UnknownNameError("variant of asimo35", variant, ASIMO_VARIANTS)
    return _VARIANTS[variant]


def _arm(builder: Builder, chosen: _Variant, prefix: str, side: str) -> None:
    start = (-0.2 if prefix else 0.0, 0.2 * _SIDES[side], 0.36)
    axes = (_ARM * 2)[: chosen.arm]
    hand = _limb(builder, f"{prefix}{side}_arm", axes, "torso", start, -0.6, 5.0, f"{prefix}{side}_hand")
    fingers = {"forefinger": 0.03, "thumb": -0.03}
    joints = 1
    if chosen.four_fingers:
        fingers, joints = {"thumb": -0.04, "forefinger": -0.01, "middle_finger": 0.01, "ring_finger": 0.03}, 3
    for finger, x in fingers.items():
        name = f"{prefix}{side}_{finger}"
        _limb(builder, name, _FINGER[:joints], hand, (x, 0, -0.1), -0.07, 0.15, name)


def _leg(builder: Builder, chosen: _Variant, prefix: str, side: str) -> None:
    # on one foot the pelvis has its origin at the right hip
    lateral = 0.2 if chosen.one_foot else 0.1 * _SIDES[side]
    start = (-0.25 if prefix else 0.0, lateral, 0.0 if chosen.one_foot else -0.15)
    axes = (_LEG * 2)[: chosen.leg]
    _limb(builder, f"{prefix}{side}_leg", axes, "pelvis", start, -0.8, 14.0, f"{prefix}{side}_foot")


def _limb(
    builder: Builder, name: str, axes: str, parent: str, start: tuple[float, ...], length: float, mass: float, end: str
) -> str:
    """Add equal links along z, each with a revolute joint about its axis. The last is named `end`; returns that."""
    count = len(axes)
    reach = (0.0, 0.0, length / count)
    for i, axis in enumerate(axes, start=1):
        link = end if i == count else f"{name}_{i}"
        placement = _at(*(start if i == 1 else reach))
        builder.add_body(link, parent=parent, placement=placement, axis=_AXES[axis], **thick_rod(mass / count, reach))
        parent = link
    return end


def _at(x: float, y: float, z: float) -> tuple[Array, Array]:
    return np.eye(3), np.array([x, y, z], dtype=float)
