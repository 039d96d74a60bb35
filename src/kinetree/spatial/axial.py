"""Coordinate transforms as successive steps along and about coordinate axes.

The transform from a body A to a body B behind a joint along B's z axis is

    shift by r  →  turn about z by β  →  turn about x by α  →  turn about z by θ  →  slide along z by d

with constants r, β and α, and with θ and d from the joint. Nine numbers of a rotation matrix take three times as many
multiplications as one turn; quarter turns take none. For inertias the difference is larger: [MO95] propagates
articulated inertias in such steps.

[MO95] S. McMillan, D. Orin, "Efficient computation of articulated-body inertias using successive axial screws", IEEE
       Transactions on Robotics and Automation 11(4), 1995.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np

from kinetree.spatial.inertia import ArticulatedCoriolis, ArticulatedInertia, CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, pack3, stack
from kinetree.spatial.transform import (
    RigidTransform,
    Transform,
    shifted_articulated,
    shifted_articulated_coriolis,
    shifted_coriolis,
    shifted_rigid,
)
from kinetree.spatial.value import Array

#: An angle that is not a given number of quarter turns.
ANY = 4
_X, _Z = 0, 2


class Form(NamedTuple):
    """Which steps a transform has, as integers: the parameters of a `Value`.

    Attributes:
        turns: 1 if the joint turns, else 0.
        slides: 1 if it slides, else 0.
        about_x: α as a number of quarter turns, or `ANY`.
        about_z: β likewise.
        offsets: Sum of 1, 2 and 4 for x, y and z components of r that need not be zero.
    """

    turns: int
    slides: int
    about_x: int
    about_z: int
    offsets: int


class AxialTransform(RigidTransform):
    """Transforms spatial quantities from frame A to frame B, like a `Transform`, in steps along coordinate axes.

    Its numbers are, as far as its form has them: sine and cosine of θ; d; sine and cosine of α; those of β; r.
    """

    __slots__ = ("_known", "form")

    def __init__(self, data: Any, *form: int) -> None:
        data = np.asarray(data).view()
        if data.shape != (self.size_of(*form),):
            raise ValueError(f"a transform of form {form} takes {self.size_of(*form)} numbers, got {data.shape}")
        data.flags.writeable = False
        self.data, self.form = data, Form(*form)
        self._known: tuple[Any, Array, tuple[_Turn, ...]] | None = None

    @property
    def parameters(self) -> tuple[int, ...]:
        return tuple(self.form)

    @classmethod
    def size_of(cls, *_: int) -> int:
        form = Form(*_)
        return 2 * form.turns + form.slides + placement_size(form)

    def _steps(self) -> tuple[Any, Array, tuple[_Turn, ...]]:
        """d, r, and the turns from A to B."""
        if self._known is not None:
            return self._known
        form, numbers = self.form, self.data.tolist()
        theta = _angle(_Z, numbers) if form.turns else None
        slide = numbers.pop(0) if form.slides else 0.0
        alpha = _angle(_X, numbers) if form.about_x == ANY else _quarters(_X, form.about_x)
        beta = _angle(_Z, numbers) if form.about_z == ANY else _quarters(_Z, form.about_z)
        r = np.array([numbers.pop(0) if form.offsets >> i & 1 else 0.0 for i in range(3)])
        self._known = slide, r, tuple([turn for turn in (beta, alpha, theta) if turn is not None])
        return self._known

    @property
    def E(self) -> Array:
        """Rotates A's coordinates into B's, (3, 3)."""
        return _all(self._steps()[2], np.eye(3))

    @property
    def r(self) -> Array:
        """Position of B's origin relative to A's, in A's coordinates, (3,) [m]."""
        slide, r, _ = self._steps()
        moved: Array = r + self.E[2] * slide if self.form.slides else r
        return moved

    def dense(self) -> Transform:
        """The same transform with a rotation matrix."""
        return Transform.of(self.E, self.r)

    def _force_back(self, force: Force) -> Force:
        slide, r, turns = self._steps()
        angular, linear = force.angular, force.linear
        if self.form.slides:
            angular = angular + cross(_along_z(slide), linear)
        angular, linear = _all_back(turns, angular), _all_back(turns, linear)
        return Force.of(angular + cross(r, linear), linear)

    @overload
    def __matmul__(self, other: Motion) -> Motion: ...
    @overload
    def __matmul__(self, other: Transform) -> Transform: ...
    def __matmul__(self, other: Motion | Transform) -> Motion | Transform:
        slide, r, turns = self._steps()
        if isinstance(other, Motion):
            angular = _all(turns, other.angular)
            linear = _all(turns, other.linear - cross(r, other.angular))
            if self.form.slides:
                linear = linear - cross(_along_z(slide), angular)
            return Motion.of(angular, linear)
        if isinstance(other, Transform):
            E, moved = _all(turns, other.E), other.r + other.E.T @ r
            return Transform.of(E, moved + E[2] * slide if self.form.slides else moved)
        return NotImplemented

    def back(self, motion: Motion) -> Motion:
        """Transform a motion from frame B to frame A: X⁻¹ m, without forming X⁻¹."""
        slide, r, turns = self._steps()
        linear = motion.linear + cross(_along_z(slide), motion.angular) if self.form.slides else motion.linear
        angular = _all_back(turns, motion.angular)
        return Motion.of(angular, _all_back(turns, linear) + cross(r, angular))

    def rate(self, motion: Motion) -> AxialTransform:
        """Rates of change of the numbers while the joint moves with a twist about and along z, in B's coordinates."""
        form, rates = self.form, []
        if form.turns:
            sine, cosine = self.data[:2]
            rates += [cosine * motion.angular[2], -(sine * motion.angular[2])]
        if form.slides:
            rates.append(motion.linear[2])
        return AxialTransform(stack(np.array(rates), np.zeros(placement_size(form))), *form)

    def inverse(self) -> Transform:
        """From frame B to frame A."""
        return self.dense().inverse()

    def _rigid_congruence(self, inertia: RigidInertia) -> RigidInertia:
        slide, r, turns = self._steps()
        if self.form.slides:
            inertia = shifted_rigid(inertia, _along_z(slide))
        moment, rotational = inertia.first_moment, inertia.rotational
        for turn in reversed(turns):
            moment, rotational = turn.back(moment), turn.matrix(rotational)
        return shifted_rigid(RigidInertia(stack(inertia.mass, moment, pack3(rotational))), r)

    def _articulated_congruence(self, inertia: ArticulatedInertia) -> ArticulatedInertia:
        slide, r, turns = self._steps()
        if self.form.slides:
            inertia = shifted_articulated(inertia, _along_z(slide))
        angular, coupling, linear = inertia.angular, inertia.coupling, inertia.linear
        for turn in reversed(turns):
            angular, coupling, linear = turn.matrix(angular), turn.matrix(coupling), turn.matrix(linear)
        return shifted_articulated(ArticulatedInertia.of(angular, coupling, linear), r)

    def _coriolis_congruence(self, inertia: CoriolisInertia) -> CoriolisInertia:
        slide, r, turns = self._steps()
        if self.form.slides:
            inertia = shifted_coriolis(inertia, _along_z(slide))
        block, lever = inertia.block, inertia.lever
        for turn in reversed(turns):
            block, lever = turn.matrix(block), turn.back(lever)
        return shifted_coriolis(CoriolisInertia(stack(block, lever)), r)

    def _articulated_coriolis_congruence(self, inertia: ArticulatedCoriolis) -> ArticulatedCoriolis:
        slide, r, turns = self._steps()
        if self.form.slides:
            inertia = shifted_articulated_coriolis(inertia.moments, inertia.forces, _along_z(slide))
        moments, forces = inertia.moments, inertia.forces
        for turn in reversed(turns):
            moments, forces = turn.matrix(moments), turn.matrix(forces)
        return shifted_articulated_coriolis(moments, forces, r)

    def moment_of(self, inertia: RigidInertia) -> Array:
        """First mass moment of a body with frame B, about A's origin and in A's axes, (3,) [kg m]."""
        return self.dense().moment_of(inertia)

    def matrix(self) -> Array:
        """The dense 6×6 motion transform, for inspection."""
        return self.dense().matrix()


