"""Joint maps H, and the effect of a joint on the articulated inertia outboard of it.

A joint map is a 6×n matrix whose columns are the motions that the joint allows. For most joints they are unit vectors
of the body frame; then P H selects columns of P, and P⁺ = P − P H D⁻¹ Hᵀ P has rows of exact zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinetree.spatial.inertia import SYMMETRIC6, ArticulatedInertia, Factor
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, stack
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array, Linear, Sized, Transposed, Value


class RiccatiStep(NamedTuple):
    """[J11] Eq. 32: D = Hᵀ P H, G = P H D⁻¹ and P⁺ = P − G Hᵀ P."""

    D: Factor
    G: Any
    P_plus: Any


class Columns(Sized, Linear):
    """n spatial vectors side by side: a 6×n matrix, stored column by column."""

    __slots__ = names = ("count",)
    count: int

    @classmethod
    def size_of(cls, *_: int) -> int:
        (count,) = _
        return 6 * count

    def matrix(self) -> Array:
        """6×n."""
        matrix: Array = self.data.reshape(self.count, 6).T
        return matrix

    def _components(self, vector: Motion | Force) -> Array:
        components: Array = self.matrix().T @ vector.data
        return components


class ForceColumns(Columns):
    """Force columns: maps generalised coordinates to a force and, transposed, a motion to scalars."""

    __slots__ = ()

    def __matmul__(self, x: Array) -> Force:
        return Force(self.matrix() @ x)

    def past(self, force: Force, projected: Array) -> Force:
        """(1 − G Hᵀ) F: what of a force gets past the joint, given Hᵀ F."""
        return force - self @ projected

    def column(self, index: int) -> Force:
        return Force(self.data[6 * index : 6 * index + 6])

    @property
    def T(self) -> Transposed[Motion, Array]:
        """Gᵀ: maps a motion to one scalar per column."""
        return Transposed(self._components)

    def map(self, function: Callable[[Force], Motion]) -> MotionColumns:
        """Apply a function to each column."""
        results = [function(self.column(i)).data for i in range(self.count)]
        return MotionColumns(stack(*results), self.count)


class JointMap(Protocol):
    """H, 6×n: the interface through which algorithms use a joint's motions."""

    @property
    def translates(self) -> float:
        """1 if no motion of this kind of joint has an angular part, whatever its constants; else 0."""

    def __matmul__(self, x: Array) -> Motion:
        """H x: the motion due to joint velocities x."""

    @property
    def T(self) -> Transposed[Force, Array]:
        """Hᵀ: maps a force to the generalised forces of the joint."""

    def column(self, index: int) -> Motion:
        """One allowed motion."""

    def map(self, function: Callable[[Motion], Any]) -> Columns:
        """Apply a function to each column."""

    def seen(self, X: Transform, armature: Array) -> MotionColumns:
        """The same motions in the source frame of X; `armature` is that of the joint."""

    def basis(self, X: Transform, armature: Array) -> AxisMap | Columns:
        """A basis of the same motion subspace in the source frame of X, with as few non-constant entries as possible.

        Joints with armature keep their own columns, since armature belongs to the coordinates, not to the subspace.
        """

    def in_joint(self, X: Transform, armature: Array, x: Array) -> Array:
        """The joint's own coordinates of a motion with coordinates x in its `basis`."""

    def hinge(self, P: ArticulatedInertia, armature: Array) -> RiccatiStep:
        """Eq. 32. `armature` is added to D's diagonal."""


class MotionColumns(Columns):
    """A joint map with arbitrary columns."""

    __slots__ = ()

    @property
    def translates(self) -> float:
        return 0.0

    def __matmul__(self, x: Array) -> Motion:
        return Motion(self.matrix() @ x)

    @property
    def T(self) -> Transposed[Force, Array]:
        return Transposed(self._components)

    def column(self, index: int) -> Motion:
        return Motion(self.data[6 * index : 6 * index + 6])

    def map(self, function: Callable[[Motion], Any]) -> Columns:
        """Apply a function to each column; its results, motions or forces, become the new columns."""
        results = [function(self.column(i)) for i in range(self.count)]
        kind = ForceColumns if isinstance(results[0], Force) else MotionColumns
        return kind(stack(*(result.data for result in results)), self.count)

    def seen(self, X: Transform, _armature: Array) -> MotionColumns:
        return MotionColumns(self.map(X.back).data, self.count)

    def basis(self, X: Transform, _armature: Array) -> Columns:
        return self.map(X.back)

    def in_joint(self, _X: Transform, _armature: Array, x: Array) -> Array:
        return x

    def hinge(self, P: ArticulatedInertia, armature: Array) -> RiccatiStep:
        H, dense = self.matrix(), P.matrix()
        U = dense @ H
        D = Factor.of(_with_armature(H.T @ U, armature))
        G = D.solve(U.T).T
        return RiccatiStep(D, ForceColumns(G.T.reshape(-1), self.count), _subtract(dense, U, G))


