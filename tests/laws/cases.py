"""The mechanisms, engines and batch shapes on which every law is checked.

A few canonical sets of joint kinds serve all mechanisms, because compiled code depends on the set and not on the number
of bodies: with them the whole suite compiles each function a handful of times. A kind includes the shape of placements,
so seeds are chosen such that the sets are the same; `test_mechanisms_share_their_kernels` tells if they are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

import kinetree as kt
from tests.tolerance import Array, bound, condition
from tests.trees import mixed, random_mechanism

LWA = "local_world_aligned"
REFERENCES = ("local", "world", LWA)
#: Step of complex-step derivatives: exact to rounding, because nothing is subtracted.
H = 1e-30

ENGINES = ("reference", "native")
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 1, 9))

#: Degrees of freedom × samples that the reference engine is asked for in one law.
AFFORDABLE = 150


def _random(name: str, joints: list[str], seed: int, **options: Any) -> Callable[[], kt.Model]:
    return lambda: random_mechanism(name, joints, seed, **options).kinetree()


def _far_away() -> kt.Model:
    return random_mechanism("far", mixed(10, 10), 10, base=(6e3, -8e3, 40.0)).kinetree()


MODELS: dict[str, Callable[[], kt.Model]] = {
    "one": _random("one", ["revolute"], 1),
    "every kind": _random("every kind", mixed(10, 1), 1),
    "every kind, armature": _random("every kind, armature", mixed(10, 3), 3, armature=1.0),
    "forest": _random("forest", mixed(15, 151), 151, roots=3),
    "many tips": _random("many tips", mixed(20, 5), 5, branching=0.9, tips=6),
    "10 km away": _far_away,
    "some armature": _random("some armature", mixed(8, 7, "revolute", "prismatic"), 7, armature=0.5),
    "legged": _random("legged", ["floating", *["revolute"] * 12], 1, branching=0.5),
    "humanoid24": lambda: kt.zoo.humanoid24(),
    "asimo35": lambda: kt.zoo.asimo35(),
    "chain of 2000": _random("chain of 2000", ["revolute"] * 2000, 9, branching=0.0, reach=0.1),
}
LONG = "chain of 2000"


@cache
def model(name: str) -> kt.Model:
    """The mechanism of this name, built once."""
    return MODELS[name]()


@cache
def specialized(name: str) -> kt.Model:
    """The same mechanism with straight-line code, where it is chosen for batches."""
    return model(name).compile((), specialize="batch")


@dataclass(frozen=True)
class Case:
    """One engine, one mechanism, and a batch of random states."""

    name: str
    engine: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}-{self.engine}-{'x'.join(map(str, self.shape)) or 'single'}"

    @property
    def robot(self) -> kt.Model:
        return model(self.name)

    def on(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of the robot on this case's engine."""
        if self.engine == "reference":
            return self.exact(function, *arguments, **options)
        if self.engine == "specialized":
            return getattr(specialized(self.name), function)(*arguments, **options)
        return getattr(self.robot, function).engine(self.engine)(*arguments, **options)

    def exact(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function on the reference engine, which also takes complex numbers; once for all laws that need it."""
        call = pickle.dumps((arguments, options))
        return pickle.loads(_on_reference(self.name, function, call))

    @cached_property
    def state(self) -> tuple[Array, Array, Array]:
        """Configuration, velocity and one more vector of velocity size: acceleration or joint force."""
        rng = np.random.default_rng(len(self.shape))
        q = self.robot.random_configuration(rng, self.shape)
        v, x = rng.uniform(-1.0, 1.0, (2, *self.shape, self.robot.nv))
        return q, v, x

    @cached_property
    def q_rate(self) -> Array:
        """q̇ of the state."""
        q, v, _ = self.state
        return configuration_rate(self.robot, q, v)

    @cached_property
    def frames(self) -> tuple[str, ...]:
        """A few frames: an early link, the last link, and the tips."""
        moving = [name for name in self.robot.frames if self.robot.site(name).node >= 0]
        tips = [name for name in moving if name.startswith("tip")]
        return tuple(dict.fromkeys([moving[0], moving[len(moving) // 2], moving[-1], *tips[:2]]))

    @property
    def tolerance(self) -> float:
        """Relative error that rounding explains where no mass matrix is inverted."""
        return bound(self.robot.nv)

    @cached_property
    def solving_tolerance(self) -> float:
        """Relative error that rounding explains where a mass matrix is inverted."""
        return bound(self.robot.nv, _condition(self.name, self.shape))


@lru_cache(maxsize=4096)
def _on_reference(name: str, function: str, call: bytes) -> bytes:
    arguments, options = pickle.loads(call)
    return pickle.dumps(getattr(model(name), function).engine("reference")(*arguments, **options))


@cache
def _condition(name: str, shape: tuple[int, ...]) -> float:
    case = Case(name, "native", shape)
    return condition(case.on("mass_matrix", case.state[0]))


def times(matrix: Array, vector: Array) -> Array:
    """Products of a batch of matrices and vectors."""
    return (matrix @ vector[..., None])[..., 0]


def transposed(matrix: Array) -> Array:
    """Of each sample."""
    return np.swapaxes(matrix, -1, -2)


def along(case: Case, function: str, directions: tuple[Array, Array, Array], **options: Any) -> Array:
    """Change of a function of q, v and x along a direction of each, that of q a tangent, by a complex step."""
    q, v, x = case.state
    dq, dv, dx = directions
    steps = configuration_rate(case.robot, q, dq), dv, dx
    values = [value + 1j * H * step for value, step in zip((q, v, x), steps)]
    return np.asarray(case.exact(function, *values, **options).imag / H)


def directions(case: Case, seed: int = 5) -> tuple[Array, Array, Array]:
    """A random direction of q, v and x."""
    dq, dv, dx = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, *case.shape, case.robot.nv))
    return dq, dv, dx


def weights_of(case: Case) -> Array:
    """Random weights of the components of a result of velocity size."""
    return np.random.default_rng(7).uniform(-1.0, 1.0, (*case.shape, case.robot.nv))


def wrenches(case: Case) -> dict[str, Array]:
    """Wrenches on a few frames."""
    rng = np.random.default_rng(6)
    return {frame: rng.uniform(-3.0, 3.0, (*case.shape, 6)) for frame in case.frames}


def configuration_rate(robot: kt.Model, q: Array, v: Array) -> Array:
    """q̇ from v, written from the definition of the coordinates and not from the library's code."""
    rate = np.zeros((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), robot.nq))
    for joint in robot.joints:
        qj, vj = q[..., joint.q_slice], v[..., joint.v_slice]
        if joint.kind == "spherical":
            rate[..., joint.q_slice] = _quaternion_rate(qj, vj)
        elif joint.kind == "floating":
            linear = times(rotation(qj[..., 3:]), vj[..., 3:])
            rate[..., joint.q_slice] = np.concatenate([linear, _quaternion_rate(qj[..., 3:], vj[..., :3])], axis=-1)
        elif joint.kind == "planar":
            c, s = np.cos(qj[..., 2]), np.sin(qj[..., 2])
            x, y = c * vj[..., 1] - s * vj[..., 2], s * vj[..., 1] + c * vj[..., 2]
            rate[..., joint.q_slice] = np.stack([x, y, vj[..., 0]], axis=-1)
        else:
            rate[..., joint.q_slice] = vj
    return rate


