"""Forward dynamics of mechanisms with closed loops, against Pinocchio's constrained and loop-constrained algorithms.

Pinocchio takes joints depth first, without which its results are wrong, and two proximal iterations. Couplings of
joints are not part of its dynamics: geared rotors are free there. Results are compared before anything is timed.
In the table, pin is `pin.constraintDynamics`, and the open tree is Kinetree's own without its loops. Batches of long
chains are smaller: a block of milliseconds would mostly time what else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin

import kinetree as kt
from benchmarks.table import Table
from benchmarks.timing import race
from kinetree.model.loops.loop import Loop

BATCH = 1024
FEW = 32
#: Calls in a pool: a block of one call would time the clock, too.
POOL = 64
CHAINS = (10, 100, 1000)

_X, _Y, _Z = np.eye(3)
_I = np.eye(3)


def _rod(mass: float, length: float, axis: int = 0) -> dict[str, Any]:
    """A slender rod that starts at the origin."""
    thin, wide = 1e-4 * mass, mass * (length**2 / 12.0 + 1e-4)
    com, moments = np.zeros(3), np.full(3, wide)
    com[axis], moments[axis] = length / 2.0, thin
    return {"mass": mass, "com": com, "inertia": np.diag(moments)}


def _tie(builder: kt.Builder, a: str, p: Any, b: str, r: Any) -> None:
    """Connect two points of two bodies."""
    for name, body, point in ((f"{a}>", a, p), (f"<{b} {a}", b, r)):
        builder.add_frame(name, body=body, placement=(_I, point))
    builder.connect(f"{a}>", f"<{b} {a}")


def add_four_bar(builder: kt.Builder, name: str, parent: str, at: Any) -> dict[str, float]:
    """A crank-rocker in the plane of a frame; returns where it closes."""
    R, p = at
    for part, carrier, x, length in (
        ("crank", parent, 0.0, 0.15), ("coupler", f"{name}crank", 0.15, 0.45), ("rocker", parent, 0.5, 0.35)
    ):  # fmt: skip
        place = (R, p + R @ [x, 0.0, 0.0]) if carrier == parent else (_I, (x, 0.0, 0.0))
        builder.add_body(f"{name}{part}", parent=carrier, placement=place, **_rod(2.0 * length, length))
    _tie(builder, f"{name}coupler", (0.45, 0, 0), f"{name}rocker", (0.35, 0, 0))
    builder.independent(f"{name}crank_joint")
    return {f"{name}crank_joint": 0.8, f"{name}coupler_joint": -0.23, f"{name}rocker_joint": 1.62}


def four_bars(count: int) -> kt.Model:
    """Four-bars, each on the coupler of the one before."""
    builder = kt.Builder(f"{count} four-bar{'s' if count > 1 else ''}")
    near: dict[str, float] = {}
    turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.955, -0.2966], [0.0, 0.2966, 0.955]])
    turn = np.linalg.qr(turn)[0] * np.sign(np.diag(np.linalg.qr(turn)[1]))
    parent, at = "world", (_I, np.zeros(3))
    for i in range(count):
        near |= add_four_bar(builder, f"{i}:", parent, at)
        parent, at = f"{i}:coupler", (turn, np.array([0.4, 0.1, 0.05]))
    return builder.build(near=near)


def add_ankle(builder: kt.Builder, name: str, shank: str, height: float = 0.0) -> None:
    """A foot on a universal joint, turned by two cranks through rods."""
    builder.add_body(f"{name}cross", parent=shank, axis=_Y, placement=(_I, (0, 0, height - 0.3)), **_rod(0.05, 0.02))
    builder.add_body(f"{name}foot", parent=f"{name}cross", axis=_X, **_rod(1.0, 0.2))
    for side, s, h in (("L", 1.0, -0.10), ("R", -1.0, -0.16)):
        place = _I, (0.0, s * 0.045, height + h)
        crank, yoke, rod = (f"{name}{part}{side}" for part in ("crank", "yoke", "rod"))
        builder.add_body(crank, parent=shank, axis=_Y, placement=place, **_rod(0.12, 0.04))
        builder.add_body(yoke, parent=crank, axis=_Y, placement=(_I, (-0.04, 0, 0)), mass=0.005, inertia=1e-6 * _I)
        builder.add_body(rod, parent=yoke, axis=_X, **_rod(0.06, 0.2, 2))
        _tie(builder, rod, (0, 0, -0.32 - h), f"{name}foot", (-0.04, s * 0.045, -0.02))
    builder.independent(f"{name}cross_joint", f"{name}foot_joint")


def ankle() -> kt.Model:
    """A parallel ankle on a fixed shank."""
    builder = kt.Builder("parallel ankle")
    add_ankle(builder, "", "world")
    return builder.build(near={"cross_joint": 0.1, "foot_joint": -0.05})


def stewart_pair() -> kt.Model:
    """A plate on a universal joint, held by two telescopic legs."""
    builder, near = kt.Builder("Stewart pair"), {"post_joint": 0.1, "plate_joint": -0.15}
    builder.add_body("post", axis=_X, placement=(_I, (0, 0, 0.5)), mass=0.1, inertia=1e-4 * _I)
    builder.add_body("plate", parent="post", axis=_Y, mass=2.0, com=(0.02, 0.01, 0.03), inertia=0.03 * _I)
    for i, (bx, by, px, py) in enumerate([(0.25, 0.1, 0.2, 0.05), (-0.05, 0.28, -0.02, 0.2)]):
        d = np.array([px - bx, py - by, 0.5])
        near |= {f"tube{i}_joint": np.arctan2(d[0], np.hypot(d[1], d[2])), f"yoke{i}_joint": np.arctan2(-d[1], d[2])}
        near[f"ram{i}_joint"] = np.linalg.norm(d) - 0.3
        builder.add_body(f"yoke{i}", axis=_X, placement=(_I, (bx, by, 0)), mass=0.02, inertia=1e-6 * _I)
        builder.add_body(f"tube{i}", parent=f"yoke{i}", axis=_Y, **_rod(0.7, 0.3, 2))
        above = _I, (0, 0, 0.3)
        builder.add_body(f"ram{i}", parent=f"tube{i}", joint="prismatic", axis=_Z, placement=above, **_rod(0.4, 0.3, 2))
        _tie(builder, f"ram{i}", (0, 0, 0), "plate", (px, py, 0))
    return builder.independent("post_joint", "plate_joint").build(near=near)


def biped(*, geared: bool = True) -> kt.Model:
    """A torso on two legs: geared hips, knees driven by four-bars, parallel ankles. 35 bodies, 18 velocities."""
    builder = kt.Builder("geared biped")
    builder.add_body("torso", joint="floating", mass=20.0, com=(0, 0, 0.2), inertia=0.5 * _I)
    for side, y in (("l", 0.1), ("r", -0.1)):
        parent, at = "torso", (0.0, y, 0.0)
        for name, axis in (("yaw", _Z), ("roll", _X), ("thigh", _Y)):
            link = f"{side}_{name}"
            builder.add_body(link, parent=parent, axis=axis, placement=(_I, at), **_rod(2.0, 0.3, 2))
            solid: dict[str, Any] = {"mass": 0.3, "inertia": np.diag([2e-4, 2e-4, 4e-4])}
            if geared:
                builder.add_rotor(f"{link}_joint", ratio=9.0, **solid)
            else:
                builder.add_body(f"{link}_rotor", parent=parent, axis=axis, placement=(_I, at), **solid)
            parent, at = link, (0.0, 0.0, -0.05)
        shank, crank, rod = f"{side}_shank", f"{side}_knee_crank", f"{side}_knee_rod"
        builder.add_body(shank, parent=parent, axis=_Y, placement=(_I, (0, 0, -0.4)), **_rod(1.5, 0.3, 2))
        builder.add_body(crank, parent=parent, axis=_Y, placement=(_I, (0, 0, -0.1)), **_rod(0.2, 0.05))
        builder.add_body(rod, parent=crank, axis=_Y, placement=(_I, (0.05, 0, 0)), **_rod(0.2, 0.3, 2))
        _tie(builder, rod, (0, 0, -0.3), shank, (0.05, 0, 0))
        builder.independent(f"{shank}_joint")
        add_ankle(builder, f"{side}_", shank)
    return builder.build(near={"l_shank_joint": 0.1, "r_shank_joint": 0.2})


class _Peer:
    """The spanning tree of a robot in Pinocchio, with its loops."""

    def __init__(self, robot: kt.Model) -> None:
        tree = robot.spanning_tree
        self.model, numbers = pin.Model(), {"world": (0, pin.SE3.Identity())}
        self.model.gravity.linear = np.array(robot.gravity)
        kinds = {"revolute": pin.JointModelRevoluteUnaligned, "prismatic": pin.JointModelPrismaticUnaligned}
        for body in tree.bodies:
            joint = tree.joint(body.joint)
            parent, at = numbers[joint.parent]
            made = pin.JointModelFreeFlyer() if joint.kind == "floating" else kinds[joint.kind](np.array(joint.axes[0]))
            number = self.model.addJoint(parent, made, at * pin.SE3(np.array(joint.placement)), joint.name)
            inertia = pin.Inertia(body.mass, np.array(body.com), np.array(body.inertia))
            self.model.appendBodyToJoint(number, inertia, pin.SE3.Identity())
            numbers[body.name] = number, pin.SE3.Identity()
        self.loops, self.parts = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for loop in robot.joint_constraints:
            if isinstance(loop, Loop):
                ends = [numbers[body][0] for body in loop.bodies]
                places = [pin.SE3(np.array(place)) for place in (loop.first, loop.second)]
                kind = pin.ContactType.CONTACT_3D
                self.loops.append(pin.RigidConstraintModel(kind, self.model, ends[0], places[0], ends[1], places[1]))
        for loop in self.loops:
            self.parts.append(loop.createData())
        self.data = self.model.createData()
        self.order = kt.interop.pinocchio(tree, self.model)
        pin.initConstraintDynamics(self.model, self.data, self.loops, self.parts)
        self._exact = pin.ProximalSettings(1e-14, 1e-12, 2)

    def constrained(self, q: Any, v: Any, tau: Any) -> Any:
        """`pin.constraintDynamics`."""
        return pin.constraintDynamics(self.model, self.data, q, v, tau, self.loops, self.parts, self._exact)

    def loop_constrained(self) -> Callable[..., Any]:
        """`pin.lcaba`, with memory of its own."""
        data = self.model.createData()
        pin.computeJointMinimalOrdering(self.model, data, self.loops)
        settings = pin.ProximalSettings(1e-10, 1e-6, 2)
        return lambda q, v, tau: pin.lcaba(self.model, data, q, v, tau, self.loops, self.parts, settings)


def table(seconds: float) -> Table:
    """Forward dynamics of each mechanism: a single call, and a sample of a batch."""
    found = Table(
        "Closed loops: forward dynamics, and how many times as long others take",
        ["mechanism", "nv", "joints", "single", "pin", "lcaba", "open tree", f"of {BATCH}", "pin", "lcaba"],
    )
    cases = [(four_bars(1), None), (ankle(), None), (stewart_pair(), None), (biped(), biped(geared=False))]
    cases += [(four_bars(count), None) for count in CHAINS]
    for robot, without_gears in cases:
        _add(found, robot, robot if without_gears is None else without_gears, seconds)
    return found


def _add(found: Table, robot: kt.Model, loops: kt.Model, seconds: float) -> None:
    """Add a row; `loops` is the robot without couplings, which Pinocchio does not have."""
    rng = np.random.default_rng(0)
    q, v, tau = robot.neutral(), *rng.normal(size=(2, robot.nv))
    samples = BATCH if len(robot.bodies) <= 50 else FEW
    many = np.stack([q] * samples), *rng.normal(size=(2, samples, robot.nv))
    contenders: dict[str, Any] = {
        "single": (robot.forward_dynamics, [(q, v, tau)] * POOL),
        "batch": (robot.forward_dynamics, [many]),
    }
    tree = robot.spanning_tree
    rates, zero = robot.joint_rates(q, v)[robot.tree_order], np.zeros(tree.nv)
    contenders["open"] = (tree.forward_dynamics, [(robot.to_tree(q), rates, zero)] * POOL)
    bodies = len(robot.bodies)
    if bodies <= 400:
        peer = _Peer(loops)
        order, own = loops.tree_order, rng.normal(size=loops.nv)
        start = loops.neutral()
        state = (
            peer.order.to_q(loops.to_tree(start)),
            peer.order.to_v(loops.joint_rates(start, own)[order]),
            np.zeros(peer.model.nv),
        )
        a = loops.joint_accelerations(start, own, loops.forward_dynamics(start, own, np.zeros(loops.nv)))[order]
        theirs = peer.order.from_a(peer.constrained(*state))
        if not np.allclose(a, theirs, rtol=1e-5, atol=1e-5 * float(np.abs(a).max())):
            raise ValueError(f"{robot.name}: forward dynamics of Pinocchio differ from Kinetree's")
        contenders["constraintDynamics"] = (peer.constrained, [state] * POOL)
        contenders["lcaba"] = (peer.loop_constrained(), [state] * POOL)
    times = race(contenders, seconds)
    single, batch = times["single"], times["batch"] / samples

    def ratio(name: str, own: float) -> str:
        return f"{times[name] / own:.1f}×" if name in times else "–"

    found.add(
        robot.name,
        str(robot.nv),
        str(sum(joint.type.nv for joint in robot.joints)),
        f"{single * 1e6:.2f} µs",
        ratio("constraintDynamics", single),
        ratio("lcaba", single),
        ratio("open", single),
        f"{batch * 1e6:.3f} µs",
        ratio("constraintDynamics", batch),
        ratio("lcaba", batch),
    )
