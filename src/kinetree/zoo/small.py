"""Small robots: an arm, pendulums and others whose equations fit on a line, a free box, random trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.builder import Builder
from kinetree.model.joint import Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.spatial.inertia import spread
from kinetree.spatial.reproducible import length, product
from kinetree.spatial.rotation import exp_matrix
from kinetree.spatial.value import Array


def arm7() -> Model:
    """Seven revolute joints with crossing axes, 0.2 m apart, and the frame "hand" at the end. nv = 7.

    Upright in its neutral configuration; links and joints are named `link0` to `link6` and `joint0` to `joint6`.
    """
    builder = Builder("arm7")
    parent, length = "world", 0.0
    for i in range(7):
        builder.add_body(
            f"link{i}", parent=parent, joint_name=f"joint{i}", placement=(np.eye(3), (0.0, 0.0, length)),
            axis=(0, 1, 0) if i % 2 else (0, 0, 1), mass=3.0 - 0.3 * i, com=(0.0, 0.0, 0.1),
            inertia=np.diag([0.02, 0.02, 0.005]), armature=0.05, limits=Limits(-2.9, 2.9, 4.0, 150.0 - 20.0 * i),
        )  # fmt: skip
        parent, length = f"link{i}", 0.2
    builder.add_frame("hand", body=parent, placement=(np.eye(3), (0.0, 0.0, 0.1)))
    return builder.build()


def box(size: Sequence[float], mass: float, name: str = "box") -> Model:
    """A homogeneous box with a floating joint, nv = 6, and its frame at the centre.

    Args:
        size: Edge lengths along x, y and z [m].
        mass: Mass [kg].
        name: Name of its body; its joint is named `<name>_joint`.
    """
    lengths = np.array(size, dtype=float)
    if lengths.shape != (3,) or not (np.isfinite(lengths).all() and (lengths > 0.0).all()):
        raise InputError(f"a box has three positive edges, size=(x, y, z) in metres; got {size!r}")
    a, b, c = (lengths**2).tolist()
    builder = Builder(name)
    inertia = np.diag([b + c, a + c, a + b]) * (mass / 12.0)
    builder.add_body(name, joint="floating", joint_name=f"{name}_joint", mass=mass, inertia=inertia)
    return builder.build()


def pendulum(length: float = 1.0, mass: float = 1.0) -> Model:
    """A point mass [kg] at the end of a massless rod [m], hanging down at q = 0 and rotating about y.

    With mass m, length l and g = 9.81 m/s², the mass matrix is m l² and the gravity torque m g l sin q, so that free
    motion obeys q̈ = −(g/l) sin q.
    """
    builder = Builder("pendulum")
    builder.add_body("bob", joint_name="pivot", axis=(0, 1, 0), mass=mass, com=(0, 0, -length))
    builder.add_frame("tip", body="bob", placement=(np.eye(3), (0, 0, -length)))
    return builder.build()


def double_pendulum(lengths: tuple[float, float] = (1.0, 1.0), masses: tuple[float, float] = (1.0, 1.0)) -> Model:
    """Two point masses on massless rods, hanging down at q = 0, both rotating about y; q₂ is relative to the first rod.

    With h = m₂ l₁ l₂, the mass matrix is
        M₁₁ = (m₁ + m₂) l₁² + m₂ l₂² + 2 h cos q₂,   M₁₂ = m₂ l₂² + h cos q₂,   M₂₂ = m₂ l₂²,
    the velocity torques are −h sin q₂ (2 v₁ v₂ + v₂²) and h sin q₂ v₁², and the gravity torques are
        (m₁ + m₂) g l₁ sin q₁ + m₂ g l₂ sin(q₁ + q₂)   and   m₂ g l₂ sin(q₁ + q₂).
    """
    builder = Builder("double_pendulum")
    builder.add_body("upper", joint_name="shoulder", axis=(0, 1, 0), mass=masses[0], com=(0, 0, -lengths[0]))
    builder.add_body(
        "lower",
        parent="upper",
        joint_name="elbow",
        placement=(np.eye(3), (0, 0, -lengths[0])),
        axis=(0, 1, 0),
        mass=masses[1],
        com=(0, 0, -lengths[1]),
    )
    builder.add_frame("tip", body="lower", placement=(np.eye(3), (0, 0, -lengths[1])))
    return builder.build()


def cart_pole(cart_mass: float = 1.0, pole_mass: float = 0.1, pole_length: float = 0.5) -> Model:
    """A cart that slides along x, with a point mass on a massless rod, upright at q = 0 and rotating about y.

    With q = (x, θ), the mass matrix is [[m_c + m_p, m_p l cos θ], [m_p l cos θ, m_p l²]], the velocity forces are
    (−m_p l sin θ θ̇², 0) and the gravity forces (0, −m_p g l sin θ).
    """
    builder = Builder("cart_pole")
    builder.add_body("cart", joint="prismatic", joint_name="rail", axis=(1, 0, 0), mass=cart_mass)
    builder.add_body("pole", parent="cart", joint_name="hinge", axis=(0, 1, 0), mass=pole_mass, com=(0, 0, pole_length))
    builder.add_frame("tip", body="pole", placement=(np.eye(3), (0, 0, pole_length)))
    return builder.build()


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


def thick_rod(mass: float, reach: Any) -> dict[str, Any]:
    """Mass, com and inertia, as arguments of `Builder.add_body`, of a rod from the link's origin to `reach` [m]."""
    reach = np.asarray(reach, dtype=float)
    thickness = 0.05 + 0.1 * float(length(reach))
    inertia = mass / 12.0 * spread(reach) + mass * thickness**2 / 6.0 * np.eye(3)
    return {"mass": mass, "com": reach / 2.0, "inertia": inertia}
