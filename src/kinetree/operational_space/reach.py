"""How far a mechanism moves the rows of tasks, wherever it is: what small eigenvalues of Λ⁻¹ are small beside.

At a singular configuration a row of J may be nothing but rounding, and so is its diagonal entry in Λ⁻¹. Seen by
itself, it is as good as any other. So a task is also looked at elsewhere: its reach is the mean diagonal entry of Λ⁻¹
over a few configurations without special symmetry, and over all three components that turn, or all three that move,
whether they are rows of the task or not.

Some tasks do not move at any configuration: the origin of a link as its parent sees it, the orientation of a robot
whose joints all slide. There even this is rounding. So reach has a floor:

    a frame               if moving and turning by a radian differ by more than 10⁶ link lengths, the less of the two is
                          replaced by the other one, a link's length away
    a relative task       10⁻⁸ of what its two ends have, whose difference it is
    the centre of mass    1/m of the robot, if it has less than 10⁻¹² of that

Units of length and of mass cancel out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kinetree.recursion.mechanism import Site
from kinetree.spatial.value import Array

_IMMOBILE = 1e-12
_DIFFERENCE = 1e-8

_TURN, _MOVE = (0, 1, 2), (3, 4, 5)


def looked_at(sites: Sequence[Site]) -> tuple[Site, ...]:
    """The sites whose Λ⁻¹ shows the reach of tasks: theirs with all rows; after each relative task, its two ends."""
    found: list[Site] = []
    for site in sites:
        found.append(replace(site, rows=_MOVE if site.part == "mass" else (*_TURN, *_MOVE)))
        if site.part == "far":
            found += [replace(end, part="frame") for end in found[-2:]]
    return tuple(found)


def reach(
    sites: Sequence[Site], inverse_inertia: Callable[[Array], Array], configurations: Array, size: float, mass: float
) -> Array:
    """The reach of each row, (r,).

    Args:
        sites: The frames of the tasks, with their rows.
        inverse_inertia: Λ⁻¹ of the sites that are `looked_at`.
        configurations: Some that have no special symmetry, (n, nq).
        size: Typical length of a link [m]; zero if the robot has no extent.
        mass: Of the robot [kg].
    """
    # one by one, so that no kernel for batches has to be compiled
    diagonals = [np.diagonal(inverse_inertia(q)).tolist() for q in configurations]
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
