"""Distances between the shapes of a model: `robot.distances`, `robot.collides`, `robot.clearance`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS_DOT_V, VELOCITIES, joint_screws, poses
from kinetree.compiler.formats import format_of
from kinetree.errors import (
    ConvergenceError,
    InputError,
    LoadError,
    ModelError,
    ModelWarning,
    UnknownNameError,
    UnsupportedError,
)
from kinetree.kernels.distance_rates import distance_rates
from kinetree.kernels.pair_distances import distance_rows, pair_distances, rounds_of
from kinetree.language.mechanism import Site
from kinetree.model import collision_pairs as reasons
from kinetree.model.collision_pairs import CollisionPairs, excluded_by_structure
from kinetree.model.convex_distances import ConvexDistances
from kinetree.model.dynamics import Dynamics
from kinetree.model.field_distances import PROBED
from kinetree.model.meshes import content_of
from kinetree.model.shapes import Scene, SolidShape, named, surroundings
from kinetree.model.specs import WORLD_NAME
from kinetree.runtime.arguments import doubles, number
from kinetree.runtime.bound import Compiled
from kinetree.runtime.function import Function, KernelFunction, compiled
from kinetree.runtime.kernels import bind
from kinetree.runtime.operands import Operand
from kinetree.runtime.sequence import KernelSequence
from kinetree.runtime.texts import executed, recorded
from kinetree.spatial.transform import Transform, transform_of
from kinetree.spatial.value import Array
from kinetree.tasks.recursions import TaskFunction

if TYPE_CHECKING:
    from typing_extensions import Self

#: More pairs than this are refused.
MOST_PAIRS = 1_000_000
# Distances that are computed at once where only their signs are wanted, and pairs that are worth no code of their own.
_AT_ONCE, _FEW = 2_000_000, 10_000
#: Sets of pairs whose functions are kept; beyond this number all are dropped.
_KEPT = 32


class Distances:
    """Distances of pairs of shapes at some configurations.

    Attributes:
        pairs: The pairs, in the order of the results.
        distance: Signed distances, (…, p) [m]: negative where shapes overlap, by the least translation that parts them.
        normal: Unit normals from the second shape of each pair to the first, (…, p, 3).
        points: The nearest points on both shapes, the deepest ones inside, (…, p, 2, 3) [m].
    """

    def __init__(self, robot: Collisions, q: Array, pairs: CollisionPairs, found: tuple[Array, Array, Array]) -> None:
        self.pairs, self.q, self._robot = pairs, q, robot
        #: Internal. d, (…, p), n, (…, 3, p), and points, (…, 2, 3, p), as they are in memory.
        self.arrays = found
        self.distance, self._normal, self._points = found

    @property
    def normal(self) -> Array:
        """See the class."""
        normal: Array = self._normal.swapaxes(-1, -2)
        return normal

    @property
    def points(self) -> Array:
        """See the class."""
        points: Array = self._points.swapaxes(-1, -2).swapaxes(-2, -3)
        return points

    def __repr__(self) -> str:
        return f"<distances: {self.distance.shape[-1]}, the smallest {self.distance.min(initial=np.inf):.4g} m>"

    def nearest(self, count: int) -> NearestDistances:
        """The nearest pairs of each configuration, the nearest one first."""
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 0 <= count <= len(self.pairs):
            raise InputError(f"nearest({count!r}): this is a number of pairs, from 0 to {len(self.pairs)}")
        # a partition takes a fraction of the time of sorting
        some = np.argpartition(self.distance, min(count, len(self.pairs) - 1), axis=-1)[..., :count]
        order = np.argsort(taken(self.distance, some), axis=-1, kind="stable")
        return NearestDistances(self, taken(some, order))

    @cached_property
    def jacobian(self) -> Array:
        """The derivative of each distance by the velocities, (…, p, nv). That of the `nearest` ones costs less."""
        every = np.broadcast_to(np.arange(len(self.pairs)), self.distance.shape)
        return self._robot._distance_rows(self.q, self.pairs, every, self.normal, self.points)

    def jvp(self, dq: ArrayLike) -> Array:
        """The rates of all distances along velocities dq, (…, nv): (…, p)."""
        dq = doubles("distances.jvp", "dq", dq, (self._robot.nv,))
        return np.asarray((self.jacobian @ dq[..., None])[..., 0])

    def vjp(self, weight: ArrayLike) -> Array:
        """The derivative of the distances times weights, (…, p), by the velocities: (…, nv)."""
        weight = doubles("distances.vjp", "weight", weight, (len(self.pairs),))
        return np.asarray((weight[..., None, :] @ self.jacobian)[..., 0, :])


class NearestDistances:
    """The nearest pairs of each configuration.

    Attributes:
        index: Their numbers among all pairs, (…, k).
        distance: Signed distances, (…, k) [m].
        normal: Unit normals from the second shape to the first, (…, k, 3).
        points: The nearest points on both shapes, (…, k, 2, 3) [m].
    """

    def __init__(self, of: Distances, index: Array) -> None:
        self._of, self.index = of, index
        self.distance: Array = taken(of.distance, index)
        self.normal: Array = taken(of.normal, index)
        self.points: Array = taken(of.points, index)

    def __repr__(self) -> str:
        least = f", the smallest {self.distance.min():.3g} m" if self.distance.size else ""
        return f"<the {self.index.shape[-1]} nearest of {len(self._of.pairs)} pairs{least}>"

    @cached_property
    def jacobian(self) -> Array:
        """The derivative of each distance by the velocities, nᵀ(J_a − J_b) at the nearest points, (…, k, nv)."""
        of = self._of
        return of._robot._distance_rows(of.q, of.pairs, self.index, self.normal, self.points)

    @property
    def names(self) -> Any:
        """The names of their shapes: a list of pairs, in lists for batches."""
        table = np.empty(len(self._of.pairs), dtype=object)
        table[:] = self._of.pairs.names
        return table[self.index].tolist()


class Clearance:
    """The smallest distance of some pairs of shapes: `robot.clearance(q, pairs)`, (…) [m]; infinite without pairs."""

    def __init__(self, robot: Collisions) -> None:
        self._robot = robot

    def __call__(self, q: ArrayLike, pairs: CollisionPairs, *, out: Array | None = None) -> Array:
        """The smallest distance, (…) [m]."""
        found: Array = self._robot._clearances(q, pairs).min(axis=-1, initial=np.inf)
        return found if out is None else filled("clearance", self._robot.dtype, out, found)

    def jvp(self, q: ArrayLike, pairs: CollisionPairs, dq: ArrayLike) -> Array:
        """Its rate of change along a velocity dq, (…, nv); at ties that of the first pair."""
        dq = doubles("clearance.jvp", "dq", dq, (self._robot.nv,))
        return np.asarray((self._row(q, pairs) * dq).sum(axis=-1))

    def vjp(self, q: ArrayLike, pairs: CollisionPairs, weight: ArrayLike = 1.0) -> Array:
        """Its derivative by the velocities times a weight (…), (…, nv); at ties that of the first pair."""
        return np.asarray(doubles("clearance.vjp", "weight", weight, ())[..., None] * self._row(q, pairs))

    def _row(self, q: ArrayLike, pairs: CollisionPairs) -> Array:
        if not len(pairs):
            return np.zeros((*np.shape(q)[:-1], self._robot.nv), self._robot.dtype)
        near = self._robot.distances(q, pairs)
        index = near.distance.argmin(axis=-1)[..., None]
        row: Array = NearestDistances(near, index).jacobian[..., 0, :]
        return row


class Collisions(Dynamics):
    """Shapes of a model and the distances between them."""

    def with_shapes(self, shapes: Iterable[SolidShape], *, add: bool = False) -> Self:
        """This robot with other shapes.

        Args:
            shapes: The shapes, such as `geometry.Capsule("forearm", (0, 0, 0), (0, 0, 0.3), radius=0.05)`. One without
                a body belongs to the frame that has its name; names that occur twice get numbers.
            add: Whether to keep the shapes that there are.

        Raises:
            UnknownNameError: If there is no such frame.
            ModelError: If something is no shape.
        """
        kept = self.shapes if add else ()
        found = named(shapes, (shape.name for shape in kept))
        carriers, _ = self._moving_bodies
        for shape in found:
            if shape.body not in carriers:
                self.site(str(shape.body))  # raises
        every = (*kept, *found)
        rules = self.pair_rules.among(carriers, (shape.name for shape in every))
        return self._edited(shapes=every, pair_rules=rules)

    def collision_pairs(
        self, *, srdf: Any = None, scene: Scene | None = None, keep_colliding: bool = False, samples: int = 2000
    ) -> CollisionPairs:
        """The pairs of shapes that may collide: of this robot with itself, and with a scene.

        Left out, each with its reason in `excluded`, are pairs on the same moving body, on bodies that a joint
        connects (bodies without shapes do not count), those that an SRDF file disables or the robot's MJCF file
        excludes, those without a common bit in their masks, and those that collide at the neutral configuration or at
        all of some random ones. The last two are named in a `ModelWarning`. A `<pair>` of an MJCF file is kept whatever
        it says about joints, excluded bodies and masks.

        Args:
            srdf: An SRDF file, whose `<disable_collisions>` are read.
            scene: Shapes around the robot.
            keep_colliding: Whether to keep pairs that collide at neutral or always.
            samples: Number of random configurations, with a fixed seed.

        Raises:
            InputError: If there are more than a million pairs, or the SRDF file cannot be read.
            UnsupportedError: If a shape has no distances from a height field; names it, and what to do.
            ModelError: If a shape of the scene has the name of one of the robot's.
        """
        around = surroundings(scene)
        if not self.shapes:
            warnings.warn(
                f"{self.name!r} has no shapes, so that nothing collides; give it some: with_shapes([…]), or "
                'load(…, shapes="visual")',
                ModelWarning,
                stacklevel=2,
            )
        every = (*self.shapes, *around)
        own = {shape.name for shape in self.shapes}
        for shape in around:
            if shape.name in own:
                raise ModelError(f"the scene and {self.name!r} both have a shape {shape.name!r}; rename one")
        if len(every) * (len(every) - 1) // 2 > MOST_PAIRS:
            raise InputError(
                f"{len(every)} shapes have more than {MOST_PAIRS} pairs; give the robot fewer ones, with "
                "robot.with_shapes(…)"
            )
        carriers, parents = self._moving_bodies
        disabled = () if srdf is None else disabled_pairs(srdf, {body.name for body in self.bodies})
        left_out = excluded_by_structure(
            every, {shape.name: carriers[str(shape.body)] for shape in every}, parents, disabled, self.pair_rules
        )
        all_pairs = [(a.name, b.name) for k, a in enumerate(every) for b in every[k + 1 :]]
        found = CollisionPairs(every, [pair for pair in all_pairs if pair not in left_out], left_out)
        kinds = {shape.name: shape.kind for shape in every}
        for a, b in found.names:
            if kinds[b] == "height field" and kinds[a] not in PROBED:
                raise UnsupportedError(
                    f"shape {a!r} is a {kinds[a]}, which has no distance from height field {b!r}, as "
                    f"{', '.join(PROBED)} have: put capsules around it, with geometry.simplified"
                )
        if keep_colliding or not len(found):
            return found
        colliding: dict[tuple[str, str], str] = {}
        at_neutral = self._clearances(self.neutral(), found) < 0.0
        q = self.random_configuration(np.random.default_rng(0), (samples,))
        always: Any = self._never_apart(q, found) if samples > 0 else at_neutral & False
        for pair, touching, never_apart in zip(found.names, at_neutral, always, strict=True):
            if never_apart or touching:
                colliding[pair] = reasons.ALWAYS if never_apart else reasons.AT_NEUTRAL
        reasons.warn_of(colliding, 2, ModelWarning)
        return CollisionPairs(
            every, [pair for pair in found.names if pair not in colliding], {**found.excluded, **colliding}
        )

    def distances(
        self, q: ArrayLike, pairs: CollisionPairs, *, out: Distances | tuple[Array, Array, Array] | None = None
    ) -> Distances:
        """Signed distances of pairs of shapes, with normals and nearest points.

        Args:
            q: Configurations, (…, nq).
            pairs: From `collision_pairs`.
            out: What takes the results: those of an earlier call, or arrays of distances, (…, p), normals, (…, p, 3),
                and points, (…, p, 2, 3).

        Raises:
            ConvergenceError: If a distance that is found by iterations has no certificate.
        """
        found = self._distance_function(pairs, True)
        if out is None:
            results = found(q)
            self._certified(q, pairs, results[0])
            return Distances(self, np.asarray(q), pairs, results)
        if isinstance(out, Distances):
            out = out.distance, out.normal, out.points
        if not (isinstance(out, tuple) and len(out) == 3 and all(isinstance(x, np.ndarray) for x in out)):
            raise InputError("distances: out is the result of an earlier call, or a tuple of three arrays")
        d, normal, points = out
        if normal.ndim < 2 or points.ndim < 3:
            raise InputError(f"distances: out has normals {normal.shape}, points {points.shape}; see its docstring")
        results = d, normal.swapaxes(-1, -2), points.swapaxes(-2, -3).swapaxes(-1, -2)
        found(q, out=results)
        self._certified(q, pairs, d)
        return Distances(self, np.asarray(q), pairs, results)

    def collides(self, q: ArrayLike, pairs: CollisionPairs, margin: float = 0.0, *, out: Array | None = None) -> Any:
        """Whether some pair of shapes is nearer than a margin, (…) Booleans; False where q is NaN.

        Args:
            q: Configurations, (…, nq).
            pairs: From `collision_pairs`.
            margin: [m].
            out: What takes the result.
        """
        least = number("collides: margin", margin, what="a length in metres")
        found = (self._clearances(q, pairs) < least).any(axis=-1)
        return found if out is None else filled("collides", np.dtype(bool), out, np.asarray(found))

    @cached_property
    def clearance(self) -> Clearance:
        """The smallest distance of pairs of shapes: `robot.clearance(q, pairs)`, (…) [m]; has `jvp` and `vjp`."""
        return Clearance(self)

    # -- internal -----------------------------------------------------------------------------------------------------

    @cached_property
    def _moving_bodies(self) -> tuple[dict[str, str], dict[str, str]]:
        """The moving body that carries each frame, and the one that carries each moving body."""
        carriers, parents = {WORLD_NAME: WORLD_NAME}, dict[str, str]()
        for joint in self._every_joint:
            parent = carriers[joint.parent]
            if joint.node is None and not joint.type.nv:
                carriers[joint.child] = parent
                continue
            carriers[joint.child], parents[joint.child] = joint.child, parent
            for outlet in () if joint.node is None else joint.node.outlets:
                name = f"{joint.child}/{outlet}"
                carriers[name], parents[name] = name, joint.child
        return carriers | {frame.name: carriers[frame.body] for frame in self.extra_frames}, parents

    def _clearances(self, q: ArrayLike, pairs: CollisionPairs) -> Array:
        """The distances alone, (…, p)."""
        found: Array = self._distance_function(pairs, False)(q)
        self._certified(q, pairs, found)
        return found

    def _certified(self, q: ArrayLike, pairs: CollisionPairs, d: Array) -> None:
        """Refuse distances without a certificate: those that are NaN though q is not."""
        if pairs.iterated and (lost := np.isnan(d[..., pairs.iterated])).any():
            lost &= np.isfinite(np.asarray(q, float)).all(axis=-1)[..., None]
            if lost.any():
                first = int(np.flatnonzero(lost.any(axis=tuple(range(lost.ndim - 1))))[0])
                a, b = pairs.names[pairs.iterated.start + first]
                raise ConvergenceError(
                    f"the distance of {a!r} and {b!r} is not found with a certificate, at {int(lost.sum())} of the "
                    "configurations; put capsules around such shapes: geometry.fit, or geometry.simplified"
                )

    def _never_apart(self, q: Array, pairs: CollisionPairs) -> Array:
        """Which pairs overlap at all configurations, (p,) Booleans.

        Pairs that are apart once are not looked at again, unless they are compiled, and few.
        """
        together, start = np.ones(len(pairs), dtype=bool), 0
        always = np.arange(len(pairs)) < (len(pairs.compiled) if len(pairs) <= _FEW else 0)
        while start < len(q) and together.any():
            left = np.flatnonzero(together | always)  # whose order is that of all pairs
            whole = len(left) == len(pairs)
            some = pairs if whole else CollisionPairs(pairs.shapes, [pairs.names[k] for k in left], {})
            count = 1 if start == 0 else max(1, min(16 * start, _AT_ONCE // len(left)))
            together[left] &= (self._clearances(q[start : start + count], some) < 0.0).all(axis=0)
            start += count
        return together

    def _convex_distances(self, pairs: CollisionPairs) -> tuple[ConvexDistances, Any]:
        """What measures pairs without a closed form, and what gives it the poses of all shapes at q, (m, n, 4, 4)."""
        sites = tuple(map(self._shape_site, pairs.shapes))
        placed = bind(poses, self.mechanism, sites, "distances")
        measure = ConvexDistances(pairs.shapes, pairs.numbers[len(pairs.compiled) :])
        return measure, lambda q: np.asarray(placed(q), dtype=np.float64).reshape(-1, len(sites), 4, 4)

    def _with_convex(self, pairs: CollisionPairs, detailed: bool, engine: str) -> Any:
        closed = self._distance_function(pairs.compiled, detailed, engine)
        measure, placed = self._convex_distances(pairs)

        def distances(q: ArrayLike, out: Any = None) -> Any:
            first, T = closed(q), placed(q)
            d, n, points = measure(T)
            later = [d, n.swapaxes(-1, -2), points.transpose(0, 2, 3, 1)]
            if not detailed:
                return np.concatenate([first, _shaped(d, first)], axis=-1)
            made = (np.concatenate([one, _shaped(x, one)], axis=-1) for one, x in zip(first, later, strict=True))
            if out is None:
                return tuple(made)
            return tuple(filled("distances", self.dtype, place, x) for place, x in zip(out, made, strict=True))

        return distances

    @cached_property
    def _distance_functions(self) -> dict[Any, Any]:
        return {}

    def _distance_function(self, pairs: CollisionPairs, detailed: bool, engine: str = "native") -> Any:
        """Compiled: q to d, (p,), and if detailed to n, (3, p), and nearest points, (2, 3, p)."""
        if not isinstance(pairs, CollisionPairs):
            raise InputError(
                f"pairs come from robot.collision_pairs(…), got {type(pairs).__name__}; those of two shapes are "
                "collision_pairs().only('a', 'b')"
            )
        known = self._distance_functions
        found = known.get((pairs, detailed, engine))
        if found is None:
            if len(known) >= 3 * _KEPT:
                known.clear()
            found = self._make_distance_function(pairs, detailed, engine)
            found = known.setdefault((pairs, detailed, engine), found)
        return found

    def _make_distance_function(self, pairs: CollisionPairs, detailed: bool, engine: str) -> Any:
        count = len(pairs)
        shapes: list[tuple[int, ...]] = [(count,), (3, count), (2, 3, count)] if detailed else [(count,)]
        if len(pairs.compiled) < count:
            return self._with_convex(pairs, detailed, engine)
        if not count:
            return lambda q, out=None: _empty(q, shapes, self.dtype) if out is None else out
        placed, narrow = self._distance_parts(pairs, detailed)
        names = ("distance", "normal", "points")
        inputs = [Operand("q", (self.nq,))]
        if engine != "native":

            def text(run: Any, q: Any) -> Sequence[Any]:
                T = run(placed, q)
                found = run(narrow, T, pairs.sizes, T, pairs.sizes)
                return found if detailed else [found]

            run = executed(inputs, text, engine)
            return run if detailed else lambda q: run(q)[0]
        operands = [Operand(name, shape) for name, shape in zip(names, shapes, strict=False)]
        sequence = KernelSequence("distances", inputs, operands, scalar=format_of(self.mechanism))
        T = sequence.call(placed, sequence.inputs[0])
        sequence.call(narrow, T, pairs.sizes, T, pairs.sizes, into=sequence.outputs)
        made: Compiled = sequence.finish()
        return made

    def _distance_parts(self, pairs: CollisionPairs, detailed: bool) -> tuple[TaskFunction, KernelFunction]:
        """The poses of all shapes, as a function of q, and the distances of pairs with closed forms, of poses."""
        sites, runs, of = tuple(map(self._shape_site, pairs.shapes)), pairs.runs, len(pairs.shapes)
        placed = TaskFunction("distances", self.mechanism.at(sites), poses, sites)
        narrow = compiled(
            pair_distances(runs.classes, detailed), self.mechanism.scalar, n=of, m=of, p=len(pairs), t=runs.longest,
            **runs.lists, **rounds_of(runs.classes),
        )  # fmt: skip
        return placed, narrow

    def _distance_rates(self, q: Array, v: Array, pairs: CollisionPairs) -> tuple[Distances, Array, Array]:
        """Distances, and for each pair ḋ, (…, p) [m/s], and J̇v, which is d̈ at zero joint accelerations, [m/s²]."""
        known = self._distance_functions
        found = known.get((pairs, "rates"))
        if found is None:
            found = known.setdefault((pairs, "rates"), self._make_distance_rates(pairs))
        *near, rate = found(q, v)
        self._certified(q, pairs, near[0])
        return Distances(self, q, pairs, tuple(near)), rate[..., 0, :], rate[..., 1, :]

    def _make_distance_rates(self, pairs: CollisionPairs) -> Any:
        count, of, runs = len(pairs), len(pairs.shapes), pairs.runs
        sites = tuple(map(self._shape_site, pairs.shapes))
        placed, moving, turning = (
            TaskFunction("distances", self.mechanism.at(sites), algorithm, sites)
            for algorithm in (poses, VELOCITIES["world"], JACOBIANS_DOT_V["world"])
        )
        narrow = compiled(
            distance_rates(runs.classes), self.mechanism.scalar, n=of, m=of, p=count, t=runs.longest, **runs.lists,
            **rounds_of(runs.classes),
        )  # fmt: skip

        def text(run: Any, q: Any, v: Any) -> Sequence[Any]:
            own = run(placed, q), pairs.sizes, run(moving, q, v), run(turning, q, v)
            results: Sequence[Any] = run(narrow, *own, *own)
            return results

        shapes = {"distance": (count,), "normal": (3, count), "points": (2, 3, count), "rate": (2, count)}
        inputs = [Operand("q", (self.nq,)), Operand("v", (self.nv,))]
        return recorded("distances", inputs, [Operand(*each) for each in shapes.items()], text)

    def _shape_site(self, shape: SolidShape) -> Site:
        """The frame of a shape's core."""
        carrier = self.site(str(shape.body))
        placement = transform_of(shape.pose) @ Transform(carrier.placement)
        return Site(shape.name, carrier.node, placement.data)

    def _distance_rows(self, q: Array, pairs: CollisionPairs, index: Array, normal: Array, points: Array) -> Array:
        """nᵀ(J_a − J_b) of some pairs, (…, k, nv). About the world's origin, both ends have the same wrench."""
        if self.mechanism.first_general is None:
            known, count = self._distance_functions, index.shape[-1]
            rows_of = known.get(count)
            if rows_of is None:
                rows_of = known.setdefault(count, compiled(distance_rows, self.mechanism.scalar, k=count, v=self.nv))
            found: Array = rows_of(points, normal, self._joint_screws(q), self._moved(pairs)[index])
            return found
        wrench = np.concatenate([np.cross(points[..., 0, :], normal), normal], axis=-1)
        # nodes that move their bodies differently
        bodies = list(dict.fromkeys(str(shape.body) for shape in pairs.shapes))
        J = self.jacobian(q, bodies, reference="world")
        J = np.broadcast_to(J, (*index.shape[:-1], *J.shape[-3:])).reshape(-1, *J.shape[-3:])
        numbers = np.array([bodies.index(str(shape.body)) for shape in pairs.shapes])
        first, second = (numbers[pairs.numbers[index][..., end]].reshape(len(J), -1) for end in range(2))
        sample = np.arange(len(J))[:, None]
        apart = J[sample, first] - J[sample, second]
        rows = (wrench.reshape(len(J), -1, 1, 6) @ apart)[..., 0, :]
        return np.asarray(rows.reshape(*index.shape, self.nv), self.dtype)

    @cached_property
    def _joint_screws(self) -> Function[..., Array]:
        return Function("distances", self.mechanism, joint_screws)

    def _moved(self, pairs: CollisionPairs) -> Array:
        """1 where a degree of freedom moves the first shape of a pair only, −1 for the second, else 0, (p, nv)."""
        found = self._distance_functions.get((pairs, "moved"))
        if found is None:
            mechanism, moves = self.mechanism, np.zeros((len(pairs.shapes), self.nv), self.dtype)
            for row, shape in zip(moves, pairs.shapes, strict=True):
                node = self.site(str(shape.body)).node
                while node >= 0:
                    row[mechanism.v_starts[node] : mechanism.v_starts[node + 1]] = 1
                    node = mechanism.parents[node]
            moves = moves[pairs.numbers[:, 0]] - moves[pairs.numbers[:, 1]]
            found = self._distance_functions.setdefault((pairs, "moved"), moves)
        moved: Array = found
        return moved


