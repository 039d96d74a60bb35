"""Weights, joint maps and inertias of clusters: several bodies that move as one node.

A cluster hangs on a rigid body, its *carrier*. Of the bodies inside, only *outlets*, those that carry something, keep
their own twist; the others enter through sums. The velocity of a cluster with o outlets and n independent rates ẏ is

    V = [V_1 … V_o; V_c; ẏ]        6o + 6 + n numbers, a plain array

where V_c is the twist of the carrier, in axes that may be turned from its own: those in which the geometry inside is
simplest. In this form the articulated inertia stays block diagonal:

    W = [X_1 … X_o; 1; 0] B      H = [H_1 … H_o; 0; 1]        M = diag(M_1 … M_o) ⊕ [[R, Q], [Qᵀ, N]]

with the turn B. R is the inertia of all that is inside as seen by the carrier, N as seen by the rates, Q couples the
two. P⁺ is never formed: only WᵀP⁺W is needed, which is a 6×6 matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from kinetree.spatial.dense import Outlet
from kinetree.spatial.hinge import RiccatiStep
from kinetree.spatial.inertia import ArticulatedInertia, Factor, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import stack
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array, Linear, Sized, Transposed

if TYPE_CHECKING:
    from typing_extensions import Self


class _OfCluster(Sized):
    """A quantity of a cluster, whose size follows from the number of its outlets and of its rates."""

    __slots__ = names = ("outlets", "rates")
    outlets: int
    rates: int


class ClusterWeight(_OfCluster):
    """A*(p, k): a turn of axes, then a transform for each outlet; the carrier's twist is kept, rates are relative."""

    __slots__ = ()

    @classmethod
    def size_of(cls, *_: int) -> int:
        outlets, _rates = _
        return 12 * outlets + 9

    @property
    def turn(self) -> Transform:
        """B: from the carrier's own axes to those used inside."""
        return Transform.of(self.data[12 * self.outlets :], np.zeros(3))

    def outlet(self, i: int) -> Transform:
        """From the carrier, in the axes used inside, to an outlet."""
        return Transform(self.data[12 * i : 12 * i + 12])

    def __matmul__(self, carrier: Any) -> Any:
        carrier = self.turn @ carrier
        placed = [self.outlet(i) @ carrier for i in range(self.outlets)]
        if isinstance(carrier, Transform):
            return ClusterPose(stack(*(X.data for X in placed), carrier.data), self.outlets, self.rates)
        return stack(*(V.data for V in placed), carrier.data, np.zeros(self.rates))

    @property
    def T(self) -> Transposed[Array, Force]:
        """Maps forces to the carrier."""
        return Transposed(self._force_back)

    def _force_back(self, force: Array) -> Force:
        total = Force(force[6 * self.outlets : 6 * self.outlets + 6])
        for i in range(self.outlets):
            total = total + self.outlet(i).T @ Force(force[6 * i : 6 * i + 6])
        return self.turn.T @ total

    def congruence(
        self, inertia: ClusterInertia | ClusterComposite | ClusterDowndated
    ) -> ArticulatedInertia | RigidInertia:
        """Wᵀ P W."""
        if isinstance(inertia, ClusterComposite):
            felt = inertia.carried
            for i in range(self.outlets):
                felt = felt + self.outlet(i).congruence(inertia.outlet(i))
            return self.turn.congruence(felt)
        own = inertia.inertia if isinstance(inertia, ClusterDowndated) else inertia
        total = own.carried.articulated()
        for i in range(self.outlets):
            total = total + self.outlet(i).congruence(own.outlet(i))
        if not isinstance(inertia, ClusterDowndated):
            return self.turn.congruence(total)
        # less w D⁻¹ wᵀ with w = WᵀP H
        w = own.coupling
        for i, U in enumerate(inertia.U):
            back = [(self.outlet(i).T @ Force(U[:, c])).data for c in range(self.rates)]
            w = w + np.stack(back, axis=1)
        gain, dense = inertia.D.solve(w.T).T, total.matrix()
        entries = []
        for row, column in zip(*np.triu_indices(6), strict=True):
            entry = dense[row, column]
            for c in range(self.rates):
                entry = entry - w[row, c] * gain[column, c]
            entries.append(entry)
        return self.turn.congruence(ArticulatedInertia(np.array(entries)))