class FreeMotions(MotionColumns):
    """All motions of a rigid body, without armature, seen from another frame: the six columns of a transform.

    So the hinge is known without P: G = H⁻ᵀ, and no force or inertia gets past it.
    """

    __slots__ = ()

    def hinge(self, P: ArticulatedInertia, _armature: Array) -> RiccatiStep:
        H = self.matrix()
        G = np.zeros((6, 6), dtype=H.dtype)
        G[:3, :3], G[:3, 3:], G[3:, 3:] = H[:3, :3], H[3:, :3], H[3:, 3:]
        D = Factor.of(H.T @ (P.matrix() @ H))
        return RiccatiStep(D, FreeForces(G.T.reshape(-1), 6), ArticulatedInertia.zero())


class FreeForces(ForceColumns):
    """G of `FreeMotions`."""

    __slots__ = ()

    def past(self, force: Force, _projected: Array) -> Force:
        """Nothing: (1 − G Hᵀ) is zero."""
        return Force(np.zeros(6, dtype=force.data.dtype))


@cache
def _unit_columns(axes: tuple[int, ...]) -> Array:
    """Columns of the 6×6 identity, read-only."""
    columns: Array = np.eye(6)[:, list(axes)]
    columns.flags.writeable = False
    return columns


class AxisMap(Value):
    """A joint map whose columns are unit vectors of the body frame: 0–2 rotate about x, y, z; 3–5 translate."""

    __slots__ = ("axes",)
    size = 0

    def __init__(self, *axes: int) -> None:
        super().__init__(np.zeros(0))
        self.axes = axes

    @property
    def translates(self) -> float:
        return float(all(axis >= 3 for axis in self.axes))

    @property
    def parameters(self) -> tuple[int, ...]:
        return self.axes

    @classmethod
    def from_components(cls, _: Array, *axes: int) -> AxisMap:
        return cls(*axes)

    def matrix(self) -> Array:
        """6×n, read-only."""
        return _unit_columns(self.axes)

    def __matmul__(self, x: Array) -> Motion:
        components: list[Any] = [0.0] * 6
        for axis, value in zip(self.axes, x, strict=True):
            components[axis] = value
        return Motion(np.array(components))

    @property
    def T(self) -> Transposed[Force, Array]:
        return Transposed(lambda force: force.data[list(self.axes)])

    def column(self, index: int) -> Motion:
        return Motion(np.eye(6)[self.axes[index]])

    def map(self, function: Callable[[Motion], Any]) -> Columns:
        return MotionColumns(np.eye(6)[list(self.axes)].reshape(-1), len(self.axes)).map(function)

    def seen(self, X: Transform, armature: Array) -> MotionColumns:
        kind = FreeMotions if self.axes == tuple(range(6)) and _no_rotor(armature) else MotionColumns
        return kind(self.map(X.back).data, len(self.axes))

    def basis(self, X: Transform, armature: Array) -> AxisMap | Columns:
        if _no_rotor(armature) and self.axes in ((0, 1, 2, 3, 4, 5), (3, 4, 5)):
            return self  # all motions, or all translations, whatever the frame
        if _no_rotor(armature) and self.axes == (0, 1, 2):
            turns = [stack(axis, cross(X.r, axis)) for axis in np.eye(3)]
            return MotionColumns(stack(*turns), 3)
        return self.map(X.back)

    def in_joint(self, X: Transform, armature: Array, x: Array) -> Array:
        if len(self.axes) == 1 or not _no_rotor(armature):
            return x
        return (X @ (self.basis(X, armature) @ x)).data[list(self.axes)]

    def hinge(self, P: ArticulatedInertia, armature: Array) -> RiccatiStep:
        axes, dense = list(self.axes), P.matrix()
        U = dense[:, axes]
        D = Factor.of(_with_armature(U[axes], armature))
        if not _no_rotor(armature):
            G = D.solve(U.T).T
            return RiccatiStep(D, ForceColumns(G.T.reshape(-1), len(axes)), _subtract(dense, U, G))
        # Without armature, the rows of G along the joint axes are rows of the identity, and those of P⁺ are zero.
        others = [i for i in range(6) if i not in axes]
        G = np.zeros((6, len(axes)), dtype=dense.dtype)
        G[axes] = np.eye(len(axes))
        if others:
            G[others] = D.solve(U[others].T).T
        return RiccatiStep(D, ForceColumns(G.T.reshape(-1), len(axes)), _subtract(dense, U, G, others))


def _with_armature(D: Array, armature: Array) -> Array:
    D = D.copy()
    for i, value in enumerate(armature):
        D[i, i] = D[i, i] + value
    return D


def _no_rotor(armature: Array) -> bool:
    """Whether the armature is zero for every node of the kind, not just in the constants of one node.

    A traced constant is a symbol, whatever its value.
    """
    return all(isinstance(value, float) and value == 0.0 for value in armature)


def _subtract(P: Array, U: Array, G: Array, rows: Sequence[int] = range(6)) -> ArticulatedInertia:
    """P − U Gᵀ in these rows and columns, upper triangle; zero in all others."""
    given, taken, kept = P.tolist(), U.tolist(), G.tolist()  # NumPy's scalars take twice as long as Python's
    entries: list[Any] = [0.0] * ArticulatedInertia.size
    for i, j in combinations_with_replacement(rows, 2):
        entry = given[i][j]
        for c in range(U.shape[1]):
            entry = entry - taken[i][c] * kept[j][c]
        entries[SYMMETRIC6[i, j]] = entry
    return ArticulatedInertia(np.array(entries))
