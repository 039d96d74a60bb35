"""Random mechanisms as plain lists of links, so that Kinetree and the oracles build the same robot independently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import kinetree as kt

Array = np.ndarray[Any, np.dtype[np.float64]]

#: Every joint kind that moves, with its degrees of freedom.
KINDS = {
    "revolute": 1,
    "prismatic": 1,
    "helical": 1,
    "cylindrical": 2,
    "universal": 2,
    "spherical": 3,
    "planar": 3,
    "translational": 3,
    "floating": 6,
}


@dataclass(frozen=True)
class Link:
    """A body and the joint that carries it, in the arguments of `Builder.add_body`."""

    name: str
    parent: str
    joint: str
    rotation: Array  # of the joint's frame in the parent link, 3×3
    position: Array  # of the joint's origin in the parent link [m]
    axis: Array
    second_axis: Array
    pitch: float
    mass: float
    com: Array
    inertia: Array
    armature: Array  # one entry per degree of freedom; zeros mean none

    @property
    def nv(self) -> int:
        return KINDS[self.joint]

    @property
    def placement(self) -> Array:
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = self.rotation, self.position
        return pose


@dataclass(frozen=True)
class Mechanism:
    """Links in depth-first order, and tips fixed to some of them."""

    name: str
    links: tuple[Link, ...]
    tips: tuple[tuple[str, str, Array], ...] = ()  # name, link, 4×4 placement
    gravity: tuple[float, float, float] = (0.4, -0.7, -9.5)
    index: dict[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {link.name: i for i, link in enumerate(self.links)})

    def kinetree(self) -> kt.Model:
        """Build it with Kinetree."""
        builder = kt.Builder(name=self.name, gravity=self.gravity)
        for link in self.links:
            own: dict[str, Any] = {}
            if link.joint == "universal":
                own["axes"] = (link.axis, link.second_axis)
            elif link.joint in ("revolute", "prismatic", "helical", "cylindrical", "planar"):
                own["axis"] = link.axis
            if link.joint == "helical":
                own["pitch"] = link.pitch
            if np.any(link.armature):
                own["armature"] = link.armature
            builder.add_body(
                link.name,
                parent=link.parent,
                joint=link.joint,
                placement=link.placement,
                mass=link.mass,
                com=link.com,
                inertia=link.inertia,
                **own,
            )
        for name, body, placement in self.tips:
            builder.add_frame(name, body=body, placement=placement)
        return builder.build()


def serial(bodies: Iterable[dict[str, Any]], name: str = "b", parent: str = "world", **options: Any) -> kt.Builder:
    """Bodies one behind the other, each by its arguments of `add_body`; they are numbered after the name.

    Args:
        bodies: Arguments of each.
        name: What their names begin with.
        parent: What the first one hangs on.
        **options: Of the builder, or `builder`, one that they are added to.
    """
    builder = options.get("builder") or kt.Builder(**options)
    for i, body in enumerate(bodies):
        builder.add_body(f"{name}{i}", parent=parent, **body)
        parent = f"{name}{i}"
    return builder


def random_rotation(rng: np.random.Generator) -> Array:
    """A rotation matrix, uniform over all rotations."""
    w, x, y, z = unit(rng, 4)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def unit(rng: np.random.Generator, size: int = 3) -> Array:
    """A unit vector, uniform over all directions."""
    vector = rng.standard_normal(size)
    return np.asarray(vector / np.linalg.norm(vector))


def random_inertia(rng: np.random.Generator, mass: float) -> Array:
    """Rotational inertia of a solid body: principal moments from three second moments of mass, so that it can exist."""
    second = mass * rng.uniform(0.01, 0.06, 3)
    axes = random_rotation(rng)
    tensor = axes @ np.diag(second.sum() - second) @ axes.T
    return np.asarray((tensor + tensor.T) / 2)


def random_link(rng: np.random.Generator, name: str, parent: str, joint: str, armature: bool, reach: float) -> Link:
    """A link of about a kilogramme and a decimetre."""
    mass = float(rng.uniform(0.5, 3.0))
    axis, second = unit(rng), unit(rng)
    return Link(
        name=name,
        parent=parent,
        joint=joint,
        rotation=random_rotation(rng),
        position=rng.uniform(-reach, reach, 3),
        axis=axis,
        second_axis=np.cross(axis, second) / np.linalg.norm(np.cross(axis, second)),
        pitch=float(rng.uniform(-0.3, 0.3)),
        mass=mass,
        com=rng.uniform(-0.1, 0.1, 3),
        inertia=random_inertia(rng, mass),
        armature=rng.uniform(0.05, 0.5, KINDS[joint]) if armature else np.zeros(KINDS[joint]),
    )


def random_mechanism(
    name: str,
    joints: list[str],
    seed: int,
    *,
    armature: float = 0.0,  # share of the joints that have it
    branching: float = 0.4,  # probability that a link hangs on an earlier one than the link before it
    roots: int = 1,  # trees in the forest
    base: tuple[float, float, float] = (0.0, 0.0, 0.0),  # where they stand [m]
    reach: float = 0.4,  # largest offset of a joint in its parent link [m]
    tips: int = 2,  # extra frames
) -> Mechanism:
    """Links behind joints of the given kinds, in depth-first order."""
    rng = np.random.default_rng(seed)
    starts = set(np.linspace(0, len(joints), roots, endpoint=False).astype(int).tolist())
    links: list[Link] = []
    path: list[str] = []  # from the root to the last link: whatever hangs on it keeps the order depth first
    for i, joint in enumerate(joints):
        if i in starts:
            path = []
        elif len(path) > 1 and rng.random() < branching:
            path = path[: int(rng.integers(1, len(path)))]
        parent = path[-1] if path else "world"
        link = random_link(rng, f"link{i}", parent, joint, bool(rng.random() < armature), reach)
        if parent == "world":
            link = replace(link, position=link.position + np.array(base))
        links.append(link)
        path.append(link.name)
    frames = []
    for i in range(tips):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = random_rotation(rng), rng.uniform(-0.2, 0.2, 3)
        frames.append((f"tip{i}", links[int(rng.integers(len(links)))].name, pose))
    return Mechanism(name, tuple(links), tuple(frames))


def mixed(count: int, seed: int, *kinds: str) -> list[str]:
    """A revolute joint, then a shuffled list in which every kind comes about equally often.

    Compiled code depends on the kinds that occur on the world and on other bodies: trees with the same kind of root and
    all kinds beyond it share it.
    """
    chosen = list(kinds or KINDS)
    joints = (chosen * (count // len(chosen) + 1))[: count - 1]
    return ["revolute", *(str(joint) for joint in np.random.default_rng(seed).permutation(joints))]
