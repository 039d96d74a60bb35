"""Mechanical quantities drawn over the robot: forces, contacts, nearest points, effective inertias, the centre of mass.

Nodes are created when first needed and only modified afterwards: a film moves handles, it does not replace nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model import mesh_formats
from kinetree.model.distances import Distances, NearestDistances
from kinetree.model.mesh_formats import Color
from kinetree.simulation.step_results import FoundContacts
from kinetree.spatial.rotation import quaternion_of
from kinetree.spatial.value import Array
from kinetree.tasks.task_types import Task
from kinetree.viewer.scene import Scene

_GREEN: Color = (0.31, 0.70, 0.35, 0.4)
_RED, _VIOLET = (215, 50, 45), (130, 70, 180)
_BLACK: Color = (0.12, 0.12, 0.14, 1.0)

# Radius of the ellipsoid for an effective mass of 1 kg, relative to the robot's size. It grows with √mass.
_PER_ROOT_KILOGRAM = 0.05

# Largest radius of an ellipsoid, relative to the robot's size: inertia is infinite in directions without motion.
_LONGEST = 0.5

# Length of an arrow for the robot's own weight, relative to its size.
_WEIGHT = 0.5


def floats(value: Any, problem: str) -> Array:
    """An argument as an array of its own; an error states the problem if it is none."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(problem) from None


class Overlays:
    """Forces, ellipsoids of Λ and the centre of mass, drawn into a scene; arrows have a length in m/N."""

    def __init__(self, scene: Scene, force_scale: float | None = None) -> None:
        self.scene = scene
        weight = scene.robot.mass * 9.81
        self.force_scale = force_scale or (_WEIGHT * scene.size / weight if weight > 0.0 else 0.01 * scene.size)
        self._ellipsoids: dict[str, tuple[Any, Any]] = {}
        self._arrows: dict[str, tuple[Any, Any]] = {}
        self._center: tuple[Any, Any] | None = None
        self._contacts: tuple[Any, Any] | None = None
        self._distances: Any = None

    def ellipsoids(self, q: Array, poses: Mapping[str, Array], frames: Iterable[str]) -> None:
        """Draw Λ of the positions of the given frames, and hide the ellipsoids of all others.

        The radius along a direction is proportional to √(effective mass in that direction).
        """
        wanted = list(frames)
        for name in wanted:
            self.scene.robot.site(name)  # raises for unknown names
            if name not in self._ellipsoids:
                task = Task(name, "position")
                function = self.scene.robot.tasks([task], reference="local_world_aligned").inverse_inertia
                function(q)  # any error is raised before anything is drawn
                unit = mesh_formats.ellipsoid((1.0, 1.0, 1.0))
                path = f"/inertia felt at/{len(self._ellipsoids)}"
                self._ellipsoids[name] = self.scene.mesh(path, unit, _GREEN), function
        for name, (handle, function) in self._ellipsoids.items():
            mobility: Array = function(q) if name in wanted else np.full((3, 3), np.nan)
            handle.visible = bool(np.all(np.isfinite(mobility)))
            if handle.visible:
                axes, radii = self._shape(mobility)
                handle.position, handle.wxyz, handle.scale = poses[name][:3, 3], quaternion_of(axes), tuple(radii)

    def _shape(self, mobility: Array) -> tuple[Array, Array]:
        """Axes, as columns, and semi-axes of the ellipsoid of Λ from Λ⁻¹, (3, 3)."""
        values, axes = np.linalg.eigh(mobility)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] = -axes[:, 0]
        longest = _LONGEST * self.scene.size
        shortest_value = (_PER_ROOT_KILOGRAM * self.scene.size / longest) ** 2
        radii = _PER_ROOT_KILOGRAM * self.scene.size / np.sqrt(np.maximum(values, shortest_value))
        return axes, np.minimum(radii, longest)

    def forces(self, poses: Mapping[str, Array], forces: Mapping[str, Any]) -> None:
        """Draw forces (red) and moments (violet), given as for `View.show`, and hide those at all other frames."""
        checked = {name: self._wrench(name, value) for name, value in forces.items()}
        for name in checked:
            if name not in self._arrows:
                self._arrows[name] = (
                    self._arrow(f"{len(self._arrows)}", _RED),
                    self._arrow(f"moment {len(self._arrows)}", _VIOLET),
                )
        for name, (force, moment) in self._arrows.items():
            wrench = checked.get(name, np.zeros(6))
            for handle, vector in ((force, wrench[3:]), (moment, wrench[:3])):
                handle.visible = bool(np.any(vector != 0.0) and np.all(np.isfinite(vector)))
                if handle.visible:
                    at = poses[name][:3, 3]
                    end = at + self.force_scale * poses[name][:3, :3] @ vector
                    handle.points = np.array([[at, end]], dtype=np.float32)

    def _wrench(self, name: str, value: Any) -> Array:
        self.scene.robot.site(name)
        vector = floats(value, f"the force at {name!r} is not made of numbers")
        if vector.shape not in ((3,), (6,)):
            raise InputError(
                f"the force at {name!r} has shape {vector.shape}; pass a force (3,) or a wrench, moment first, (6,)"
            )
        return np.concatenate([np.zeros(6 - len(vector)), vector])

    def _arrow(self, name: str, color: tuple[int, int, int]) -> Any:
        thickness = 0.008 * self.scene.size
        return self.scene.server.scene.add_arrows(
            f"/forces/{name}",
            np.zeros((1, 2, 3), dtype=np.float32),
            color,
            shaft_radius=thickness,
            head_radius=2.5 * thickness,
            head_length=5.0 * thickness,
        )

    def contacts(self, found: Any) -> None:
        """Draw the points of contacts (black) and forces on the first body of each (red), or hide all of them."""
        if found is None and self._contacts is None:
            return
        if self._contacts is None:
            size, nothing = 0.02 * self.scene.size, np.zeros((1, 3), dtype=np.float32)
            cloud = self.scene.server.scene.add_point_cloud(
                "/contacts/points", nothing, (30, 30, 35), point_size=size, point_shape="circle", precision="float32"
            )
            self._contacts = cloud, self._arrow("contacts", _RED)
        used = np.zeros(0, dtype=int)
        if found is not None:
            used = np.flatnonzero((found.pair >= 0) & np.isfinite(found.force).all(axis=-1))
        for handle in self._contacts:
            handle.visible = bool(len(used))
        if len(used):
            points, ends = found.point[used], found.point[used] + self.force_scale * found.force[used]
            self._contacts[0].points = points.astype(np.float32)
            self._contacts[1].points = np.stack([points, ends], axis=1).astype(np.float32)

    def distances(self, near: Any) -> None:
        """Draw lines between the nearest points of pairs of shapes (violet), or hide them."""
        if near is None and self._distances is None:
            return
        if self._distances is None:
            self._distances = self.scene.server.scene.add_line_segments(
                "/distances", np.zeros((1, 2, 3), dtype=np.float32), _VIOLET, thickness=0.006 * self.scene.size
            )
        lines = np.zeros((0, 2, 3)) if near is None else near.points[np.isfinite(near.distance)]
        self._distances.visible = bool(len(lines))
        if len(lines):
            self._distances.points = lines.astype(np.float32)

    def center_of_mass(self, q: Array, shown: bool) -> None:
        """Draw the centre of mass and its projection onto the floor, or hide both."""
        if self._center is None:
            if not shown:
                return
            self.scene.robot.center_of_mass(q)  # any error is raised before anything is drawn
            radius = 0.018 * self.scene.size
            ball = self.scene.mesh("/center of mass/ball", mesh_formats.ellipsoid((radius, radius, radius)), _BLACK)
            flat = mesh_formats.ellipsoid((radius, radius, 0.1 * radius))
            self._center = ball, self.scene.mesh("/center of mass/floor", flat, _BLACK)
        ball, floor = self._center
        center = np.asarray(self.scene.robot.center_of_mass(q)) if shown else np.full(3, np.nan)
        ball.visible = floor.visible = bool(np.all(np.isfinite(center)))
        if ball.visible:
            up = self.scene.up
            ball.position = center
            floor.position = center - (center @ up) * up
            floor.wxyz = quaternion_of(self.scene.floor)