class ClusterPose(_OfCluster):
    """W C of a cluster on a carrier with pose C: the poses of its outlets, and C itself."""

    __slots__ = ()

    @classmethod
    def size_of(cls, *_: int) -> int:
        outlets, _rates = _
        return 12 * outlets + 12

    def outlet(self, i: int) -> Transform:
        """The pose of an outlet; the last one is the carrier's."""
        return Transform(self.data[12 * i : 12 * i + 12])

    @property
    def T(self) -> Transposed[Array, Force]:
        """Maps forces on the cluster to the pose's source frame."""
        return Transposed(self._force_back)

    def _force_back(self, force: Array) -> Force:
        parts = [self.outlet(i).T @ Force(force[6 * i : 6 * i + 6]) for i in range(self.outlets + 1)]
        return sum(parts[1:], parts[0])

    def moment_of(self, inertia: ClusterInertia) -> Array:
        """First mass moment of all bodies in the pose's source frame, (3,) [kg m]."""
        moment = self.outlet(self.outlets).moment_of(inertia.carried)
        for i in range(self.outlets):
            moment = moment + self.outlet(i).moment_of(inertia.outlet(i).rigid())
        return moment

    def mass_of(self, inertia: ClusterInertia) -> Any:
        """Mass of all bodies [kg]."""
        mass = inertia.carried.mass
        for i in range(self.outlets):
            mass = mass + inertia.outlet(i).rigid().mass
        return mass

    def referred(self, _slides: Any) -> tuple[ClusterPose, Array]:
        """This pose itself, whose source stays where it is."""
        return self, np.zeros(3)


class Slot(Outlet):
    """The weight of an exit of a cluster: extracts the twist of one of its outlets."""

    __slots__ = ("index", "outlets", "rates")

    def __init__(self, index: int, outlets: int, rates: int) -> None:
        super().__init__(6 * index, 6 * outlets + 6 + rates)
        self.index, self.outlets, self.rates = index, outlets, rates

    @property
    def parameters(self) -> tuple[int, ...]:
        return (self.index, self.outlets, self.rates)

    def __matmul__(self, carrier: Any) -> Any:
        return carrier.outlet(self.index) if isinstance(carrier, ClusterPose) else super().__matmul__(carrier)

    def congruence(self, inertia: ArticulatedInertia | RigidInertia) -> Any:
        """An inertia carried by the outlet, as an inertia of the cluster."""
        carried: list[Any] = [type(inertia).zero()] * self.outlets
        carried[self.index] = inertia
        n, kind = self.rates, ClusterComposite if isinstance(inertia, RigidInertia) else ClusterInertia
        return kind.of(carried, RigidInertia.zero(), np.zeros((6, n)), np.zeros((n, n)))


class _Blocks(_OfCluster, Linear):
    """Inertias of the outlets, and of what is inside R (10 numbers), Q (6×n) and N (n×n)."""

    __slots__ = ()
    #: Type of the outlets' inertias.
    own: ClassVar[type[ArticulatedInertia | RigidInertia]]

    @classmethod
    def size_of(cls, *_: int) -> int:
        outlets, n = _
        return cls.own.size * outlets + 10 + 6 * n + n * (n + 1) // 2

    @classmethod
    def of(cls, outlets: list[Any], carried: RigidInertia, coupling: Array, relative: Array) -> Self:
        """From its blocks."""
        n = len(relative)
        parts = [inertia.data for inertia in outlets]
        return cls(stack(*parts, carried.data, coupling, relative[np.triu_indices(n)]), len(outlets), n)

    def outlet(self, i: int) -> Any:
        """The block of an outlet."""
        size = self.own.size
        return self.own(self.data[size * i : size * i + size])

    @property
    def _inside(self) -> int:
        """Where R starts."""
        return self.own.size * self.outlets

    @property
    def carried(self) -> RigidInertia:
        """R: of all that is inside, joints locked, about the carrier's origin."""
        return RigidInertia(self.data[self._inside : self._inside + 10])

    @property
    def coupling(self) -> Array:
        """Q, (6, n)."""
        start = self._inside + 10
        Q: Array = self.data[start : start + 6 * self.rates].reshape(6, self.rates)
        return Q

    @property
    def relative(self) -> Array:
        """N, (n, n)."""
        n, start = self.rates, self._inside + 10 + 6 * self.rates
        at = np.zeros((n, n), dtype=np.intp)
        rows, columns = np.triu_indices(n)
        at[rows, columns] = at[columns, rows] = np.arange(len(rows))
        N: Array = self.data[start:][at]
        return N

    def __matmul__(self, motion: Array) -> Array:
        o, Q = self.outlets, self.coupling
        carrier, rates = motion[6 * o : 6 * o + 6], motion[6 * o + 6 :]
        outlets = [(self.outlet(i) @ Motion(motion[6 * i : 6 * i + 6])).data for i in range(o)]
        inside = (self.carried @ Motion(carrier)).data + Q @ rates
        return stack(*outlets, inside, Q.T @ carrier + self.relative @ rates)


