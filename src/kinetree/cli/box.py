"""The experiment of [CK01]: a humanoid with 24 joints puts a box on the floor with both hands, and lets it go.

Both hands hold the box, which closes kinematic loops. The box follows a cubic spline until it stands on the floor, by
contact; then the hands let go of it and leave. The feet stand by friction; or the right one is fixed to the world, and
the left one is welded to it or free. The centre of mass stays above the feet on a second level, which keeps the head
away from the box; the posture is controlled in the null space, and the waist reaches its limit on the way.

[CK01] K.-S. Chang, O. Khatib, "Efficient recursive algorithm for the operational space inertia matrix of branching
       mechanisms", Advanced Robotics 14, 2001.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import typer
from rich.console import Console

import kinetree as kt
from kinetree import control, simulation
from kinetree.cli.box_picture import draw
from kinetree.cli.terminal import bar, safe
from kinetree.spatial.value import Array

HANDS, FEET = ("left_hand", "right_hand"), ("left_foot", "right_foot")
#: How the feet stand.
STANCES = ("friction", "welded", "free")
SIZE, MASS, SQUEEZE, FRICTION = (0.30, 0.36, 0.30), 4.0, 30.0, 0.8  # [m, kg, N]
END = (0.42, 0.09, 0.15)  # the box stands on the floor [m]
SECONDS, HOLD, LEAVE = 4.0, 0.5, 1.0  # down, on the floor, and until the hands are away [s]
SERVO = 300.0  # the paper's rate [Hz]
AWAY = 0.12  # how far the hands leave the box [m]
BALANCE = (0.06, 0.09)  # where the centre of mass stays above the feet [m]
#: Heel and toe of a sole, and its half width, in a foot's frame [m].
SOLE = ((-0.08, 0.20), 0.05)
HEAD = (0.58, 0.09)  # height of its centre above the waist, and its radius [m]
#: How far before its limit the waist rests, by stance [rad]. At the paper's servo rate torques are held for 3.3 ms, in
#: which the waist, disturbed by contacts, goes up to half as far beyond where it should be.
MARGINS = {"friction": 2e-3, "welded": 2e-5, "free": 2e-4}
#: Time between two pictures, and between two looks at whether a browser is there [s].
_FRAME, _LOOK = 1.0 / 30.0, 0.1
#: Angles of the posture [rad]; all others are zero.
POSTURE = {
    "right_ankle_pitch": 0.25, "right_knee": -0.5, "right_hip_pitch": 0.25,
    "left_hip_pitch": -0.25, "left_knee": 0.5, "left_ankle_pitch": -0.25,
    "left_shoulder_pitch": -0.3, "right_shoulder_pitch": -0.3, "left_elbow": -0.6, "right_elbow": -0.6,
    "left_shoulder_roll": -0.08, "right_shoulder_roll": 0.08,
}  # fmt: skip


_BALANCED = control.Goal(kt.CenterOfMassTask((3, 4)), kp=50.0)


@dataclass(frozen=True)
class Figures:
    """Results of the experiment."""

    tracking: float  # largest distance of the box from the spline [mm]
    final_error: float  # distance at the end of the spline [mm]
    posture_leak: float  # largest acceleration of box and hands caused by the posture, relative to the joints'
    waist_overshoot: float  # how far the waist exceeds its limit [rad]
    limited: float  # fraction of the time in which a joint is at a limit
    grip_gap: float  # largest error of the grasps, and of a foot that is welded [m or rad]
    squeeze: tuple[float, float]  # least and largest force between the hands [N]
    head_clearance: float  # least distance between head and box [mm]
    foot_slip: float  # how far a foot that should stand moves [mm]
    box_height: float  # largest distance of the lower corners from the floor at the end, when nothing holds it [mm]
    box_speed: float  # largest component of its velocity then [mm/s or mrad/s]
    hand_clearance: float  # least distance between the hands and the box then [mm]
    largest_torque: float  # largest joint torque [N m]
    largest_torque_joint: str  # the joint at which it occurs
    servo_rate: float  # rate at which the controller could run on this machine [Hz]; the paper's ran at 300


@dataclass(frozen=True)
class Experiment:
    """The scene, its controllers and simulators: while the hands hold the box, and afterwards."""

    robot: kt.Model  # humanoid and box
    stance: str  # one of `STANCES`
    start: Array  # initial configuration
    ways: dict[str, control.Path]  # of the box and the centre of mass
    held: tuple[kt.Weld, ...]  # what the controller takes as held: grasps and feet
    controller: control.OperationalSpace
    world: simulation.Simulator
    humanoid: kt.Model  # without the box
    freed: simulation.Simulator  # without grasps

    @property
    def way(self) -> control.Path:
        """Path of the box."""
        return self.ways["box"]


@dataclass(frozen=True)
class Motion:
    """The two parts of the experiment."""

    down: simulation.Film
    away: simulation.Film

    @property
    def released(self) -> float:
        """When the hands let go of the box [s]."""
        return float(self.down.time[-1])

    @property
    def time(self) -> Array:
        """Times of both parts."""
        return np.concatenate([self.down.time, self.down.time[-1] + self.away.time])

    @property
    def q(self) -> Array:
        """Configurations of both parts."""
        return np.concatenate([self.down.q, self.away.q])

    @property
    def tau(self) -> Array:
        """Torques of both parts."""
        return np.concatenate([self.down.tau, self.away.tau])


class Alone:
    """A controller of the humanoid in a scene with a box that nothing holds: the box gets no forces."""

    def __init__(self, controller: control.OperationalSpace) -> None:
        self._controller = controller

    def __call__(self, q: Array, v: Array, targets: Any, **state: Any) -> Any:
        """As of the controller, with zeros for the box."""
        robot = self._controller.robot
        command = self._controller(q[: robot.nq], v[: robot.nv], targets, **state)
        return SimpleNamespace(tau=np.append(command.tau, np.zeros(len(v) - robot.nv)), state=command.state)


def experiment(stance: str = "friction", seconds: float = SECONDS, dt: float = 1e-3) -> Experiment:
    """The experiment with the paper's rates; see [CK01]."""
    humanoid = kt.zoo.humanoid24(floating=stance == "friction")
    q = humanoid.q_from_dict(POSTURE)
    center = humanoid.pose(q, list(HANDS))[:, :3, 3].sum(axis=0) / 2.0
    robot = humanoid.attach("world", kt.zoo.box(SIZE, MASS))
    start = np.concatenate([q, center, [1.0, 0.0, 0.0, 0.0]])
    grasps = tuple(kt.Weld(hand, "box") for hand in HANDS)
    stands = {"friction": FEET, "welded": FEET[:1], "free": ()}[stance]
    feet = tuple(kt.Weld(foot) for foot in stands)
    limits = control.Bounds(position=15.0, margin=MARGINS[stance])
    controller = control.OperationalSpace(
        robot, [control.Goal("box", kp=100.0)], [_BALANCED], posture=control.Posture(start, kp=25.0),
        constraints=(*grasps, *feet), bounds=limits, squeeze={"box": SQUEEZE},
    )  # fmt: skip
    touching: Any = {"contacts": [simulation.Points("box", lower_corners())], "dt": dt, "at": start}
    if stance == "friction":
        toes = [(x, y, 0.0) for x in SOLE[0] for y in (-SOLE[1], SOLE[1])]
        touching["contacts"] += [simulation.Points(foot, toes) for foot in FEET]
    touching["ground"] = simulation.Plane(friction=FRICTION)
    fixed = feet if stance == "welded" else ()
    com = robot.center_of_mass(start)
    ways = {
        "box": control.cubic(center, END, seconds),
        "center_of_mass": control.quintic(com, np.array([*BALANCE, com[2]]), seconds / 2.0),
    }
    return Experiment(
        robot, stance, start, ways, (*grasps, *feet), controller,
        simulation.Simulator(robot, constraints=(*grasps, *fixed), **touching),
        humanoid, simulation.Simulator(robot, constraints=fixed, **touching),
    )  # fmt: skip


