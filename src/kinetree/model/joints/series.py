"""Coordinates of several joints, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinetree.model.joints.base import Stage
from kinetree.spatial.value import Array


@dataclass(frozen=True)
class Series:
    """The coordinates of some stages as those of one node: a `recursion.node.Manifold`."""

    stages: tuple[Stage, ...]

    def _parts(self) -> Iterator[tuple[Stage, slice, slice]]:
        q = v = 0
        for stage in self.stages:
            yield stage, slice(q, q + stage.nq), slice(v, v + stage.nv)
            q, v = q + stage.nq, v + stage.nv

    def integrate(self, q: Array, step: Array) -> Array:
        return np.concatenate([stage.integrate(q[at], step[along]) for stage, at, along in self._parts()])

    def difference(self, q0: Array, q1: Array) -> Array:
        return np.concatenate([stage.difference(q0[at], q1[at]) for stage, at, _ in self._parts()])

    def room(self, q: Array, limit: Array) -> Array:
        return self.difference(q, limit)

    def rates(self, q: Array, v: Array) -> Array:
        return np.concatenate([stage.rates(q[at], v[along]) for stage, at, along in self._parts()])

    def transport(self, step: Array) -> Array:
        return _diagonal([stage.transport(step[along]) for stage, _, along in self._parts()])

    def right_jacobian(self, step: Array) -> Array:
        return _diagonal([stage.right_jacobian(step[along]) for stage, _, along in self._parts()])

    def inverse_right_jacobian(self, step: Array) -> Array:
        return _diagonal([stage.inverse_right_jacobian(step[along]) for stage, _, along in self._parts()])

    def bracket(self, x: Array) -> Array:
        return _diagonal([stage.bracket(x[along]) for stage, _, along in self._parts()])

    def tangent_map(self, q: Array) -> Array:
        return _diagonal([stage.tangent_map(q[at]) for stage, at, _ in self._parts()])

    def normalize(self, q: Array) -> Array:
        return np.concatenate([stage.normalize(q[at]) for stage, at, _ in self._parts()])


def _diagonal(blocks: list[Array]) -> Array:
    """A block diagonal matrix."""
    rows, columns = (sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    matrix: Array = np.zeros((rows, columns), dtype=np.result_type(*blocks))
    i = j = 0
    for block in blocks:
        matrix[i : i + block.shape[0], j : j + block.shape[1]] = block
        i, j = i + block.shape[0], j + block.shape[1]
    return matrix
