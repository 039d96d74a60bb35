"""The state of closed loops, and the forces in them, from the singular values of K, the derivative of constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinetree.model.loop_parts import Alike
from kinetree.spatial.value import Array

# singular values below this fraction of the largest are rounding
_RANK = 1e-9
_NEVER_ZERO = 1e-300


class LoopState(NamedTuple):
    """The state of the loops of one cluster; arrays have the batch axes of q.

    Attributes:
        constraints: What closes them, in words.
        joints: Names of the joints on them.
        residual: Largest residual of the constraints, (…) [m or rad].
        rank: Rank of K, the derivative of the constraints with respect to all joint rates, (…).
        condition: Condition number of the columns of K that belong to dependent rates, (…).
        branch: Sign of the determinant of these columns, restricted to as many rows, those that are most independent at
            the robot's neutral configuration, (…). A loop passes from one branch to another only through a singularity
            of these rows, which is one of the loop if its constraints are not redundant.
        singular: Whether the independent rates fail to determine the others, (…). If K has its usual rank, another
            choice of independent joints helps: `with_independent`.
    """

    constraints: tuple[str, ...]
    joints: tuple[str, ...]
    residual: Array
    rank: Array
    condition: Array
    branch: Array
    singular: Array


def states(parts: Sequence[Alike], rows: Sequence[Array], residual: Array, K: Array) -> tuple[LoopState, ...]:
    """The states of all parts, in order.

    Args:
        parts: By shape.
        rows: From `most_independent`.
        residual: (…, rows).
        K: (…, rows, joint rates).
    """
    found: dict[int, LoopState] = {}
    for same, chosen in zip(parts, rows, strict=True):
        own = same.block(K, same.columns)
        finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))
        own, block = (np.where(finite[..., None, None], one, 0.0) for one in (own, same.block(K, same.dependent)))
        values, least = (np.linalg.svd(one, compute_uv=False) for one in (own, block))
        smallest = least[..., -1] if block.shape[-2] >= block.shape[-1] else np.zeros(least.shape[:-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            condition = np.where(finite, least[..., 0] / smallest, np.nan)
        columns = (
            np.abs(residual[..., same.rows]).max(axis=-1),
            (values > _RANK * np.maximum(values[..., :1], _NEVER_ZERO)).sum(axis=-1),
            condition,
            _branch(block, chosen),
            ~(smallest > _RANK * least[..., 0]),
        )
        for i, (place, part) in enumerate(zip(same.places, same.parts, strict=True)):
            found[place] = LoopState(part.constraints, part.joints, *(column[..., i] for column in columns))
    return tuple(found[place] for place in sorted(found))


def least_forces(parts: Sequence[Alike], K: Array, needed: Array) -> Array:
    """The forces of least norm whose effect Kᵀλ on the joints is nearest to what is needed, (…, rows).

    Args:
        parts: By shape.
        K: (…, rows, joint rates).
        needed: (…, joint rates).
    """
    forces = np.zeros((*needed.shape[:-1], K.shape[-2]))
    for same in parts:
        own = same.block(K, same.columns)
        finite = np.asarray(np.isfinite(own).all(axis=(-2, -1)))[..., None]
        U, values, Vt = np.linalg.svd(np.where(finite[..., None], own, 0.0), full_matrices=False)
        kept = values > _RANK * values[..., :1]
        gain = np.where(finite, kept / np.where(kept, values, 1.0), np.nan)
        along = (Vt @ needed[..., same.columns][..., None])[..., 0]
        forces[..., same.rows] = (U @ (gain * along)[..., None])[..., 0]
    return forces


def most_independent(parts: Sequence[Alike], K: Array) -> list[Array]:
    """For each shape, as many rows as there are dependent columns: the longest of what others leave, (parts, columns).

    Args:
        parts: By shape.
        K: (rows, joint rates).
    """
    found = []
    for same in parts:
        rest = same.block(K, same.dependent)
        every, columns = np.arange(len(same.parts)), min(rest.shape[-2:])
        chosen = np.empty((len(every), columns), dtype=np.intp)
        for i in range(columns):
            chosen[:, i] = best = (rest**2).sum(axis=-1).argmax(axis=-1)
            longest = rest[every, best]
            unit = longest / np.maximum(np.linalg.norm(longest, axis=-1, keepdims=True), _NEVER_ZERO)
            rest = rest - (rest @ unit[:, :, None]) * unit[:, None, :]
        found.append(np.sort(chosen, axis=-1))
    return found


def _branch(block: Array, rows: Array) -> Array:
    """Sign of the determinant of some rows; zero if there are too few."""
    parts, columns = rows.shape
    if columns < block.shape[-1]:
        return np.zeros(block.shape[:-2])
    signs: Array = np.sign(np.linalg.det(block[..., np.arange(parts)[:, None], rows, :]))
    return signs
