"""Gaits with given contact phases, as crocoddyl's examples have them: quadrupeds trot and jump, a biped walks.

A gait is a list of nodes: the feet that are held, whether it is an impact, and what is tracked.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lxml import etree

import kinetree as kt
from benchmarks.robots import share
from kinetree import ocp

Array = np.ndarray[Any, np.dtype[Any]]
FEET = ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]
SOLES = ["right_sole_link", "left_sole_link"]
#: The robot's file, the file with its postures, and the posture that gaits start from.
ROBOTS = {
    "anymal": (
        "anymal_b_simple_description/robots/anymal.urdf",
        "anymal_b_simple_description/srdf/anymal.srdf",
        "standing",
    ),
    "talos": ("talos_data/robots/talos_reduced.urdf", "talos_data/srdf/talos.srdf", "half_sitting"),
}


@dataclass
class Node:
    """A node of a gait."""

    feet: list[str]
    impact: bool = False
    com: Array | None = None
    track: dict[str, Array] = field(default_factory=dict)


@dataclass
class Gait:
    """A problem with what it is solved for."""

    problem: ocp.Problem
    q: Array
    targets: dict[str, Array]

    def solve(self, **options: Any) -> ocp.Plan:
        """Solve it, at rest at first."""
        return self.problem.solve(self.q, targets=self.targets, **options)


def robot(name: str) -> tuple[kt.Model, Array]:
    """A robot, and the configuration that its gaits start from."""
    urdf, srdf, posture = ROBOTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kt.load(share() / urdf, floating_base=True)
    q = model.neutral()
    (state,) = etree.parse(share() / srdf).xpath(f"//group_state[@name='{posture}']")
    slices = {joint.name: joint.q_slice for joint in model.joints}
    for joint in state.iter("joint"):
        values = np.array(joint.get("value").split(), dtype=float)
        if joint.get("name") == "root_joint":
            x, y, z, *turn, w = values
            q[:7] = x, y, z, w, *turn
        elif joint.get("name") in slices:
            q[slices[joint.get("name")]] = values
    return model, q


def _footstep(
    com: Array, places: dict[str, Array], support: list[str], swing: list[str], length: float, height: float,
    knots: int,
) -> list[Node]:  # fmt: skip
    """Nodes of a step: feet swing, and touch down."""
    half, share_of_com, nodes = knots / 2, len(swing) / (len(swing) + len(support)), []
    for k in range(knots):
        way = length * (k + 1) / knots
        up = height * k / half if k < half else height if k == half else height * (1 - (k - half) / half)
        track = {foot: places[foot] + [way, 0.0, up] for foot in swing}
        nodes.append(Node(support, com=com + np.array([way * share_of_com, 0.0, 0.0]), track=track))
    com += [length * share_of_com, 0.0, 0.0]
    for foot in swing:
        places[foot] += [length, 0.0, 0.0]
    return [*nodes, Node(swing, impact=True, track=nodes[-1].track)]


def _start(model: kt.Model, q: Array, feet: list[str]) -> tuple[Array, dict[str, Array]]:
    places = {foot: model.pose(q, foot)[:3, 3].copy() for foot in feet}
    com = np.mean(list(places.values()), axis=0)
    com[2] = model.center_of_mass(q)[2]
    return com, places


def trot(length: float = 0.15, height: float = 0.1, knots: int = 25, support: int = 2) -> Gait:
    """ANYmal trots two steps, T = 56."""
    model, q = robot("anymal")
    com, places = _start(model, q, FEET)
    pairs = ["RF_FOOT", "LH_FOOT"], ["LF_FOOT", "RH_FOOT"]
    nodes = [Node(FEET) for _ in range(support)]
    nodes += _footstep(com, places, pairs[1], pairs[0], 0.5 * length, height, knots)
    nodes += [Node(FEET) for _ in range(support)]
    nodes += _footstep(com, places, pairs[0], pairs[1], length, height, knots)
    return quadruped(model, q, [*nodes, Node(FEET)])


def jump(
    height: float = 0.15, way: tuple[float, float, float] = (0.0, 0.3, 0.0), ground: int = 10, flying: int = 20
) -> Gait:
    """ANYmal jumps sideways, T = 60."""
    model, q = robot("anymal")
    com, places = _start(model, q, FEET)
    low = way[2] - places["RF_FOOT"][2]
    for place in places.values():
        place[2] = 0.0
    top = np.array([way[0] / 2, way[1] / 2, way[2] / 2 + height])
    nodes = [Node(FEET) for _ in range(ground)]
    nodes += [Node([], com=com + top * (k + 1) / flying) for k in range(flying)]
    nodes += [Node([]) for _ in range(flying)]
    nodes.append(Node(FEET, impact=True, track={foot: place + way for foot, place in places.items()}))
    nodes += [Node(FEET, com=com + np.array([way[0], way[1], low])) for _ in range(ground)]
    return quadruped(model, q, nodes)


def quadruped(model: kt.Model, q: Array, nodes: list[Node], dt: float = 0.01) -> Gait:
    """The problem of a quadruped's nodes."""
    free = model.nv - 6
    of = np.array([500.0] * 3 + [0.0] * 3 + [0.01] * free + [10.0] * 6 + [1.0] * free) ** 2
    at = np.array([1.0] * 6 + [10.0] * free + [10.0] * model.nv) ** 2
    most = np.r_[np.full(6, np.inf), model.upper_limits[7:], model.velocity_limits]
    least = np.r_[np.full(6, -np.inf), model.lower_limits[7:], -model.velocity_limits]
    terms = [
        ocp.state(q, weight=10.0 * of, impact=10.0 * at),
        ocp.state(model.neutral(), weight=1e3, lower=least, upper=most, name="bounds"),
        ocp.control(weight=0.1),
    ]
    tracked, targets = _tracked(nodes, FEET, 1e6, 1e7, ocp.position)
    cones = [ocp.friction(foot, 0.7, inner=False, weight=10.0) for foot in FEET]
    contacts = _contacts(nodes, FEET, damping=50.0)
    problem = ocp.Problem(model, dt, len(nodes) - 1, [*terms, *cones, *tracked], contacts=contacts)
    return Gait(problem, q, targets)


