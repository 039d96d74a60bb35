"""Mechanisms with closed loops, coupled joints and flexible bodies: recorded ones, and small ones that tests share."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from tests.tolerance import assert_close
from tests.trees import serial

_FILE = Path(__file__).parent / "oracles" / "mechanisms.json"


@cache
def recorded() -> dict[str, Any]:
    """The recorded mechanisms by name, with states and results."""
    found = json.loads(_FILE.read_text())["mechanisms"]
    return {one["name"]: one for one in found}


def joint_of(body: str) -> str:
    """The name of a recorded body's joint."""
    return f"{body}_joint"


def positions(one: Any) -> dict[str, Any]:
    """Coordinates of all joints, by name."""
    found, start = {}, 0
    for body in one["bodies"]:
        count = 7 if body["joint"] == "floating" else 1
        values = one["state"]["q"][start : start + count]
        found[joint_of(body["name"])], start = values if count > 1 else values[0], start + count
    return found


def described(one: Any) -> kt.Builder:
    """A builder with all bodies and constraints of a recorded mechanism."""
    builder = kt.Builder(one["name"], gravity=one["gravity"])
    for body in one["bodies"]:
        builder.add_body(
            body["name"],
            parent=body["parent"],
            joint=body["joint"],
            placement=(body["R"], body["p"]),
            axis=None if body["joint"] == "floating" else body["axis"],
            mass=body["mass"],
            com=body["com"],
            inertia=body["inertia"],
            armature=body["armature"],
        )
    for i, constraint in enumerate(one["constraints"]):
        if constraint["type"] == "couple":
            if "terms" in constraint:
                terms = {joint_of(name): factor for name, factor in constraint["terms"].items()}
                builder.couple(terms, offset=constraint["offset"])
            elif len(constraint["poly"]) == 2:
                offset, ratio = constraint["poly"]
                leader = joint_of(constraint["leader"])
                builder.couple(joint_of(constraint["follower"]), to=leader, ratio=ratio, offset=offset)
            else:
                leader = joint_of(constraint["leader"])
                builder.couple(joint_of(constraint["follower"]), to=leader, poly=constraint["poly"])
            continue
        ends = f"a{i}", f"b{i}"
        for end, body, point in zip(ends, ("a", "b"), ("pa", "pb"), strict=True):
            builder.add_frame(end, body=constraint[body], placement=(np.eye(3), constraint[point]))
        length = {"length": constraint["length"]} if constraint["type"] == "distance" else {}
        getattr(builder, constraint["type"])(*ends, **length)
    return builder


@cache
def built(name: str) -> kt.Model:
    """A recorded mechanism, closed near its recorded state."""
    one = recorded()[name]
    chosen = [joint_of(name) for name in one["independent"]]
    return described(one).independent(*chosen).build(near=positions(one))


def four_bar(
    crank: float = 0.3,
    coupler: float = 0.9,
    rocker: float = 0.7,
    ground: float = 1.0,
    armature: float = 0.0,
    turn: Any = None,
) -> kt.Builder:
    """A crank-rocker in the x-y plane, to be closed between "tip" of the coupler and "pin" of the rocker.

    The armature is the rocker's; `turn` is a rotation of the plane, and of gravity with it.
    """
    R = np.eye(3) if turn is None else turn
    builder = kt.Builder("four-bar", gravity=R @ (0.0, -9.81, 0.0))
    lengths = {"crank": crank, "coupler": coupler, "rocker": rocker}
    places = {"crank": ("world", 0.0), "coupler": ("crank", crank), "rocker": ("world", ground)}
    for name, length in lengths.items():
        parent, x = places[name]
        inertia = length**2 / 12.0 * np.diag([1e-3, 1.0, 1.0])
        at = (R, R @ (x, 0.0, 0.0)) if parent == "world" else (np.eye(3), (x, 0.0, 0.0))
        rotor = armature if name == "rocker" else 0.0
        solid = {"mass": 1.0, "com": (length / 2, 0.01, 0.0), "inertia": inertia}
        builder.add_body(name, parent=parent, placement=at, armature=rotor, **solid)
    builder.add_frame("tip", body="coupler", placement=(np.eye(3), (coupler, 0.0, 0.0)))
    builder.add_frame("pin", body="rocker", placement=(np.eye(3), (rocker, 0.0, 0.0)))
    return builder