def draw(
    scene: Scene,
    overlays: Overlays,
    q: Array,
    ellipsoids: Iterable[str],
    forces: Mapping[str, Any],
    center_of_mass: bool,
    contacts: Any = None,
    distances: Any = None,
) -> None:
    """One picture: the robot at a configuration with all overlays, which the browser shows at once."""
    with scene.server.atomic():
        poses = scene.show(q)
        overlays.ellipsoids(q, poses, ellipsoids)
        overlays.forces(poses, forces)
        overlays.center_of_mass(q, center_of_mass)
        overlays.contacts(contacts)
        overlays.distances(distances)


def checked_contacts(contacts: Any, axes: int = 0) -> Any:
    """Contacts of a step, `info.contacts`, of one state or along some axes; None if there are none."""
    if contacts is not None and (not isinstance(contacts, FoundContacts) or contacts.pair.ndim != 1 + axes):
        what = "of one state" if not axes else "of all samples of the motion"
        raise InputError(f'contacts are info.contacts {what}, from a Simulator with contacts="discover"')
    return contacts


def checked_distances(distances: Any, axes: int = 0) -> Any:
    """Distances at one configuration, or along some axes; None if there are none."""
    kinds = Distances, NearestDistances
    if distances is not None and (not isinstance(distances, kinds) or distances.distance.ndim != 1 + axes):
        where = "at one configuration" if not axes else "at all samples of the motion"
        raise InputError(f"distances are robot.distances(q, pairs) {where}, or its nearest(…)")
    return distances