class ClusterInertia(_Blocks):
    """M or P: outlets have articulated inertias."""

    __slots__ = ()
    own = ArticulatedInertia

    def articulated(self) -> ClusterInertia:
        """This inertia itself: it can already represent an articulated inertia."""
        return self

    def composite(self) -> ClusterComposite:
        """M, to which outlets may add rigid inertias."""
        rigid = [self.outlet(i).rigid() for i in range(self.outlets)]
        return ClusterComposite.of(rigid, self.carried, self.coupling, self.relative)


class ClusterComposite(_Blocks):
    """R: outlets have rigid inertias, those of everything that they carry."""

    __slots__ = ()
    own = RigidInertia


class ClusterDowndated(NamedTuple):
    """P⁺ = P − U D⁻¹ Uᵀ with U = P H, not evaluated; U of each outlet, (6, n)."""

    inertia: ClusterInertia
    U: list[Array]
    D: Factor


class ClusterMap(_OfCluster):
    """H: 6×n for each outlet, zero for the carrier, one for the rates."""

    __slots__ = ()

    @classmethod
    def size_of(cls, *_: int) -> int:
        outlets, n = _
        return 6 * outlets * n

    #: Whether it can be told that no motion turns; see `JointMap`.
    translates = 0.0

    def outlet(self, i: int) -> Array:
        """The rows of an outlet, (6, n)."""
        count = 6 * self.rates
        H: Array = self.data[count * i : count * (i + 1)].reshape(6, self.rates)
        return H

    def __matmul__(self, x: Array) -> Array:
        return stack(*(self.outlet(i) @ x for i in range(self.outlets)), np.zeros(6), x)

    @property
    def T(self) -> Transposed[Array, Array]:
        """Maps a force on the cluster to forces along its rates."""
        return Transposed(self._components)

    def _components(self, force: Array) -> Array:
        total = force[6 * self.outlets + 6 :]
        for i in range(self.outlets):
            total = total + self.outlet(i).T @ force[6 * i : 6 * i + 6]
        return total

    def hinge(self, P: ClusterInertia, armature: Array) -> RiccatiStep:
        """[J11] Eq. 32, with P⁺ in factored form."""
        U = [P.outlet(i).matrix() @ self.outlet(i) for i in range(self.outlets)]
        D = P.relative
        for i in range(self.outlets):
            D = D + self.outlet(i).T @ U[i]
        D = D + np.diag(armature)
        factor = Factor.of(D)
        columns = [*U, P.coupling, P.relative]
        gain = stack(*(factor.solve(block.T).T for block in columns))
        return RiccatiStep(factor, ClusterGain(gain, self.outlets, self.rates), ClusterDowndated(P, U, factor))


class ClusterGain(_OfCluster):
    """G = P H D⁻¹: n columns for each outlet, the carrier and the rates."""

    __slots__ = ()

    @classmethod
    def size_of(cls, *_: int) -> int:
        outlets, n = _
        return (6 * outlets + 6 + n) * n

    def matrix(self) -> Array:
        """(6o + 6 + n, n)."""
        matrix: Array = self.data.reshape(-1, self.rates)
        return matrix

    def __matmul__(self, x: Array) -> Array:
        return self.matrix() @ x

    def past(self, force: Array, projected: Array) -> Array:
        """(1 − G Hᵀ) F: what of a force gets past the joints, given Hᵀ F."""
        return force - self @ projected

    @property
    def T(self) -> Transposed[Array, Array]:
        """Maps a motion of the cluster to scalars."""
        return Transposed(lambda motion: self.matrix().T @ motion)
