"""Figures 5 and 6 of the box experiment in a single image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from kinetree import control, simulation
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
    """Write the image.

    Args:
        path: Path of the file.
        robot: Humanoid and box.
        way: Path of the box.
        film: The motion.
        size: Edge lengths of the box [m].
    """
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