def placement_size(form: Form) -> int:
    """How many numbers the constant steps of a transform take."""
    return 2 * (form.about_x == ANY) + 2 * (form.about_z == ANY) + form.offsets.bit_count()


def _along_z(slide: Any) -> Array:
    return np.array([0.0, 0.0, slide])


def _angle(axis: int, numbers: list[Any]) -> _Angle:
    sine, cosine = numbers.pop(0), numbers.pop(0)
    return _Angle(axis, sine, cosine)


def _quarters(axis: int, count: int) -> _Quarters | None:
    return _Quarters(axis, count) if count else None


def _all(turns: tuple[_Turn, ...], x: Array) -> Array:
    for turn in turns:
        x = turn.forth(x)
    return x


def _all_back(turns: tuple[_Turn, ...], x: Array) -> Array:
    for turn in reversed(turns):
        x = turn.back(x)
    return x


# A turn E is a rotation about a coordinate axis, from the coordinates before it to those behind it: `forth` is E x, of
# a vector or of the columns of a matrix, `back` is Eᵀ x, and `matrix` is Eᵀ C E, (3, 3).


class _Quarters(NamedTuple):
    """A number of quarter turns: moves numbers and changes signs."""

    axis: int
    quarters: int

    def forth(self, x: Array) -> Array:
        u, v = _across(self.axis)
        rows = _rows(x)
        for _ in range(self.quarters):
            rows[u], rows[v] = rows[v], -rows[u]
        return np.array(rows)

    def back(self, x: Array) -> Array:
        return _Quarters(self.axis, 4 - self.quarters).forth(x)

    def matrix(self, C: Array) -> Array:
        turned: Array = self.back(self.back(C).T).T
        return turned


