"""Which shapes may touch in a simulation, arranged as `kinetree.kernels.contact_discovery` takes them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kinetree.algorithms.kinematics.frame_kinematics import poses
from kinetree.errors import InputError, ModelError, ModelWarning, UnsupportedError
from kinetree.kernels.contact_discovery import CLASSES, HULL
from kinetree.kernels.manifolds import SEVERAL, PosedHull
from kinetree.kernels.pair_distances import PosedShape, field_of
from kinetree.language.mechanism import Site
from kinetree.model import collision_pairs as reasons
from kinetree.model.collision_pairs import CollisionPairs, excluded_by_structure
from kinetree.model.model import Model
from kinetree.model.shapes import HeightField, Hull, Plane, Scene, SolidShape, surroundings
from kinetree.model.specs import WORLD_NAME
from kinetree.runtime.kernels import bind
from kinetree.simulation.stand_ins import centred, closed, probes
from kinetree.spatial.value import Array

#: Coefficient of friction of shapes that have none.
FRICTION = 0.7
#: Kinds of shapes, in the order in which they come in pairs.
_ORDER = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull", "plane", "height field")
#: The class of pairs with a height field.
FIELD = "field"
#: Shapes that overlap by more than this at the neutral configuration are left out [m].
_OVERLAP = 1e-6


class TouchingPair(NamedTuple):
    """Two shapes, and the class of the pair. Shapes around others stand in for kinds without a formula."""

    a: SolidShape
    b: SolidShape
    kind: str

    @property
    def names(self) -> tuple[str, str]:
        """The names of both."""
        return self.a.name, self.b.name


def touching_pairs(robot: Model, scene: Scene | None) -> list[TouchingPair]:
    """All pairs that may touch, of a robot with itself and its surroundings; those of its world, or a floor.

    Raises:
        InputError: Nothing can touch anything.
        ModelError: A shape of the scene has the name of one of the robot's.
        LoadError: A mesh cannot be read.
        UnsupportedError: A shape of the scene is of a kind without contacts, or SciPy is missing, which makes hulls.

    Warns:
        ModelWarning: Moving height fields are left out, and pairs of a robot that overlap at its neutral configuration.
    """
    around = list(surroundings(scene))
    carriers, parents = robot._moving_bodies

    def may_touch(shape: SolidShape) -> bool:
        fixed = carriers[str(shape.body)] == WORLD_NAME
        return shape.kind in _ORDER and (shape.kind != "height field" or fixed)

    own = [shape for shape in robot.shapes if may_touch(shape)]
    left = [shape.name for shape in robot.shapes if not may_touch(shape)]
    if left:
        text = (
            f"contacts of height fields that move with {robot.name!r} are not discovered: "
            f"{', '.join(map(repr, left))}; give other shapes in their place, with robot.with_shapes(…)"
        )
        warnings.warn(text, ModelWarning, stacklevel=5)
    if scene is None and not any(carriers[str(shape.body)] == WORLD_NAME for shape in own):
        around = [Plane("floor", body=WORLD_NAME)]
    for shape in around:
        if shape.name in {one.name for one in own}:
            raise ModelError(f"the scene and {robot.name!r} both have a shape {shape.name!r}; rename one")
        if shape.kind not in _ORDER:
            raise UnsupportedError(
                f"contacts with {shape.kind} {shape.name!r} of the scene are not discovered; they are with "
                f"{', '.join(_ORDER)}"
            )
    every = [*own, *around]
    on = {shape.name: carriers[str(shape.body)] for shape in every}
    left_out = excluded_by_structure(every, on, parents, (), robot.pair_rules)
    found = [_pair(a, b) for k, a in enumerate(every) for b in every[k + 1 :] if (a.name, b.name) not in left_out]
    if not found:
        if not any(on[shape.name] != WORLD_NAME for shape in own):
            why = 'it has no shapes that move; add some with robot.with_shapes(…), or load(…, shapes="visual")'
        else:
            why = "nothing is around it, and its own shapes may not collide; leave scene= out for a floor at z = 0"
        raise InputError(f"nothing of {robot.name!r} can touch anything: {why}")
    return _apart(robot, found)


def given_pairs(pairs: CollisionPairs) -> list[TouchingPair]:
    """Pairs that are given, all of them."""
    named = {shape.name: shape for shape in pairs.shapes}
    return [_pair(named[a], named[b]) for a, b in pairs.names]


def _pair(a: SolidShape, b: SolidShape) -> TouchingPair:
    a, b = sorted((a, b), key=lambda shape: _ORDER.index(shape.kind))
    if isinstance(a, Hull) and b.kind in ("plane", "height field"):
        a = centred(a)
    if b.kind == "height field":
        return TouchingPair(a, b, FIELD)
    if f"{a.kind}_{b.kind}" not in CLASSES:
        a, b = sorted(map(closed, (a, b)), key=lambda shape: _ORDER.index(shape.kind))
    rounded = a.kind == b.kind == "box" and a.around + b.around > 0.0
    return TouchingPair(a, b, f"{a.kind}_{b.kind}" + ("_rounded" if rounded else ""))


def _apart(robot: Model, pairs: Sequence[TouchingPair]) -> list[TouchingPair]:
    """Pairs without those that overlap at the neutral configuration, on the same tree or on one fixed to the world.

    Shapes around others are too large, so they are left out if they overlap at a keyframe, too.
    """
    carriers, parents = robot._moving_bodies
    roots = dict[str, str]()
    for body, parent in parents.items():  # parents come first
        roots[body] = body if parent == WORLD_NAME else roots[parent]
    free = {joint.child for joint in robot.joints if joint.type.nv == 6}
    chosen = []
    for pair in pairs:
        bodies = [carriers[str(shape.body)] for shape in (pair.a, pair.b)]
        moving = [roots[body] for body in bodies if body != WORLD_NAME]
        chosen.append(pair.kind != FIELD and len(set(moving)) == 1 and (len(moving) == 2 or moving[0] not in free))
    own = [pair for pair, one in zip(pairs, chosen, strict=True) if one]
    left_out = dict.fromkeys(_overlapping(robot, own, robot.neutral()), reasons.AT_NEUTRAL)
    around = [pair for pair in own if "fitted" in (pair.a.source, pair.b.source) and pair.names not in left_out]
    for q in robot.keyframes.values():
        left_out |= dict.fromkeys(_overlapping(robot, around, np.asarray(q)), reasons.AT_KEYFRAME)
    reasons.warn_of(left_out, 6, ModelWarning)
    return [pair for pair in pairs if pair.names not in left_out]


def _overlapping(robot: Model, pairs: Sequence[TouchingPair], q: Array) -> list[tuple[str, str]]:
    return [pair.names for pair, gap in zip(pairs, gaps_at(robot, pairs, q), strict=True) if gap < -_OVERLAP]


def gaps_at(robot: Model, pairs: Sequence[TouchingPair], q: Array) -> Array:
    """The smallest gap of each pair at a configuration, (p,) [m]."""
    found = np.full(len(pairs), np.inf)
    arranged = Arrangement(robot, pairs)
    T = np.moveaxis(bind(poses, robot.mechanism, arranged.sites, "poses")(q), 0, -1)
    for kind, (manifold, _) in CLASSES.items():
        numbers = [i for i, pair in enumerate(pairs) if pair.kind == kind]
        if kind == HULL:
            for i in numbers:
                end, other = arranged.ends(pairs[i])
                read = partial(field_of, T[..., end], arranged.sizes[end])
                points = pairs[i].a.points  # type: ignore[attr-defined]
                hull = PosedHull(read, partial(_farthest, points), partial(_farthest_off, points))
                found[i] = min(one.gap for one in manifold(hull, _posed(T[..., other], arranged.sizes[other])))
            continue
        ends = zip(*(arranged.ends(pairs[i]) for i in numbers), strict=True)
        posed = [_posed(T[..., list(end)], arranged.sizes[list(end)].T) for end in ends]
        if posed:
            with np.errstate(all="ignore"):  # what is selected from is all computed
                gaps = [np.broadcast_to(one.gap, len(numbers)) for one in manifold(*posed)]
            found[numbers] = np.min(gaps, axis=0)
    return found


def _farthest(points: Array, directions: Sequence[Any]) -> list[Any]:
    return [tuple(points[int(np.argmax(points @ np.array(direction)))]) for direction in directions]


def _farthest_off(points: Array, direction: Any, out: Any, plane: Any, least: Any) -> list[Any]:
    off = points[np.abs(points @ np.array(out) - plane) > least]
    order = np.argsort(-off @ np.array(direction), kind="stable")[:SEVERAL]
    return [(tuple(off[i]), 1.0) for i in order] + [((0.0, 0.0, 0.0), 0.0)] * (SEVERAL - len(order))


def _posed(T: Array, sizes: Array) -> PosedShape:
    return PosedShape(lambda name: field_of(T, sizes, name))


def combined(a: SolidShape, b: SolidShape) -> float:
    """The coefficient of friction of two shapes: the larger one of MuJoCo's, else their geometric mean."""
    mine, other = (FRICTION if shape.friction is None else float(shape.friction) for shape in (a, b))
    return max(mine, other) if a.masks is not None and b.masks is not None else float(np.sqrt(mine * other))