def rotation(quaternion: Array) -> Array:
    """Rotation matrix of a unit quaternion w, x, y, z."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _quaternion_rate(quaternion: Array, angular: Array) -> Array:
    """½ Q ⊗ (0, ω), with ω in body axes."""
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    a, b, c = np.moveaxis(angular, -1, 0)
    rate = [-x * a - y * b - z * c, w * a + y * c - z * b, w * b + z * a - x * c, w * c + x * b - y * a]
    return np.stack(rate, axis=-1) / 2


def cases(*, long: bool = True, complex_step: bool = False, names: tuple[str, ...] | None = None) -> list[Case]:
    """All combinations that can be afforded, with the chain of 2,000 bodies on the native engine alone.

    With `complex_step`, the law also calls the reference engine with complex numbers, whatever engine is examined.
    """
    found = []
    for name in names or MODELS:
        for engine in ENGINES:
            for shape in SHAPES:
                slow = engine == "reference" or complex_step
                cost = _SIZES.get(name, 20) * int(np.prod(shape))
                if name == LONG:
                    affordable = long and not slow and shape == ()
                else:
                    affordable = not slow or cost <= AFFORDABLE or shape == ()
                if affordable:
                    found.append(Case(name, engine, shape))
    return found


#: Rough degrees of freedom of the mechanisms that are cheap enough for the reference engine to take in batches.
_SIZES = {"one": 1, "some armature": 8, "every kind": 24, "legged": 18, "humanoid24": 24, "forest": 30}

#: The laws of dynamics hold for straight-line code as well.
SPECIALIZED = [
    Case(name, "specialized", shape)
    for name in ("one", "every kind", "forest", "some armature", "legged", "humanoid24", "asimo35")
    for shape in SHAPES
]
