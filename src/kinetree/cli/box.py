"""The experiment of [CK01]: a humanoid with 24 joints puts a box on the floor with both hands.

Its right foot is fixed to the world; the left one is welded to the world where it stands, or free. Both hands hold the
box, which closes kinematic loops. The box follows a cubic spline, the posture is controlled in the null space, and the
waist reaches its limit on the way. The picture has Figure 5 of the paper, the motion, and Figure 6, the position of the
augmented object.

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
from typing import Any

import numpy as np
import typer
from rich.console import Console

import kinetree as kt
from kinetree import control, simulation
from kinetree.cli.terminal import bar, safe
from kinetree.spatial.value import Array

#: Frames connected by lines, and the lines' colour.
_LIMBS = (
    (("world", "right_ankle_pitch_link", "right_knee_link", "right_hip_pitch_link", "right_hip_yaw_link"), "C3"),
    (
        ("right_hip_yaw_link", "left_hip_yaw_link", "left_hip_pitch_link", "left_knee_link", "left_ankle_pitch_link",
         "left_foot"),
        "C2",
    ),
    (("right_hip_yaw_link", "waist_yaw_link", "waist_pitch_link"), "k"),
)  # fmt: skip
_ARM = ("shoulder_pitch_link", "shoulder_yaw_link", "elbow_link", "wrist_link", "hand")
_EDGES = ((0, 1), (0, 2), (0, 4), (3, 1), (3, 2), (3, 7), (5, 1), (5, 4), (5, 7), (6, 2), (6, 4), (6, 7))
_SHOWN = ("right_knee", "left_knee", "waist_pitch", "right_hip_pitch", "left_shoulder_pitch", "left_elbow")


def draw(
    path: Path, robot: kt.Model, way: control.Path, film: simulation.Film, size: tuple[float, float, float]
) -> None:
    """Draw the figures for humanoid and box, whose edges have lengths `size` [m], into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 5, height_ratios=[1.3, 1.0])
    for i, now in enumerate(np.linspace(0.0, min(4.0, film.time[-1]), 5)):
        axes: Any = figure.add_subplot(grid[0, i], projection="3d")
        _figure_5(axes, robot, film.q[int(np.argmin(np.abs(film.time - now)))], size)
        axes.set_title(f"t = {now:g} s", fontsize=10)
    _figure_6(figure.add_subplot(grid[1, :2]), robot, way, film)
    _rest(figure, grid, robot, way, film)
    figure.suptitle("A humanoid puts a box on the floor: operational-space control of the augmented object")
    figure.savefig(path, dpi=90)


def _figure_5(axes: Any, robot: kt.Model, q: Array, size: tuple[float, float, float]) -> None:
    """The robot, drawn as lines between its joints."""
    pose = dict(zip(robot.frames, robot.pose(q), strict=True))

    def line(points: list[Array], colour: str) -> None:
        axes.plot(*np.array(points).T, "-o", color=colour, markersize=2.5, linewidth=2.5)

    for frames, colour in _LIMBS:
        line([pose[frame][:3, 3] for frame in frames], colour)
    neck, head = ((pose["waist_pitch_link"] @ [0.0, 0.0, height, 1.0])[:3] for height in (0.42, 0.58))
    line([pose["waist_pitch_link"][:3, 3], neck, head], "k")
    axes.scatter(*head, s=110, color="k")
    for side, colour in (("left", "C0"), ("right", "C1")):
        line([neck, *(pose[f"{side}_{part}"][:3, 3] for part in _ARM)], colour)
    half = np.array(size) / 2.0
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    corners = corners @ pose["box"][:3, :3].T + pose["box"][:3, 3]
    for edge in _EDGES:
        axes.plot(*corners[list(edge)].T, color="saddlebrown", linewidth=1.4)
    ground = np.meshgrid([-0.5, 0.8], [-0.5, 0.7])
    axes.plot_surface(*ground, np.zeros((2, 2)), alpha=0.12, color="gray")
    axes.set(xlim=(-0.45, 0.75), ylim=(-0.5, 0.7), zlim=(0.0, 1.65), xticks=[], yticks=[], zticks=[])
    axes.set_box_aspect((1.2, 1.2, 1.6), zoom=1.12)
    axes.view_init(12.0, -62.0)