def lower_corners() -> Array:
    """Corners of the lower face of the box, in its frame, (4, 3)."""
    x, y, z = (0.5 * edge for edge in SIZE)
    return np.array([[i * x, j * y, -z] for i in (-1, 1) for j in (-1, 1)])


def run(setup: Experiment, watch: Callable[..., None] | None = None) -> Motion:
    """Lower the box, let it go and leave it."""
    down = setup.world.run(
        setup.start, setup.controller, setup.ways, seconds=setup.way.seconds + HOLD, servo=SERVO, watch=watch
    )
    q = down.q[-1]
    leaving = control.OperationalSpace(
        setup.humanoid,
        [control.Goal(kt.Task(hand, "position")) for hand in HANDS],
        [_BALANCED],
        posture=control.Posture(q[: setup.humanoid.nq], kp=25.0),
        constraints=setup.held[len(HANDS) :],
        bounds=setup.controller.bounds,
    )
    hands = setup.robot.pose(q, list(HANDS))[:, :3, 3]
    ways: dict[str, Any] = {"center_of_mass": setup.ways["center_of_mass"](setup.way.seconds)}
    for hand, at, side in zip(HANDS, hands, (1.0, -1.0), strict=True):
        ways[hand] = control.quintic(at, at + np.array([0.0, side * AWAY, AWAY]), LEAVE)

    def later(now: float, *rest: Any) -> None:
        if watch is not None:
            watch(down.time[-1] + now, *rest)

    away = setup.freed.run(q, Alone(leaving), ways, v=down.v[-1], seconds=LEAVE + HOLD, servo=SERVO, watch=later)
    return Motion(down, away)