def _shaped(values: Array, like: Array) -> Array:
    """Results of a flat batch as those of pairs with closed forms."""
    return values.reshape(*like.shape[:-1], values.shape[-1]).astype(like.dtype, copy=False)


def taken(values: Array, index: Array) -> Array:
    """Values, (…, p, …), of some pairs of each sample, (…, k)."""
    if index.ndim == 1:  # in a fraction of the time
        return values[index]
    found: Array = np.take_along_axis(
        values, index.reshape(*index.shape, *(1,) * (values.ndim - index.ndim)), index.ndim - 1
    )
    return found


def filled(function: str, dtype: Any, out: Any, values: Array) -> Array:
    """The user's `out`, with these values."""
    if not isinstance(out, np.ndarray) or out.shape != values.shape or out.dtype != dtype:
        given = f"{out.shape} of {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"{function}: out is an array {values.shape} of {np.dtype(dtype)}, got {given}")
    out[...] = values
    return out


def _empty(q: ArrayLike, shapes: Sequence[tuple[int, ...]], dtype: Any) -> Any:
    found = tuple(np.zeros((*np.shape(q)[:-1], *shape), dtype) for shape in shapes)
    return found if len(found) > 1 else found[0]


def disabled_pairs(srdf: Any, bodies: set[str]) -> list[frozenset[str]]:
    """The pairs of bodies that an SRDF file disables."""
    from lxml import etree

    try:
        path = Path(srdf)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        root = etree.fromstring(content_of(path), parser)
    except LoadError as error:
        raise InputError(f"srdf={srdf!r} {error.problem}") from None
    except (TypeError, etree.XMLSyntaxError) as error:
        raise InputError(f"srdf={srdf!r} cannot be read: {error}") from None
    found = []
    for element in root.iter("disable_collisions"):
        ends = element.get("link1"), element.get("link2")
        if None in ends:
            raise InputError(
                f"<disable_collisions> (line {element.sourceline} of {path.name}) has no link1= or no link2=; add it"
            )
        for end in ends:
            if end not in bodies:
                raise UnknownNameError(
                    f"link (line {element.sourceline} of {path.name})", str(end), tuple(sorted(bodies))
                )
        found.append(frozenset(map(str, ends)))
    return found