def _numbers(shape: SolidShape) -> tuple[float, ...]:
    """Half edges, radius, |u|², 1/|u|², and the radius of the sphere around it."""
    half: Sequence[float]
    if shape.kind == "cylinder":
        half, around, large = (shape.radius, shape.radius, 0.5 * shape.length), 0.0, 0.0  # type: ignore[attr-defined]
        large = float(np.hypot(half[1], half[2]))
    elif shape.kind == "ellipsoid":
        half, around = shape.semi_axes.tolist(), 0.0  # type: ignore[attr-defined]
        large = max(half)
    elif isinstance(shape, Hull):  # a centred one
        half, around = np.abs(shape.points).max(axis=0).tolist(), 0.0
        large = float(np.linalg.norm(shape.points, axis=1).max())
    else:
        half, around = shape.half, shape.around
        large = float(np.sqrt(np.dot(half, half))) + around
    square = half[2] ** 2
    return (*half, around, square, 1.0 / square if square > 0.0 else 0.0, large)


def _probes(shape: SolidShape) -> list[tuple[float, ...]]:
    """Points of a shape in the frame of its core, with radii, that stand for it above a height field."""
    if isinstance(shape, Hull):
        return [(*point, 0.0) for point in probes(shape)]
    if shape.kind == "cylinder":
        r, _, half, *_ = _numbers(shape)
        return [(x, y, z, 0.0) for z in (-half, half) for x, y in ((r, 0.0), (0.0, r), (-r, 0.0), (0.0, -r))]
    return [(*point, shape.around) for point in dict.fromkeys(product(*((-h, h) for h in shape.half)))]