def figures(setup: Experiment, motion: Motion) -> Figures:
    """The figures reported in the paper, and some that are not."""
    robot, film = setup.robot, motion.down
    off = np.linalg.norm(robot.pose(film.q, "box")[:, :3, 3] - setup.way(film.time).position, axis=1)
    waist = robot.joint("waist_pitch")
    limit = waist.limits.upper[0]
    kept = setup.held[: len(HANDS)] if setup.stance == "friction" else setup.held
    gaps = robot.constraints(kept, at=setup.start).error(film.q)
    # grasp wrenches are in the axes of the box, which does not rotate: its y axis points from hand to hand
    pressed = [np.abs(film.constraint_forces[hand][:, 4]) for hand in HANDS]
    largest = np.abs(motion.tau).max(axis=0)
    columns = [joint.name for joint in robot.joints for _ in range(joint.nv)]
    commands: list[Any] = film.commands
    end = robot.pose(motion.q[-1], "box")
    corners = lower_corners() @ end[:3, :3].T + end[:3, 3]
    feet = list(FEET[: 1 if setup.stance == "welded" else 2]) if setup.stance != "free" else []
    soles = robot.pose(motion.q, feet)[..., :3, 3] if feet else np.zeros((1, 1, 3))
    head = (robot.pose(motion.q, "waist_pitch_link") @ [0.0, 0.0, HEAD[0], 1.0])[:, :3]
    hands = robot.pose(motion.q[-1:], list(HANDS))[0, :, :3, 3]
    return Figures(
        tracking=1e3 * float(off.max()),
        final_error=1e3 * float(off[-1]),
        posture_leak=leak(setup, film),
        waist_overshoot=max(0.0, float(motion.q[:, waist.q_start].max()) - limit),
        limited=float(np.mean([command.limited.any() for command in commands])),
        grip_gap=float(np.abs(gaps).max()),
        squeeze=(float(np.min(pressed)), float(np.max(pressed))),
        head_clearance=1e3 * (float(_outside(robot.pose(motion.q, "box"), head).min()) - HEAD[1]),
        foot_slip=1e3 * float(np.abs(soles - soles[0]).max()),
        box_height=1e3 * float(np.abs(corners[:, 2]).max()),
        box_speed=1e3 * float(np.abs(motion.away.v[-1, -6:]).max()),
        hand_clearance=1e3 * float(_outside(np.stack([end] * 2), hands).min()),
        largest_torque=float(largest.max()),
        largest_torque_joint=columns[int(largest.argmax())],
        servo_rate=_rate(setup, film),
    )


