"""A robot in a browser: nodes that are created once and move with its bodies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from kinetree.errors import KinetreeError, ModelWarning
from kinetree.model import mesh_formats
from kinetree.model.mesh_formats import Color, Mesh, Visual
from kinetree.model.model import Model
from kinetree.model.shapes import SolidShape
from kinetree.spatial.rotation import alignment, quaternion_of
from kinetree.spatial.value import Array
from kinetree.viewer import files

_GOLD: Color = (0.94, 0.78, 0.31, 0.45)
_BLUE: Color = (0.16, 0.48, 0.82, 0.35)
_GREY: Color = (0.72, 0.74, 0.77, 1.0)
_PALE: Color = (0.8, 0.81, 0.83, 0.2)
_PLAIN: Color = (0.72, 0.74, 0.77, 1.0)

# From where the camera looks, in axes of the floor; its field of view [rad], and the part of it that a robot fills.
_VIEWPOINT, _FIELD, _FILLED = np.array([1.1, -0.8, 0.4]), 0.8, 0.8

_DIRECTIONS = np.array([direction for direction in product((-1.0, 0.0, 1.0), repeat=3) if any(direction)])

# How many problems a warning tells.
_TOLD = 2

#: Layers that can be shown or hidden as a whole.
LAYERS = ("visuals", "skeleton", "shapes", "inertias", "frames", "surroundings")


class Scene:
    """The bodies of a robot as viser nodes, and what stands around it.

    Bodies are drawn with their visuals; those without are drawn as capsules along their links.
    """

    def __init__(
        self, server: Any, robot: Model, visuals: Sequence[Visual] = (), around: Iterable[SolidShape] = ()
    ) -> None:
        self.server, self.robot = server, robot
        self.size = files.size(robot, robot.pose(robot.neutral()))  # [m]
        gravity = float(np.linalg.norm(robot.gravity))
        self.up: Array = -robot.gravity / gravity if gravity > 0.0 else np.array([0.0, 0.0, 1.0])
        self.floor = alignment(self.up)  # rotation whose z column is up
        self.layers: dict[str, list[Any]] = {name: [] for name in LAYERS}
        self._objects: list[Any] = []  # free objects that look like their shapes
        self._shown = dict.fromkeys(LAYERS, True) | {"shapes": False}
        self._corners: dict[str, list[Array]] = {}
        self._names = {"world": "/world"}
        self._names |= {body.name: f"/robot/{i} {_plain(body.name)}" for i, body in enumerate(robot.bodies)}
        self._nodes = {name: server.scene.add_frame(path, show_axes=False) for name, path in self._names.items()}
        drawn = self._draw_visuals(visuals)
        self._draw_skeleton(drawn)
        self._draw_inertias()
        self._draw_frames()
        self._draw_floor()
        self._draw_solids("surroundings", ((shape, "world", shape.pose) for shape in around))
        self.show_layer("inertias", False)
        self.show_layer("frames", False)
        self.show(robot.neutral())

    def show(self, q: Array) -> dict[str, Array]:
        """Move the bodies to a configuration, (nq,); returns the pose of each frame, (4, 4)."""
        placed: Array = self.robot.pose(q)
        turns = quaternion_of(placed[:, :3, :3])
        by_name = dict(zip(self.robot.frames, placed))
        with self.server.atomic():
            for name, pose, turn in zip(self.robot.frames, placed, turns):
                if name in self._nodes:
                    self._nodes[name].position, self._nodes[name].wxyz = pose[:3, 3], turn
        return by_name

    def corners(self, q: Array) -> Array:
        """Outermost points of the robot as drawn, (…, 3), at configurations, (…, nq)."""
        placed = dict(zip(self.robot.frames, np.moveaxis(self.robot.pose(q), -3, 0)))
        found = [
            np.concatenate(own) @ np.swapaxes(placed[name][..., :3, :3], -1, -2) + placed[name][..., None, :3, 3]
            for name, own in self._corners.items()
            if name != "world"
        ]
        return np.concatenate(found, axis=-2).reshape(-1, 3) if found else np.zeros((1, 3))

    def standing(self) -> Array:
        """The first keyframe; else the neutral configuration, with a floating robot moved onto the floor, (nq,)."""
        for q in self.robot.keyframes.values():
            return q
        q = self.robot.neutral()
        height = float(np.min(self.corners(q) @ self.up))
        for joint in self.robot.joints:
            if joint.kind == "floating" and joint.parent == "world":
                q[joint.q_slice][:3] -= height * joint.placement[:3, :3].T @ self.up
        return q

    def aim(self, q: Array) -> None:
        """Point the initial camera so that the whole robot is visible at configurations, (…, nq)."""
        corners = self.corners(q)
        back = self.floor @ (_VIEWPOINT / np.linalg.norm(_VIEWPOINT))  # towards the camera
        right = np.cross(self.up, back)
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(back, right), back])
        seen = corners @ axes.T
        middle = (seen.min(axis=0) + seen.max(axis=0)) / 2.0
        # from this far, every corner is within the middle part of the picture, whichever of its sides is shorter
        off = np.abs(seen - middle)
        distances = off[:, :2].max(axis=1) / (_FILLED * np.tan(_FIELD / 2.0)) + (seen - middle)[:, 2]
        away = max(float(distances.max()), 0.3 * self.size)
        camera = self.server.initial_camera
        camera.fov = _FIELD
        camera.look_at = tuple(middle @ axes)
        camera.position = tuple(middle @ axes + away * back)

    def show_layer(self, layer: str, shown: bool) -> None:
        """Show or hide one of `LAYERS`. Shapes are made when they are first shown, since some are files to read."""
        with self.server.atomic():
            if layer == "shapes" and shown and not self.layers["shapes"]:
                self._draw_solids("shapes", files.placed_shapes(self.robot))
            self._shown[layer] = shown
            for handle in self.layers[layer]:
                handle.visible = shown
            for handle in self._objects if layer in ("visuals", "shapes") else ():
                handle.visible = self._shown["visuals"] and not self._shown["shapes"]  # or contacts would be inside

    def mesh(self, path: str, mesh: Mesh, color: Color, placement: Array | None = None) -> Any:
        """Add a mesh as a node at the given path."""
        red, green, blue, opacity = color
        place = np.eye(4) if placement is None else placement
        return self.server.scene.add_mesh_simple(
            path,
            mesh.vertices.astype(np.float32),
            mesh.faces.astype(np.uint32),
            color=(round(255 * red), round(255 * green), round(255 * blue)),
            opacity=None if opacity >= 1.0 else opacity,
            flat_shading=not mesh.smooth,
            side="double",  # exporters disagree on which side is the outside
            wxyz=quaternion_of(place[:3, :3]),
            position=place[:3, 3],
        )

    def _draw_visuals(self, visuals: Sequence[Visual]) -> set[str]:
        """Draw the visuals of the file; returns the bodies that have any."""
        drawn: set[str] = set()
        for i, visual in enumerate(visuals):
            body = visual.body
            if body == "world" and "world_link" in self._names:
                body = "world_link"  # the loader's name for a moving link "world"
            if body in self._names:  # otherwise it belongs to a part that was not loaded
                path = f"{self._names[body]}/visual {i}"
                handle = self.mesh(path, visual.mesh, visual.color or _PLAIN, visual.placement)
                self.layers["visuals"].append(handle)
                self._note(body, visual.mesh, visual.placement)
                drawn.add(body)
        return drawn

    def _draw_skeleton(self, drawn: set[str]) -> None:
        """Draw capsules; those of bodies with visuals appear only in the skeleton layer."""
        colors = files.branch_colors(self.robot)
        free = files.objects(self.robot, self.size)
        for name, meshes in files.capsules(self.robot, self.size).items():
            for i, mesh in enumerate(meshes):
                handle = self.mesh(f"{self._names[name]}/link {i}", mesh, colors[name])
                self.layers["skeleton" if name in drawn else "visuals"].append(handle)
                if name not in drawn:
                    self._note(name, mesh, np.eye(4))
                    self._objects += [handle] if name in free else []
        self.show_layer("skeleton", False)

    def _draw_solids(self, layer: str, shapes: Iterable[tuple[SolidShape, str, Array]]) -> None:
        """Draw shapes on their bodies: those of the robot in blue, those that do not move in grey."""
        faces, problems = 0, []
        for i, (shape, body, at) in enumerate(shapes):
            try:
                mesh = files.solid(shape, self.size)
            except KinetreeError as error:
                problems.append(str(error))
                continue
            faces += len(mesh.faces)
            if faces > files.MOST_FACES:
                problems.insert(0, f"more than {files.MOST_FACES} triangles; shape {shape.name!r} and later ones")
                break
            fixed = _PALE if shape.kind == "plane" else _GREY
            color = fixed if body == "world" else _BLUE
            self.layers[layer].append(self.mesh(f"{self._names[body]}/{layer} {i}", mesh, color, at))
        if problems:
            told = list(dict.fromkeys(problems))
            more = f"; … ({len(told)} in all)" if len(told) > _TOLD else ""
            warnings.warn(f"shapes are not drawn: {'; '.join(told[:_TOLD])}{more}", ModelWarning, stacklevel=2)

    def _draw_inertias(self) -> None:
        for body in self.robot.bodies:
            found = files.inertia_ellipsoid(body)
            if found is None:
                continue
            axes, semi_axes = found
            placement = np.eye(4)
            placement[:3, :3], placement[:3, 3] = axes, body.com
            mesh = mesh_formats.ellipsoid(tuple(semi_axes))
            self.layers["inertias"].append(self.mesh(f"{self._names[body.name]}/inertia", mesh, _GOLD, placement))

    def _draw_frames(self) -> None:
        length = 0.06 * self.size
        style = {"axes_length": length, "axes_radius": 0.06 * length}
        for body in self.robot.bodies:
            path = f"{self._names[body.name]}/axes"
            self.layers["frames"].append(self.server.scene.add_frame(path, **style))
        for frame in self.robot.extra_frames:
            path = f"{self._names[frame.body]}/frame {_plain(frame.name)}"
            at = frame.placement
            self.layers["frames"].append(
                self.server.scene.add_frame(path, **style, wxyz=quaternion_of(at[:3, :3]), position=at[:3, 3])
            )

    def _note(self, body: str, mesh: Mesh, placement: Array) -> None:
        """Store the outermost vertices of a mesh along the body's axes and halfway between them."""
        placed = mesh.vertices @ placement[:3, :3].T + placement[:3, 3]
        outermost = np.unique([np.argmax(placed @ direction) for direction in _DIRECTIONS])
        self._corners.setdefault(body, []).append(placed[outermost])

    def _draw_floor(self) -> None:
        """Draw a grid perpendicular to gravity, through the world's origin, or below a robot that hangs there."""
        cell = 10.0 ** np.floor(np.log10(self.size)) / 2.0
        free = any(joint.kind == "floating" and joint.parent == "world" for joint in self.robot.joints)
        height = 0.0 if free else min(0.0, float(np.min(self.corners(self.standing()) @ self.up)))
        self.server.scene.set_up_direction(tuple(self.up))
        self.server.scene.add_grid(
            "/floor",
            width=5.0 * self.size,
            height=5.0 * self.size,
            cell_size=cell,
            section_size=2.0 * cell,
            cell_color=(225, 225, 228),
            section_color=(190, 190, 195),
            shadow_opacity=0.25,
            wxyz=quaternion_of(self.floor),
            position=height * self.up,
        )


def _plain(name: str) -> str:
    """A name as a single component of a path."""
    return name.replace("/", "∕")[:80]
