"""Random mechanisms for tests and benchmarks, reproducible by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.builder import Builder
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.spatial.fixed import product
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.value import Array

#: All kinds of joints except "fixed".
MOVING_KINDS = tuple(name for name, kind in KINDS.items() if kind.nv)


def chain(n: int, seed: int = 0, kind: str = "revolute") -> Model:
    """n bodies in series, named "body1" to "body<n>", with frame "tip" at the end."""
    return _tree("chain", n, (kind,), seed, armature=False, roots=1, branching=0.0, frames=False)


def random_tree(
    n: int,
    kinds: Sequence[str] = MOVING_KINDS,
    seed: int = 0,
    *,
    armature: bool = False,
    roots: int = 1,
    branching: float = 0.5,
) -> Model:
    """n bodies, named "body1" to "body<n>", with random placements, axes, inertias and extra frames.

    The last body carries frame "tip". Some bodies, including inner ones, carry one or two frames "frame<i>a" and
    "frame<i>b".

    Args:
        n: Number of bodies.
        kinds: Kinds of joints, each used equally often in random order; "fixed" is allowed.
        seed: Seed of the random numbers.
        armature: Whether about half of the joints have armature.
        roots: Number of bodies attached to the world.
        branching: Probability that a body is attached to any earlier body instead of the preceding one.
    """
    return _tree("random_tree", n, tuple(kinds), seed, armature=armature, roots=roots, branching=branching, frames=True)


def _tree(
    name: str, n: int, kinds: tuple[str, ...], seed: int, *, armature: bool, roots: int, branching: float, frames: bool
) -> Model:
    if not 1 <= roots <= n:
        raise InputError(f"a tree of {n} bodies cannot have {roots} roots; need 1 ≤ roots ≤ n")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of joint", kind, tuple(KINDS))
    rng = np.random.default_rng(seed)
    drawn = [kinds[i % len(kinds)] for i in rng.permutation(n)]
    root_indices = {0, *rng.choice(np.arange(1, n), roots - 1, replace=False)} if n > 1 else {0}
    builder = Builder(name)
    for i, kind in enumerate(drawn):
        parent = "world"
        if i not in root_indices:
            # a root starts a new tree; others may be attached to any earlier body
            chosen = rng.integers(i) if rng.random() < branching else i - 1
            parent = f"body{chosen + 1}"
        builder.add_body(
            f"body{i + 1}",
            parent=parent,
            joint=kind,
            joint_name=f"joint{i + 1}",
            placement=(exp_matrix(rng.uniform(-2.0, 2.0, 3)), rng.uniform(-0.4, 0.4, 3)),
            armature=rng.uniform(0.01, 0.2, KINDS[kind].nv) if armature and rng.random() < 0.5 else 0.0,
            **_axes(rng, kind),
            **_random_body(rng),
        )
        for letter in "ab"[: max(0, int(rng.integers(-2, 3))) if frames else 0]:
            builder.add_frame(f"frame{i + 1}{letter}", body=f"body{i + 1}", placement=_placement(rng))
    builder.add_frame("tip", body=f"body{n}", placement=_placement(rng))
    return builder.build()


def _axes(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    directions = rng.standard_normal((2, 3))
    arguments: dict[str, Any] = {}
    if KINDS[kind].axes == 1:
        arguments["axis"] = directions[0]
    if KINDS[kind].axes == 2:
        arguments["axes"] = directions
    if kind == "helical":
        arguments["pitch"] = rng.uniform(0.05, 0.3)
    return arguments


def _random_body(rng: np.random.Generator) -> dict[str, Any]:
    """A box with random edges and random orientation."""
    mass, sides, R = rng.uniform(0.5, 2.0), rng.uniform(0.1, 0.5, 3), exp_matrix(rng.uniform(-2.0, 2.0, 3))
    squares = sides**2
    moments: Array = mass / 12.0 * (squares.sum() - squares)
    return {"mass": mass, "com": rng.uniform(-0.2, 0.2, 3), "inertia": product(R * moments, R.T)}


def _placement(rng: np.random.Generator) -> tuple[Array, Array]:
    return exp_matrix(rng.uniform(-2.0, 2.0, 3)), rng.uniform(-0.3, 0.3, 3)
