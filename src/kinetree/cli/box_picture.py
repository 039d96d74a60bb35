"""The picture of the box experiment: Figures 5 and 6 of the paper, the motion and the position of the augmented object.

Below them, what the paper does not show: the error, some joints and the torques.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

import kinetree as kt
from kinetree import control
from kinetree.spatial.value import Array


class Motion(Protocol):
    """What happened: times, (T,) [s], configurations, (T, nq), and torques, (T, nv)."""

    @property
    def time(self) -> Array: ...

    @property
    def q(self) -> Array: ...

    @property
    def tau(self) -> Array: ...

    @property
    def released(self) -> float:
        """When the hands let go of the box [s]."""


_BLACK, _BROWN, _GREY = "#222222", "#8c5a2b", "#9a9a9a"
#: Colours that can be told apart in print and by eyes that confuse red and green: of left and right limbs, of x, y, z.
_LEFT, _RIGHT = "#0072b2", "#d55e00"
_XYZ = (_RIGHT, "#009e73", _LEFT)
_SHOWN = {
    "left_knee": "left knee",
    "left_hip_pitch": "left hip",
    "waist_pitch": "waist",
    "left_shoulder_pitch": "left shoulder",
    "left_elbow": "left elbow",
}
_LINES = ("#0072b2", "#009e73", _BLACK, "#cc79a7", "#e69f00")
#: Frames connected by lines, and the lines' colour.
_LIMBS = (
    (("right_foot", "right_ankle_pitch_link", "right_knee_link", "right_hip_pitch_link", "right_hip_yaw_link"), _RIGHT),
    (
        ("right_hip_yaw_link", "left_hip_yaw_link", "left_hip_pitch_link", "left_knee_link", "left_ankle_pitch_link",
         "left_foot"),
        _LEFT,
    ),
    (("right_hip_yaw_link", "waist_yaw_link", "waist_pitch_link"), _BLACK),
)  # fmt: skip
_ARM = ("shoulder_pitch_link", "shoulder_yaw_link", "elbow_link", "wrist_link", "hand")
_EDGES = ((0, 1), (0, 2), (0, 4), (3, 1), (3, 2), (3, 7), (5, 1), (5, 4), (5, 7), (6, 2), (6, 4), (6, 7))
_NECK = 0.42  # above the waist [m]
_PICTURES = 6
_STYLE: Any = {
    "font.size": 9.0, "axes.titlesize": 10.0, "axes.labelsize": 9.0, "axes.linewidth": 0.8, "lines.linewidth": 1.3,
    "axes.spines.top": False, "axes.spines.right": False,
    "legend.fontsize": 8.0, "legend.frameon": False, "legend.handlelength": 1.4, "legend.columnspacing": 1.0,
}  # fmt: skip


def draw(path: Path, robot: kt.Model, way: control.Path, motion: Motion, size: Any, head: float) -> None:
    """Draw the figures into a file; edges of the box, and the height of the head above the waist, are in metres."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(12.0, 6.2))
        FigureCanvasAgg(figure)
        wide = 1.0 / _PICTURES
        for i, now in enumerate(np.linspace(0.0, motion.time[-1], _PICTURES)):
            axes: Any = figure.add_axes((i * wide - 0.45 * wide, 0.44, 1.8 * wide, 0.62), projection="3d")
            _posture(axes, robot, motion.q[int(np.argmin(np.abs(motion.time - now)))], size, head)
            figure.text((i + 0.5) * wide, 0.485, f"{now:.1f} s", ha="center", fontsize=10.0)
        grid = figure.add_gridspec(1, 4, left=0.05, right=0.99, bottom=0.085, top=0.42, wspace=0.3)
        panels = [figure.add_subplot(grid[0, i]) for i in range(4)]
        _position(panels[0], robot, way, motion)
        _error(panels[1], robot, way, motion)
        _joints(panels[2], robot, motion)
        _torques(panels[3], robot, motion)
        for panel in panels:
            panel.set_xlabel("time [s]")
            panel.set_xlim(0.0, motion.time[-1])
            panel.axvline(motion.released, color=_GREY, linewidth=0.8, linestyle=":")
        figure.savefig(path, dpi=150)