def _outside(box: Array, points: Array) -> Array:
    """Distances of points, (n, 3), from a box with poses (n, 4, 4)."""
    inside = (np.swapaxes(box[:, :3, :3], -1, -2) @ (points - box[:, :3, 3])[..., None])[..., 0]
    distances: Array = np.linalg.norm(np.maximum(np.abs(inside) - 0.5 * np.array(SIZE), 0.0), axis=-1)
    return distances


def leak(setup: Experiment, film: simulation.Film, samples: int = 50) -> float:
    """Effect of the posture alone on box and hands, relative to its effect on the joints.

    Under the posture's torques N^T M a₀, with N the null space of everything above it, the closed chain accelerates by
    N a₀.
    """
    robot, controller = setup.robot, setup.controller
    frames = ["box", *HANDS]
    free, bare = (
        control.OperationalSpace(
            robot, *controller.levels, posture=posture, constraints=setup.held, squeeze={"box": SQUEEZE}
        )
        for posture in (controller.posture, control.Posture(setup.start, kp=0.0, kd=1e-9))
    )
    at = np.linspace(0, len(film.time) - 1, samples).astype(int)
    q, v = film.q[at], film.v[at]
    targets = {name: way(film.time[at]) for name, way in setup.ways.items()}
    taus = [each(q, v, targets).tau for each in (free, bare)]
    with_, without = (robot.constrained_dynamics(q, v, tau, setup.held).acceleration for tau in taus)
    moved = with_ - without
    J = robot.jacobian(q, frames, "local_world_aligned")
    felt = (J * moved[:, None, None, :]).sum(axis=-1)
    return float(np.abs(felt).max() / np.abs(moved).max())


def _rate(setup: Experiment, film: simulation.Film) -> float:
    """Commands per second, the best of several runs."""
    middle = len(film.time) // 2
    q, v = film.q[middle], film.v[middle]
    target = {name: way(film.time[middle]) for name, way in setup.ways.items()}
    commands: list[Any] = film.commands
    state, best = commands[middle - 1].state, np.inf
    for _ in range(50):
        begun = time.perf_counter()
        setup.controller(q, v, target, state=state)
        best = min(best, time.perf_counter() - begun)
    return 1.0 / best


#: How far the box may be from its spline [mm].
_TRACKING = {"friction": 1.0, "welded": 0.2, "free": 0.2}


def bounds(stance: str, found: Figures) -> list[tuple[str, str, bool, str]]:
    """What each figure is, its value, whether it is good, and what it has to be."""
    below = [
        ("box from its spline, at most", found.tracking, "{:.3f} mm", _TRACKING[stance]),
        ("where the spline ends", found.final_error, "{:.4f} mm", 0.1),
        ("posture felt by box and hands", found.posture_leak, "{:.0e}", 1e-10),
        ("waist beyond its limit", found.waist_overshoot, "{:.0e} rad", 1e-6),
        ("gap of what is welded", found.grip_gap, "{:.0e} m", 1e-5),
        ("feet slip", found.foot_slip, "{:.4f} mm", 0.1),
        ("box above the floor, released", found.box_height, "{:.4f} mm", 0.01),
        ("and its speed", found.box_speed, "{:.4f} mm/s", 0.01),
    ]
    rows = [(what, form.format(value), value < most, f"below {form.format(most)}") for what, value, form, most in below]
    for what, value, least in (
        ("head from the box, at least", found.head_clearance, 20.0),
        ("hands from the box, released", found.hand_clearance, 50.0),
    ):
        rows.append((what, f"{value:.0f} mm", value > least, f"above {least:.0f} mm"))
    return rows