class FieldProbes(NamedTuple):
    """A height field, and probes above it.

    `probes` are points in the frames of shapes, and radii, (f, 4); `of` the number of the shape of each; `place` the
    pose of the field, (4, 4).
    """

    field: HeightField
    probes: Array
    of: list[int]
    place: Array

    @property
    def grid(self) -> tuple[float, ...]:
        """As `kinetree.kernels.field_probes` takes it."""
        rows, columns = (count - 1 for count in self.field.heights.shape)
        x, y = self.field.size
        return x / columns, y / rows, columns, rows, self.field.heights.max()


class Arrangement:
    """Pairs as the kernel takes them.

    Attributes:
        pairs: By class, in the order of their numbers.
        candidates: μ, the nodes of both bodies from 1 on (0 for the world), and the pair of each candidate, (s, 4).
        lists: The lists of the kernel.
        sites: The frames of all shapes.
        sizes: Their numbers, (n, 7).
        vertices: Those of all hulls above planes, (w, 3); one, if there are none, that nothing reads.
        most_vertices: The number of those of one hull, at most.
        fields: Height fields and their probes; candidates in this order are the last ones.
        bodies: For robots with bodies that do not follow their joints as rigid ones do, all that carry shapes; their
            numbers from 1 on take the place of nodes.
        moving: All bodies that carry shapes and move, by the numbers that candidates have.
    """

    def __init__(self, robot: Model, pairs: Iterable[TouchingPair]) -> None:
        # ellipsoids have no probes
        pairs = [pair._replace(a=_simple(pair.a)) if pair.kind == FIELD else pair for pair in pairs]
        every = [shape for pair in pairs for shape in (pair.a, pair.b) if shape.kind != "height field"]
        shapes = {(shape.name, shape.kind): shape for shape in every}
        ordered = sorted(shapes.values(), key=lambda shape: _ORDER.index(shape.kind))
        self._place = {(shape.name, shape.kind): i for i, shape in enumerate(ordered)}
        self.sites: tuple[Site, ...] = tuple(map(robot._shape_site, ordered))
        self.sizes = np.array([_numbers(shape) for shape in ordered]).reshape(-1, 7)
        carriers, _ = robot._moving_bodies
        carrying = [carriers[str(shape.body)] for shape in ordered]
        self.bodies: list[str] = []
        numbers = [1 + site.node for site in self.sites]
        if robot.mechanism.first_general is not None:
            self.bodies = list(dict.fromkeys(name for name in carrying if name != WORLD_NAME))
            numbers = [0 if name == WORLD_NAME else 1 + self.bodies.index(name) for name in carrying]
        self.moving = {number: name for number, name in zip(numbers, carrying, strict=True) if number}
        kinds, fields = list(CLASSES), [pair for pair in pairs if pair.kind == FIELD]
        solid = sorted(
            (pair for pair in pairs if pair.kind != FIELD), key=lambda pair: (kinds.index(pair.kind), *self.ends(pair))
        )
        self.pairs = [*solid, *sorted(fields, key=lambda pair: pair.b.name)]
        self.lists: dict[str, list[tuple[int, ...]]] = {"near": [], "above": [], "fields": []}
        rows = list[tuple[float, ...]]()
        spans, corners = dict[int, tuple[int, int]](), list[Array]()
        for number, pair in enumerate(solid):
            i, j = self.ends(pair)
            row_of = i, j, number, len(rows)
            if isinstance(pair.a, Hull):
                row_of = *row_of, *spans.setdefault(i, (sum(map(len, corners)), len(pair.a.points) - 1))  # type: ignore[assignment]
                if len(spans) > len(corners):
                    corners.append(pair.a.points)
            self.lists.setdefault(pair.kind, []).append(row_of)
            _append(self.lists["above" if pair.b.kind == "plane" else "near"], i, j, number)
            row = combined(pair.a, pair.b), numbers[i], numbers[j], number
            rows += [row] * CLASSES[pair.kind][1]
        found: dict[str, FieldProbes] = {}
        for number, pair in enumerate(self.pairs[len(solid) :], len(solid)):
            i, own = self._place[pair.a.name, pair.a.kind], _probes(pair.a)
            if pair.b.name not in found:
                place = robot.pose(robot.neutral(), str(pair.b.body)) @ pair.b.placement
                found[pair.b.name] = FieldProbes(pair.b, np.zeros((0, 4)), [], place)  # type: ignore[arg-type]
            before = found[pair.b.name]
            both = np.array([*before.probes, *own])
            found[pair.b.name] = before._replace(probes=both, of=before.of + [i] * len(own))
            self.lists["fields"] += [(len(rows) + k, len(self.lists["fields"]) + k) for k in range(len(own))]
            rows += [(combined(pair.a, pair.b), numbers[i], 0.0, number)] * len(own)
        self.fields = tuple(found.values())
        self.vertices = np.concatenate([*corners, np.zeros((int(not corners), 3))])
        self.most_vertices = max(map(len, corners), default=1)
        self.candidates = np.array(rows).reshape(-1, 4)

    def ends(self, pair: TouchingPair) -> tuple[int, int]:
        """The numbers of both shapes."""
        return self._place[pair.a.name, pair.a.kind], self._place[pair.b.name, pair.b.kind]

    @property
    def classes(self) -> tuple[str, ...]:
        """The kinds of pairs that there are."""
        return tuple(one for one in CLASSES if one in self.lists)

    @property
    def longest(self) -> int:
        """The longest run of pairs of a shape with consecutive others."""
        return max([1, *(run[3] + 1 for one in ("near", "above") for run in self.lists[one])])


def _simple(shape: SolidShape) -> SolidShape:
    return closed(shape) if shape.kind == "ellipsoid" else shape


def _append(runs: list[Any], i: int, j: int, number: int) -> None:
    """Add a pair to runs of a shape and consecutive others."""
    if runs:
        first, other, start, more = runs[-1]
        if (first, other + more + 1, start + more + 1) == (i, j, number):
            runs[-1] = first, other, start, more + 1
            return
    runs.append((i, j, number, 0))
