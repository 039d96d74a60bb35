"""A tree of links with revolute joints, each in coordinates of its own, as [W12] counts.

Numbers are random: what counts is which are there at all. Frames follow the convention of Denavit and Hartenberg: z is
the joint's axis, x the common normal to the next one. A body has one child to which its x axis points; others are
reached by one more constant screw. A floating base has its frame where it is a pure rotation away from one child, the
"privileged" one.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.papers.link_coordinates.number import Number, Tally, values
from benchmarks.papers.link_coordinates.screw import Screw, X, Z
from kinetree.spatial.value import Array

#: Components of motion that a revolute joint about z does not free.
HELD = (0, 1, 3, 4, 5)

Blocks = dict[tuple[int, int], Array]


class Links:
    """The mechanism.

    Args:
        parents: Number of each link's parent, which comes first; −1 for the world.
        floating: The first link floats. Else all joints are revolute.
        tips: The links that carry end-effectors.

    Attributes:
        tally: Counts what is done with the numbers.
        paths: Links from the base to each link, itself included.
        screws: From each link's parent to the link.
        masses: [kg].
        centers: Centres of mass, (3,) each [m].
        inertias: About the origin of the link, (3, 3) each.
        rotations: From the carrying link to each end-effector, (3, 3) each.
        positions: Of each end-effector, in the carrying link, (3,) each [m].
    """

    def __init__(self, parents: Sequence[int], floating: bool, tips: Sequence[int]) -> None:
        rng = np.random.default_rng(0)
        self.parents, self.floating, self.tips, self.tally = tuple(parents), floating, tuple(tips), Tally()
        self.paths: list[tuple[int, ...]] = []
        for i, parent in enumerate(parents):
            self.paths.append((*(self.paths[parent] if parent >= 0 else ()), i))
        self.screws = [self._screws(i, rng.uniform(0.2, 0.9, 6)) for i in range(len(parents))]
        self.masses, self.centers = rng.uniform(1.0, 2.0, len(parents)), rng.uniform(-0.3, 0.3, (len(parents), 3))
        self.inertias = [
            np.diag(rng.uniform(1.0, 2.0, 3)) + mass * (c @ c * np.eye(3) - np.outer(c, c))
            for mass, c in zip(self.masses, self.centers, strict=True)
        ]
        self.rotations = [_rotation(rng) for _ in tips]
        self.positions = rng.uniform(-0.4, 0.4, (len(tips), 3))

    def is_floating(self, i: int) -> bool:
        """Whether a link is the floating base."""
        return self.floating and self.parents[i] < 0

    def _screws(self, i: int, numbers: Array) -> tuple[Screw, ...]:
        parent = self.parents[i]
        if parent < 0:
            return ()
        theta, d, alpha, a, phi, e = numbers.tolist()
        carried = [sum(j in self.paths[tip] for tip in self.tips) for j in range(len(self.parents))]
        siblings = [j for j, of in enumerate(self.parents) if of == parent]
        first = max(siblings, key=lambda j: carried[j]) == i
        if first and self.is_floating(parent):
            return (Screw(Z, theta, 0.0, False, self.tally),)
        pair = (Screw(X, alpha, a, True, self.tally), Screw(Z, theta, d, False, self.tally))
        return pair if first else (Screw(Z, phi, e, True, self.tally), *pair)

    # What the algorithms do at a joint

    def outward(self, i: int, motion: Array) -> Array:
        """X m, from the parent to the link."""
        for screw in self.screws[i]:
            motion = screw.motion(motion)
        return motion

    def inward(self, i: int, force: Array) -> Array:
        """Xᵀ f, from the link to its parent."""
        for screw in reversed(self.screws[i]):
            force = screw.force(force)
        return force

    def rigid_inertia(self, i: int) -> Array:
        """The spatial inertia of a link, (6, 6)."""
        coupling = self.masses[i] * skew(self.centers[i])
        mass = self.masses[i] * np.eye(3)
        return self.tally.numbers(np.block([[self.inertias[i], coupling], [coupling.T, mass]]))

    def effector(self, k: int) -> Array:
        """X, from the link that carries an end-effector to the end-effector, (6, 6)."""
        E, r = self.rotations[k], self.positions[k]
        return self.tally.numbers(np.block([[E, np.zeros((3, 3))], [-E @ skew(r), E]]))

    def at_effector(self, k: int, motion: Array) -> Array:
        """X m, from the link that carries an end-effector to the end-effector: 24m + 18a."""
        E, r = self.tally.numbers(self.rotations[k]), self.tally.numbers(self.positions[k])
        angular, linear = motion[:3], motion[3:]
        self.tally.transforms = True
        result = np.concatenate([E @ angular, E @ (linear - cross(r, angular))])
        self.tally.transforms = False
        return result

    def meeting(self, one: int, other: int) -> int | None:
        """The last link that carries two end-effectors; None if they are on different trees."""
        shared = [i for i in self.paths[self.tips[one]] if i in self.paths[self.tips[other]]]
        return shared[-1] if shared else None

    def matrix(self, blocks: Blocks) -> Array:
        """Λ⁻¹ as numbers, from blocks on and right of the diagonal."""
        size = 6 * len(self.tips)
        result = np.zeros((size, size))
        for (i, j), block in blocks.items():
            result[6 * i : 6 * i + 6, 6 * j : 6 * j + 6] = values(block)
        whole: Array = np.triu(result) + np.triu(result, 1).T
        return whole


class Hinges:
    """Articulated inertias, and what they leave at the joints: G = I^A Φ (Φᵀ I^A Φ)⁻¹, so that L = 1 − Φ Gᵀ.

    Attributes:
        G: At each link but a floating base, (6,); its third entry is 1.
        reciprocal: (Φᵀ I^A Φ)⁻¹, one number each.
        base: (I^A)⁻¹ of a floating base, (6, 6).
    """

    def __init__(self, links: Links) -> None:
        inertias = [links.rigid_inertia(i) for i in range(len(links.parents))]
        self.G: dict[int, Array] = {}
        self.reciprocal: dict[int, Number] = {}
        for i in reversed(range(len(links.parents))):
            I, parent = inertias[i], links.parents[i]
            if links.is_floating(i):
                self.base = inverse(I)
                continue
            self.reciprocal[i] = 1 / I[2, 2]
            G = I[:, 2] * self.reciprocal[i]
            G[2] = 1
            self.G[i] = G
            if parent >= 0:
                inertias[parent] = add(inertias[parent], _through(links, i, I, G))

    def propagated(self, links: Links, i: int, motion: Array) -> Array:
        """L X m, from the parent to the link, which gives way."""
        moved: Array = links.outward(i, motion).copy()
        moved[2] = self.freed(i, moved)
        return moved

    def freed(self, i: int, motion: Array) -> Number:
        """The component of L m that the joint frees. It does not depend on the same component of m."""
        given: Number = -sum(self.G[i][j] * motion[j] for j in HELD)
        return given


def inverse(I: Array) -> Array:
    """Of a symmetric matrix, by factors L D Lᵀ that are inverted: 120m + 90a and 21 divisions, the paper's 231."""
    order = len(I)
    L, d, scaled = np.zeros((order, order), dtype=object), np.empty(order, dtype=object), I.copy()
    for j in range(order):
        d[j] = I[j, j]
        for k in range(j):
            scaled[j, k] = L[j, k] * d[k]
            d[j] = d[j] - scaled[j, k] * L[j, k]
        for i in range(j + 1, order):
            L[i, j] = (I[i, j] - sum(L[i, k] * scaled[j, k] for k in range(j))) / d[j]
    K = np.zeros((order, order), dtype=object)  # L⁻¹
    for j in range(order):
        for i in range(j + 1, order):
            K[i, j] = -L[i, j] - sum(L[i, k] * K[k, j] for k in range(j + 1, i))
    reciprocals = [1 / pivot for pivot in d]
    lower = np.array([[K[i, j] * reciprocals[i] for j in range(order)] for i in range(order)], dtype=object)
    result = np.empty((order, order), dtype=object)
    for j in range(order):
        result[j, j] = reciprocals[j] + sum(lower[k, j] * K[k, j] for k in range(j + 1, order))
        for i in range(j):
            own = lower[j, i] + sum(lower[k, i] * K[k, j] for k in range(j + 1, order))
            result[i, j] = result[j, i] = own
    return result


def _through(links: Links, i: int, I: Array, G: Array) -> Array:
    """Xᵀ Lᵀ I^A X: what the parent feels of a link and all that it carries."""
    felt = np.zeros((6, 6), dtype=object)
    for n, j in enumerate(HELD):
        for k in HELD[n:]:
            felt[j, k] = felt[k, j] = I[j, k] - G[j] * I[k, 2]
    for screw in reversed(links.screws[i]):
        felt = screw.inertia(felt)
    return felt


def add(one: Array, other: Array) -> Array:
    """Of two symmetric matrices."""
    result: Array = one.copy()
    for j in range(6):
        for k in range(j, 6):
            result[j, k] = result[k, j] = one[j, k] + other[j, k]
    return result


def cross(a: Array, b: Array) -> Array:
    """a × b."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], dtype=object)


def skew(a: Array) -> Array:
    """The matrix that takes b to a × b."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _rotation(rng: np.random.Generator) -> Array:
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    proper: Array = Q * np.sign(np.linalg.det(Q))
    return proper