def _figure_6(axes: Any, robot: kt.Model, way: control.Path, film: simulation.Film) -> None:
    """Actual and desired position of the box."""
    box, wanted = robot.pose(film.q, "box")[:, :3, 3], way(film.time).position
    for i, name in enumerate("xyz"):
        axes.plot(film.time, box[:, i], color=f"C{i}", label=name)
        axes.plot(film.time, wanted[:, i], "--", color="k", linewidth=0.8, label="spline" if i == 2 else None)
    axes.set(xlabel="time [s]", ylabel="box [m]", title="position of the augmented object")
    axes.legend(fontsize=8)


def _rest(figure: Any, grid: Any, robot: kt.Model, way: control.Path, film: simulation.Film) -> None:
    """Error, joints and torques."""
    off = 1e3 * (robot.pose(film.q, "box")[:, :3, 3] - way(film.time).position)
    error, joints, torques = (figure.add_subplot(grid[1, i]) for i in (2, 3, 4))
    for i, name in enumerate("xyz"):
        error.plot(film.time, off[:, i], label=name)
    error.set(xlabel="time [s]", title="error of the box [mm]")
    for name in _SHOWN:
        joints.plot(film.time, film.q[:, robot.joint(name).q_start], label=name.replace("_", " "))
    joints.axhline(robot.joint("waist_pitch").limits.upper[0], color="0.5", linestyle=":")
    joints.set(xlabel="time [s]", title="joints and the waist's limit [rad]")
    torques.plot(film.time, film.tau[:, : robot.nv - 6], linewidth=1.0)
    torques.set(xlabel="time [s]", title="torques of all joints [N m]")
    error.legend(fontsize=8)
    joints.legend(fontsize=6, loc="lower left")