def report(console: Console, stance: str, found: Figures) -> bool:
    """Print the figures with their bounds; returns whether all are met."""
    rows = bounds(stance, found)
    for what, value, good, limit in rows:
        console.print(f"  {what:32}{value:>14}   {'' if good else 'NOT '}{limit}")
    low, high = found.squeeze
    console.print(f"  {'hands press with':32}{f'{low:.1f}–{high:.1f} N':>14}   commanded {SQUEEZE:.0f} N")
    torque = f"{found.largest_torque:.0f} N m"
    console.print(f"  {'largest torque':32}{torque:>14}   {found.largest_torque_joint}")
    console.print(f"  {'a joint is at its limit':32}{f'{100.0 * found.limited:.0f} %':>14}   of the time")
    rate = f"{found.servo_rate:.0f} Hz"
    console.print(f"  {'controller on this machine':32}{rate:>14}   the paper: {SERVO:.0f} Hz")
    return all(good for _, _, good, _ in rows)


def main(
    console: Console,
    picture: Path | None = None,
    film_path: Path | None = None,
    view: bool = False,
    as_json: bool = False,
    stance: str = "friction",
) -> bool:
    """Run, report and draw the experiment; returns whether all figures are within their bounds."""
    setup = experiment(stance)
    console = Console(quiet=True) if as_json else console
    console.print("A humanoid of 24 joints puts a box on the floor with both hands (Chang and Khatib, 2001)")
    with ExitStack() as stack:
        page = stack.enter_context(kt.viewer.View(setup.robot)) if view else None
        motion = _timed(setup) if page is None else watched(setup, page)
        found = figures(setup, motion)
        good = report(console, stance, found)
        if as_json:
            print(json.dumps(asdict(found)), flush=True)
        if picture is not None:
            draw(picture, setup.robot, setup.way, motion, SIZE, HEAD[0])
            console.print(f"  {safe(picture)}")
        if film_path is not None:
            with bar("drawing", 1.0) as done:
                forces = _forces(setup, motion)
                times = motion.time + 1e-9 * (motion.time >= motion.down.time[-1]).cumsum()  # its end is said twice
                kt.viewer.film(film_path, setup.robot, motion.q, times, forces=forces, progress=done)
            console.print(f"  {safe(film_path)}")
        if page is not None:
            stay(page)
    return good


def _forces(setup: Experiment, motion: Motion) -> dict[str, Array]:
    """Wrenches on the hands, transformed from the box's axes to their own; none after the release."""
    found, film = {}, motion.down
    box = setup.robot.pose(film.q, "box")[:, :3, :3]
    for hand in HANDS:
        turn = np.swapaxes(setup.robot.pose(film.q, hand)[:, :3, :3], -1, -2) @ box
        moment, force = np.split(film.constraint_forces[hand], 2, axis=-1)
        wrench = np.concatenate([(turn @ each[..., None])[..., 0] for each in (moment, force)], axis=-1)
        found[hand] = np.concatenate([wrench, np.zeros((len(motion.away.time), 6))])
    return found


def _timed(setup: Experiment) -> Motion:
    """Run, and show on a terminal how much of it is done. The first command takes longest: it compiles."""
    with bar("simulating", SECONDS + 2.0 * HOLD + LEAVE) as done:
        return run(setup, watch=lambda now, *_: done(now))


def watched(setup: Experiment, view: Any) -> Motion:
    """Run while a browser shows it, roughly in real time. It starts when the page is open."""
    typer.echo(f"  {view.url} (starts when a browser shows it; stop with Ctrl-C)", err=True)
    while not view.watched:
        time.sleep(_LOOK)
    begun: list[float] = []
    shown = -np.inf

    def show(now: float, q: Array, *_: Any) -> None:
        nonlocal shown
        begun[:] = begun or [time.perf_counter()]  # the first command compiles
        if now - shown >= _FRAME:
            shown = now
            time.sleep(max(0.0, now - (time.perf_counter() - begun[0])))
            view.show(q)

    return run(setup, watch=show)


def stay(view: Any) -> None:
    """Keep the page until it is closed."""
    typer.echo("  the page stays until you close it (or Ctrl-C)", err=True)
    with suppress(KeyboardInterrupt):  # the usual end
        while view.watched:
            time.sleep(_LOOK)