#: A guess near which the default four-bar closes.
NEAR = {"crank_joint": 0.8, "coupler_joint": -0.2, "rocker_joint": 1.6}


@cache
def gripper() -> kt.Model:
    """An arm with four hinges and two fingers, of which one mimics the other."""
    solid = {"mass": 1.0, "com": (0.1, 0.02, 0.03), "inertia": np.diag([0.01, 0.02, 0.03])}
    limits, axes = (
        kt.Limits(lower=-2.5, upper=2.5, velocity=3.0, effort=80.0),
        ((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0)),
    )
    links = [{**solid, "axis": axis, "placement": (np.eye(3), (0.3, 0.0, 0.1)), "limits": limits} for axis in axes]
    links[0]["placement"] = np.eye(3), (0.0, 0.0, 0.1)
    builder, parent = serial(links, "link", builder=kt.Builder("gripper")), "link3"
    limits = kt.Limits(lower=-0.1, upper=0.1, velocity=1.0, effort=50.0)
    for name, y in (("left", 1.0), ("right", -1.0)):
        at = np.eye(3), (0.2, 0.05 * y, 0.0)
        builder.add_body(name, parent=parent, joint="prismatic", axis=(0, y, 0), placement=at, limits=limits, **solid)
    builder.couple("right_joint", to="left_joint", ratio=1.0)
    builder.add_frame("tip", body="left", placement=(np.eye(3), (0.1, 0.0, 0.0)))
    return builder.build()


def whip() -> kt.Model:
    """A beam between two rigid bodies; its two modes bend it in two planes."""
    builder = kt.Builder("whip").add_body("hub", mass=1.0, inertia=0.1 * np.eye(3), axis=(0, 1, 0))
    builder.add_flexible("rod", kt.Beam(length=1.0, EI=50.0, rhoA=0.8, modes=1, planes="yz"), parent="hub")
    builder.add_body("tool", parent="rod/tip", mass=0.3, inertia=0.01 * np.eye(3), com=(0.1, 0.02, 0), axis=(0, 1, 0))
    return builder.build()


@cache
def hopper() -> kt.Model:
    """A body on a vertical leg whose slide has stops and friction."""
    builder = kt.Builder("hopper")
    builder.add_body("body", joint="floating", mass=3.0, inertia=0.02 * np.eye(3))
    builder.add_body(
        "foot", parent="body", joint="prismatic", axis=(0, 0, 1), placement=(np.eye(3), (0, 0, -0.3)), mass=1.0,
        inertia=0.01 * np.eye(3), limits=kt.Limits(lower=-0.1, upper=0.1),
    )  # fmt: skip
    return builder.build()


def assert_jvps_are_exact(robot: kt.Model, q: Any, v: Any, a: Any) -> None:
    """Derivatives of both dynamics along a random direction are those of complex steps, on both engines."""
    step, (dq, dv, da) = 1e-30, np.random.default_rng(8).normal(size=(3, robot.nv))
    moved = robot.integrate.engine("reference")(q.astype(complex), 1j * step * dq)
    tau = robot.inverse_dynamics.engine("reference")(q, v, a)
    for function, x in ((robot.inverse_dynamics, a), (robot.forward_dynamics, tau)):
        exact = function.engine("reference")(moved, v + 1j * step * dv, x + 1j * step * da).imag / step
        for engine in ("reference", "native"):
            assert_close(function.jvp.engine(engine)(q, v, x, dq, dv, da), exact, 1e-12)