HANDS = ("left_hand", "right_hand")
SIZE, MASS, SQUEEZE = (0.30, 0.36, 0.30), 4.0, 30.0  # [m, kg, N]
END = (0.42, 0.09, 0.15)  # the box stands on the floor [m]
SECONDS, HOLD, SERVO = 4.0, 1.0, 300.0  # [s, s, Hz]; the paper's servo rate
#: Where joints stop before their limits [rad]. At the paper's servo rate, torques are held for 3.3 ms; with a free foot
#: the waist rests up to 4e-6 rad beyond where it should; the excess is proportional to that time.
MARGIN = 1e-5
#: Time between two pictures, and between two looks at whether a browser is there [s].
_FRAME, _LOOK = 1.0 / 30.0, 0.1
#: Angles of the posture [rad]; all others are zero.
POSTURE = {
    "right_ankle_pitch": 0.25, "right_knee": -0.5, "right_hip_pitch": 0.25,
    "left_hip_pitch": -0.25, "left_knee": 0.5, "left_ankle_pitch": -0.25,
    "left_shoulder_pitch": -0.3, "right_shoulder_pitch": -0.3, "left_elbow": -0.6, "right_elbow": -0.6,
    "left_shoulder_roll": -0.08, "right_shoulder_roll": 0.08,
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """Results of the experiment."""

    tracking: float  # largest distance of the box from the spline [mm]
    final_error: float  # distance at the end [mm]
    posture_leak: float  # largest acceleration of box and hands caused by the posture, relative to the joints'
    waist_overshoot: float  # how far the waist exceeds its limit [rad]
    limited: float  # fraction of the time in which a joint is at a limit
    grip_gap: float  # largest error of the grasps and of the left foot [m or rad]
    squeeze: tuple[float, float]  # least and largest force between the hands [N]
    largest_torque: float  # largest joint torque [N m]
    largest_torque_joint: str  # the joint at which it occurs
    servo_rate: float  # rate at which the controller could run on this machine [Hz]; the paper's ran at 300


@dataclass(frozen=True)
class Experiment:
    """The scene, the controller and the simulator."""

    robot: kt.Model  # humanoid and box
    start: Array  # initial configuration, (31,)
    way: control.Path  # path of the box
    held: tuple[kt.Weld, ...]  # grasps, and the left foot unless it is free
    controller: control.OperationalSpace
    world: simulation.Simulator


def experiment(free_foot: bool = False, seconds: float = SECONDS, dt: float = 1e-3) -> Experiment:
    """The experiment with the paper's rates; see [CK01]."""
    humanoid = kt.zoo.humanoid24()
    q = humanoid.q_from_dict(POSTURE)
    center = humanoid.pose(q, list(HANDS))[:, :3, 3].sum(axis=0) / 2.0
    robot = humanoid.attach("world", kt.zoo.box(SIZE, MASS))
    start = np.concatenate([q, center, [1.0, 0.0, 0.0, 0.0]])
    held = (*(kt.Weld(hand, "box") for hand in HANDS), *(() if free_foot else (kt.Weld("left_foot"),)))
    controller = control.OperationalSpace(
        robot,
        [control.Goal("box", kp=100.0)],
        posture=control.Posture(start, kp=25.0),
        constraints=held,
        bounds=control.Bounds(position=15.0, margin=MARGIN),
        squeeze={"box": SQUEEZE},
    )
    world = simulation.Simulator(robot, constraints=held, at=start, dt=dt)
    return Experiment(robot, start, control.cubic(center, END, seconds), held, controller, world)


def run(
    setup: Experiment, seconds: float = SECONDS + HOLD, watch: Callable[..., None] | None = None
) -> simulation.Film:
    """Lower the box."""
    return setup.world.run(setup.start, setup.controller, {"box": setup.way}, seconds=seconds, servo=SERVO, watch=watch)


def figures(setup: Experiment, film: simulation.Film) -> Figures:
    """The figures reported in the paper, and some that are not."""
    robot = setup.robot
    off = np.linalg.norm(robot.pose(film.q, "box")[:, :3, 3] - setup.way(film.time).position, axis=1)
    waist = robot.joint("waist_pitch")
    limit = waist.limits.upper[0]
    gaps = robot.constraints(setup.held, at=setup.start).error(film.q)
    # grasp wrenches are in the axes of the box, which does not rotate: its y axis points from hand to hand
    pressed = [np.abs(film.constraint_forces[hand][:, 4]) for hand in HANDS]
    largest = np.abs(film.tau).max(axis=0)
    columns = [joint.name for joint in robot.joints for _ in range(joint.nv)]
    commands: list[Any] = film.commands
    return Figures(
        tracking=1e3 * float(off.max()),
        final_error=1e3 * float(off[-1]),
        posture_leak=leak(setup, film),
        waist_overshoot=max(0.0, float(film.q[:, waist.q_start].max()) - limit),
        limited=float(np.mean([command.limited.any() for command in commands])),
        grip_gap=float(np.abs(gaps).max()),
        squeeze=(float(np.min(pressed)), float(np.max(pressed))),
        largest_torque=float(largest.max()),
        largest_torque_joint=columns[int(largest.argmax())],
        servo_rate=_rate(setup, film),
    )


def leak(setup: Experiment, film: simulation.Film, samples: int = 50) -> float:
    """Effect of the posture alone on box and hands, relative to its effect on the joints.

    Under the posture's torques N^T M a₀, with N the null space of everything above it, the closed chain accelerates by
    N a₀.
    """
    robot, controller = setup.robot, setup.controller
    frames = ["box", *HANDS]
    free, bare = (
        control.OperationalSpace(
            robot, [control.Goal("box", kp=100.0)], posture=posture, constraints=setup.held, squeeze={"box": SQUEEZE}
        )
        for posture in (controller.posture, control.Posture(setup.start, kp=0.0, kd=1e-9))
    )
    at = np.linspace(0, len(film.time) - 1, samples).astype(int)
    q, v = film.q[at], film.v[at]
    taus = [each(q, v, {"box": setup.way(film.time[at])}).tau for each in (free, bare)]
    with_, without = (robot.constrained_dynamics(q, v, tau, setup.held).acceleration for tau in taus)
    moved = with_ - without
    J = robot.jacobian(q, frames, "local_world_aligned")
    felt = (J * moved[:, None, None, :]).sum(axis=-1)
    return float(np.abs(felt).max() / np.abs(moved).max())


def _rate(setup: Experiment, film: simulation.Film) -> float:
    """Commands per second, the best of several runs."""
    middle = len(film.time) // 2
    q, v, target = film.q[middle], film.v[middle], {"box": setup.way(film.time[middle])}
    commands: list[Any] = film.commands
    state, best = commands[middle - 1].state, np.inf
    for _ in range(50):
        begun = time.perf_counter()
        setup.controller(q, v, target, state=state)
        best = min(best, time.perf_counter() - begun)
    return 1.0 / best


def report(console: Console, found: Figures) -> bool:
    """Print the figures with their bounds; returns whether all are met."""
    rows = (
        ("box from its spline, at most", f"{found.tracking:.3f} mm", found.tracking < 0.2, "0.2 mm"),
        ("at the end", f"{found.final_error:.4f} mm", found.final_error < 0.01, "0.01 mm"),
        ("posture felt by box and hands", f"{found.posture_leak:.0e}", found.posture_leak < 1e-10, "1e-10"),
        ("waist beyond its limit", f"{found.waist_overshoot:.0e} rad", found.waist_overshoot < 1e-6, "1e-6 rad"),
        ("gap of grasps and foot", f"{found.grip_gap:.0e} m", found.grip_gap < 1e-5, "1e-5 m"),
    )
    for what, value, good, limit in rows:
        console.print(f"  {what:32}{value:>14}   {'below' if good else 'NOT below'} {limit}")
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
    free_foot: bool = False,
) -> bool:
    """Run, report and draw the experiment; returns whether all figures are within their bounds."""
    setup = experiment(free_foot)
    console = Console(quiet=True) if as_json else console
    console.print("A humanoid of 24 joints puts a box on the floor with both hands (Chang and Khatib, 2001)")
    with ExitStack() as stack:
        page = stack.enter_context(kt.viewer.View(setup.robot)) if view else None
        film = _timed(setup) if page is None else watched(setup, page)
        found = figures(setup, film)
        good = report(console, found)
        if as_json:
            print(json.dumps(asdict(found)), flush=True)
        if picture is not None:
            draw(picture, setup.robot, setup.way, film, SIZE)
            console.print(f"  {safe(picture)}")
        if film_path is not None:
            kt.viewer.film(film_path, setup.robot, film.q, film.time, forces=_forces(setup, film))
            console.print(f"  {safe(film_path)}")
        if page is not None:
            stay(page)
    return good


def _forces(setup: Experiment, film: simulation.Film) -> dict[str, Array]:
    """Wrenches on the hands, transformed from the box's axes to their own."""
    found = {}
    box = setup.robot.pose(film.q, "box")[:, :3, :3]
    for hand in HANDS:
        turn = np.swapaxes(setup.robot.pose(film.q, hand)[:, :3, :3], -1, -2) @ box
        moment, force = np.split(film.constraint_forces[hand], 2, axis=-1)
        found[hand] = np.concatenate([(turn @ each[..., None])[..., 0] for each in (moment, force)], axis=-1)
    return found


def _timed(setup: Experiment) -> simulation.Film:
    """Run, and show on a terminal how much of it is done. The first command takes longest: it compiles."""
    with bar("simulating", SECONDS + HOLD) as done:
        return run(setup, watch=lambda now, *_: done(now))


def watched(setup: Experiment, view: Any) -> simulation.Film:
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