def walk(length: float = 0.6, height: float = 0.1, knots: int = 25, support: int = 1, dt: float = 0.03) -> Gait:
    """Talos walks two steps, T = 53."""
    model, q = robot("talos")
    com, places = _start(model, q, SOLES)
    nodes = [Node(SOLES) for _ in range(support)]
    nodes += _footstep(com, places, SOLES[1:], SOLES[:1], 0.5 * length, height, knots)
    nodes += [Node(SOLES) for _ in range(support)]
    nodes += _footstep(com, places, SOLES[:1], SOLES[1:], length, height, knots)
    free = model.nv - 6
    of = np.array([500.0] * 3 + [0.0] * 3 + [0.01] * free + [10.0] * model.nv) ** 2
    at = np.array([1.0] * 6 + [0.1] * free + [10.0] * model.nv) ** 2
    terms = [ocp.state(q, weight=10.0 * of, impact=10.0 * at, last=10.0 * at), ocp.control(weight=0.1)]
    tracked, targets = _tracked(nodes, SOLES, 1e6, 1e8, ocp.pose)
    cones = [ocp.friction(foot, 0.7, sole=(0.05, 0.025), weight=10.0) for foot in SOLES]
    contacts = _contacts(nodes, SOLES, rows="all", damping=30.0)
    problem = ocp.Problem(model, dt, len(nodes) - 1, [*terms, *cones, *tracked], contacts=contacts)
    return Gait(problem, q, targets)


def _contacts(nodes: list[Node], feet: list[str], **options: Any) -> ocp.Contacts:
    held = {foot: np.array([foot in node.feet for node in nodes[:-1]]) for foot in feet}
    return ocp.Contacts(held, impact=np.array([node.impact for node in nodes[:-1]]), **options)


def _tracked(
    nodes: list[Node], feet: list[str], weight: float, impact: float, make: Any
) -> tuple[list[Any], dict[str, Array]]:
    """Terms of the centre of mass and of feet, where they are tracked, and their targets."""
    targets = {"center_of_mass": np.array([np.zeros(3) if node.com is None else node.com for node in nodes])}
    own = [i for i, node in enumerate(nodes) if node.com is not None]
    terms = [ocp.center_of_mass(weight=weight, nodes=own)]
    for foot in feet:
        some = [i for i, node in enumerate(nodes) if foot in node.track]
        places = np.array([node.track.get(foot, np.zeros(3)) for node in nodes])
        if make is ocp.pose:
            poses = np.tile(np.eye(4), (len(nodes), 1, 1))
            poses[:, :3, 3] = places
            places = poses
        targets[foot] = places
        terms.append(make(foot, weight=weight, impact=impact, last=impact if nodes[-1].impact else None, nodes=some))
    return terms, targets