def _posture(axes: Any, robot: kt.Model, q: Array, size: Any, top: float) -> None:
    """Figure 5: the robot, drawn as lines between its joints, and the box."""
    pose = dict(zip(robot.frames, robot.pose(q), strict=True))

    def line(points: list[Array], colour: str) -> None:
        axes.plot(*np.array(points).T, "-", color=colour, linewidth=2.4, solid_capstyle="round")

    for frames, colour in _LIMBS:
        line([pose[frame][:3, 3] for frame in frames], colour)
    neck, head = ((pose["waist_pitch_link"] @ [0.0, 0.0, height, 1.0])[:3] for height in (_NECK, top))
    line([pose["waist_pitch_link"][:3, 3], neck, head], _BLACK)
    axes.scatter(*head, s=70, color=_BLACK)
    for side, colour in (("left", _LEFT), ("right", _RIGHT)):
        line([neck, *(pose[f"{side}_{part}"][:3, 3] for part in _ARM)], colour)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * 0.5 * np.array(size)
    corners = corners @ pose["box"][:3, :3].T + pose["box"][:3, 3]
    for edge in _EDGES:
        axes.plot(*corners[list(edge)].T, color=_BROWN, linewidth=1.2)
    ground = np.meshgrid([-0.35, 0.75], [-0.35, 0.55])
    axes.plot_surface(*ground, np.zeros((2, 2)), alpha=0.15, color=_GREY)
    axes.set(xlim=(-0.45, 0.75), ylim=(-0.5, 0.7), zlim=(-0.1, 1.75))
    axes.set_axis_off()
    axes.patch.set_alpha(0.0)  # neighbours overlap
    axes.set_box_aspect((1.2, 1.2, 1.85), zoom=0.95)
    axes.view_init(10.0, -66.0)


def _position(axes: Any, robot: kt.Model, way: control.Path, motion: Motion) -> None:
    """Figure 6: actual and desired position of the box."""
    box, wanted = robot.pose(motion.q, "box")[:, :3, 3], way(motion.time).position
    for i, name in enumerate("xyz"):
        axes.plot(motion.time, box[:, i], color=_XYZ[i], label=name)
        axes.plot(motion.time, wanted[:, i], "--", color=_BLACK, linewidth=0.7, label="spline" if i == 2 else None)
    axes.set(title="Position of the box", ylabel="[m]", ylim=(0.0, 1.25))
    axes.legend(loc="upper right", ncols=2)


def _error(axes: Any, robot: kt.Model, way: control.Path, motion: Motion) -> None:
    off = 1e3 * (robot.pose(motion.q, "box")[:, :3, 3] - way(motion.time).position)
    for i, name in enumerate("xyz"):
        axes.plot(motion.time, off[:, i], color=_XYZ[i], label=name)
    axes.set(title="Distance from the spline", ylabel="[mm]")
    axes.margins(y=0.25)
    axes.legend(loc="upper right", ncols=3)


def _joints(axes: Any, robot: kt.Model, motion: Motion) -> None:
    for (name, label), colour in zip(_SHOWN.items(), _LINES, strict=True):
        axes.plot(motion.time, motion.q[:, robot.joint(name).q_start], color=colour, label=label)
    axes.axhline(robot.joint("waist_pitch").limits.upper[0], color=_BLACK, linewidth=0.8, linestyle=":")
    axes.set(title="Joints, and the waist's limit", ylabel="[rad]", ylim=(-4.2, 1.5))
    axes.legend(loc="lower left", ncols=2)


def _torques(axes: Any, robot: kt.Model, motion: Motion) -> None:
    """The largest torques of legs, waist and arms."""
    groups = {"legs": ("ankle", "knee", "hip"), "waist": ("waist",), "arms": ("shoulder", "elbow", "wrist")}
    for (group, parts), colour in zip(groups.items(), (_LEFT, _BLACK, "#e69f00"), strict=True):
        columns = [
            joint.v_start for joint in robot.joints if joint.nv == 1 and any(part in joint.name for part in parts)
        ]
        axes.plot(motion.time, np.abs(motion.tau[:, columns]).max(axis=1), color=colour, label=group)
    axes.set(title="Largest torques", ylabel="[N m]")
    axes.margins(y=0.25)
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper right", ncols=3)