class _Angle(NamedTuple):
    """A turn by any angle."""

    axis: int
    sine: Any
    cosine: Any

    def forth(self, x: Array) -> Array:
        (u, v), s, c = _across(self.axis), self.sine, self.cosine
        rows = _rows(x)
        rows[u], rows[v] = rows[u] * c + rows[v] * s, rows[v] * c - rows[u] * s
        return np.array(rows)

    def back(self, x: Array) -> Array:
        return _Angle(self.axis, -self.sine, self.cosine).forth(x)

    # In the plane of the turn, with t = s (C_uu − C_vv) + c (C_uv + C_vu):
    #     (Eᵀ C E)_uu = C_uu − s t,  _vv = C_vv + s t,  _uv = c t − C_vu,  _vu = c t − C_uv

    def matrix(self, C: Array) -> Array:
        (u, v), w = _across(self.axis), self.axis
        s, c, turned = self.sine, self.cosine, C.tolist()
        (uu, uv, uw), (vu, vv, vw) = ([turned[i][j] for j in (u, v, w)] for i in (u, v))
        wu, wv = turned[w][u], turned[w][v]
        t = (uu - vv) * s + (uv + vu) * c
        turned[u][u], turned[v][v] = uu - s * t, vv + s * t
        turned[u][v], turned[v][u] = c * t - vu, c * t - uv
        turned[u][w], turned[v][w] = uw * c - vw * s, uw * s + vw * c
        turned[w][u], turned[w][v] = wu * c - wv * s, wu * s + wv * c
        return np.array(turned)


_Turn = _Quarters | _Angle


def _rows(x: Array) -> list[Any]:
    """The numbers of a vector, or the rows of a matrix. Python's own numbers take half the time of NumPy's."""
    return x.tolist() if x.ndim == 1 else list(x)


def _across(axis: int) -> tuple[int, int]:
    """The axes of the plane in which a turn takes place."""
    return (axis + 1) % 3, (axis + 2) % 3
