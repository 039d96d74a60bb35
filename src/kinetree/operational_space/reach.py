"""The reach of task rows: their typical mobility, which gives small eigenvalues of Λ⁻¹ a scale to compare with.

At a singular configuration, a row of J and its diagonal entry in Λ⁻¹ may consist of rounding errors, which cannot be
recognised from that configuration alone. So tasks are also evaluated elsewhere: the reach of a row is the mean diagonal
entry of Λ⁻¹ over a few generic configurations, and over all three angular or all three linear components, whether or
not they are rows of the task.

Some tasks do not move at any configuration: the origin of a link relative to its parent, or the orientation of a robot
with prismatic joints only. There even this mean is a rounding error. So reach has a lower bound:

    a frame               if linear and angular mobility differ by more than 10⁶ link lengths per radian, the smaller is
                          replaced by the other, times or divided by a link length squared
    a relative task       10⁻⁸ of the reach of its two ends, whose difference it is
    the centre of mass    1/m of the robot, if its reach is less than 10⁻¹² of that

The result does not depend on the units of length and mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kinetree.recursion.mechanism import Site
from kinetree.spatial.value import Array

_IMMOBILE = 1e-12
_DIFFERENCE = 1e-8

_TURN, _MOVE = (0, 1, 2), (3, 4, 5)


def looked_at(sites: Sequence[Site]) -> tuple[Site, ...]:
    """The sites whose Λ⁻¹ determines reach: those of the tasks with all rows, and the ends of each relative task."""
    found: list[Site] = []
    for site in sites:
        found.append(replace(site, rows=_MOVE if site.part == "mass" else (*_TURN, *_MOVE)))
        if site.part == "far":
            found += [replace(end, part="frame") for end in found[-2:]]
    return tuple(found)


def reach(sites: Sequence[Site], inverse_inertias: Sequence[Array], size: float, mass: float) -> Array:
    """The reach of each row, (r,).

    Args:
        sites: The frames of the tasks, with their rows.
        inverse_inertias: Λ⁻¹ of the sites from `looked_at` at generic configurations.
        size: Typical length of a link [m]; zero if the robot has no extent.
        mass: Mass of the robot [kg].
    """
    diagonals = [np.diagonal(one).tolist() for one in inverse_inertias]
    mean = [sum(entries) / len(diagonals) for entries in zip(*diagonals, strict=True)]
    reaches: list[float] = []
    square = size * size
    for site in sites:
        if site.part == "near":  # it shares its rows with the far end
            continue
        if site.part == "mass":
            move, mean = sum(mean[:3]) / 3.0, mean[3:]
            reaches += [move if move * mass > _IMMOBILE else 1.0 / mass] * len(site.rows)
            continue
        turn, move, mean = sum(mean[:3]) / 3.0, sum(mean[3:6]) / 3.0, mean[6:]
        if square > 0.0:
            if move <= _IMMOBILE * (turn * square):
                move = turn * square
            elif turn * square <= _IMMOBILE * move:
                turn = move / square
        if site.part == "far":
            ends_turn, ends_move = (sum(mean[i] + mean[i + 6] for i in kind) / 3.0 for kind in (_TURN, _MOVE))
            mean = mean[12:]
            turn = max(turn, _DIFFERENCE * ends_turn)
            move = max(move, _DIFFERENCE * (ends_move + square * ends_turn))
        reaches += [move if row in _MOVE else turn for row in site.rows]
    return np.array([r if math.isfinite(r) else 0.0 for r in reaches])
