"""A live view of a robot in a browser."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, KinetreeError, LoopError
from kinetree.model.joint import Joint
from kinetree.model.model import Model
from kinetree.spatial.value import Array
from kinetree.viewer import server as servers
from kinetree.viewer.overlays import Overlays, draw
from kinetree.viewer.scene import Scene
from kinetree.viewer.sliders import Sliders
from kinetree.viewer.visuals import read

_NO_FRAME = "none"


class View:
    """A robot in a browser on this machine, with a slider for each coordinate.

    Open `url` in a browser. Only this machine can connect, and nothing is downloaded. Initially the robot is in its
    neutral configuration; a floating robot stands on the floor, the horizontal plane through the world's origin.

        with kt.viewer.View(robot, visuals="robot.urdf") as view:
            print(view.url)
            view.show(q, ellipsoids=["hand"], forces={"hand": (0.0, 0.0, -20.0)})
            view.wait()

    Args:
        robot: The mechanism.
        visuals: The file from which it was loaded (URDF or MJCF), or the file's content, for its appearance. Without
            it, and where meshes are missing, bodies are drawn as capsules along their links.
        package_roots: Directories from which meshes may be read, besides that of the file: those that contain the
            packages of `package://` names. No mesh outside them is opened.
        port: Port to listen on, at 127.0.0.1; 0 selects any free port.
        force_scale: Length of arrows [m/N]; by default the robot's own weight is half as long as the robot.

    Raises:
        ImportError: If viser is not installed.
        InputError: If the robot is no model, or there is no such port.
        ViewerError: If the port is in use.
        LoadError: If the file with the visuals cannot be read.
    """

    def __init__(
        self,
        robot: Model,
        *,
        visuals: Any = None,
        package_roots: Sequence[str | os.PathLike[str]] = (),
        port: int = 8080,
        force_scale: float | None = None,
    ) -> None:
        if not isinstance(robot, Model):
            raise InputError(
                f"robot is a kinetree.Model, got {type(robot).__name__}; load files first: "
                "View(kt.load(path), visuals=path)"
            )
        shapes = [] if visuals is None else read(visuals, package_roots)
        self.robot = robot
        self._server = servers.start(port, robot.name)
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._listeners: list[Callable[[Array], None]] = []
        self._q: Array = robot.neutral()
        self._forces: Mapping[str, Any] = {}
        self._ellipsoids: tuple[str, ...] = ()
        self._center_of_mass = False
        try:
            self._scene = Scene(self._server, robot, shapes)
            self._overlays = Overlays(self._scene, force_scale)
            self._add_controls()
            self.show(self._scene.standing())
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Address to open in a browser."""
        return f"http://{servers.HOST}:{self._server.get_port()}"

    @property
    def q(self) -> Array:
        """The configuration on display, (nq,)."""
        with self._lock:
            return np.array(self._q)

    def show(
        self,
        q: Any = None,
        *,
        ellipsoids: Iterable[str] | None = None,
        forces: Mapping[str, Any] | None = None,
        center_of_mass: bool | None = None,
        inertias: bool | None = None,
        frames: bool | None = None,
    ) -> None:
        """Update the display; arguments that are None leave it unchanged. Every browser window shows the same.

        Args:
            q: Configuration, (nq,).
            ellipsoids: Names of frames at which Λ of the position is drawn: its radius along a direction is
                proportional to √(effective mass in that direction).
            forces: By frame, in its axes: a force, (3,) [N], or a wrench, moment first, (6,) [N m, N].
            center_of_mass: Whether to draw it, and its projection onto the floor.
            inertias: Whether to draw each body's inertia ellipsoid.
            frames: Whether to draw the axes of all frames.

        Raises:
            InputError: If an argument is invalid; the display stays unchanged.
            SingularMechanismError: If Λ is requested and the mass matrix is not invertible, or the centre of mass is
                requested and no moving body has mass.
        """
        if isinstance(ellipsoids, str):
            raise InputError(f"ellipsoids={ellipsoids!r} is one name; pass a list of them")
        with self._lock:
            new_q = self._q if q is None else configuration(self.robot, q)
            new_ellipsoids = self._ellipsoids if ellipsoids is None else tuple(ellipsoids)
            new_forces = self._forces if forces is None else dict(forces)
            new_center = self._center_of_mass if center_of_mass is None else bool(center_of_mass)
            try:
                draw(self._scene, self._overlays, new_q, new_ellipsoids, new_forces, new_center)
            except KinetreeError:
                draw(self._scene, self._overlays, self._q, self._ellipsoids, self._forces, self._center_of_mass)
                raise
            self._q, self._ellipsoids = new_q, new_ellipsoids
            self._forces, self._center_of_mass = new_forces, new_center
            with self._server.atomic():
                if q is not None:
                    self._sliders.show(new_q)
                    self._scene.aim(new_q)
                self._center.value = new_center
                self._felt.value = new_ellipsoids[0] if len(new_ellipsoids) == 1 else _NO_FRAME
                for layer, shown in (("inertias", inertias), ("frames", frames)):
                    if shown is not None and layer in self._boxes:
                        self._scene.show_layer(layer, bool(shown))
                        self._boxes[layer].value = bool(shown)

    def on_change(self, listener: Callable[[Array], None]) -> None:
        """Register a function to be called with the configuration, (nq,), whenever a user moves a slider.

        It is called on a thread of the viewer.
        """
        with self._lock:
            self._listeners.append(listener)

    @property
    def watched(self) -> bool:
        """Whether a browser shows the page."""
        return not self._closed.is_set() and len(self._server.get_clients()) > 0

    def wait(self) -> None:
        """Block until `close` is called from another thread, or raise `KeyboardInterrupt`."""
        # in short steps: an unbounded wait cannot be interrupted on every platform
        while not self._closed.wait(0.5):
            pass

    def close(self) -> None:
        """Stop listening; browsers keep the last picture. May be called twice."""
        if not self._closed.is_set():
            self._closed.set()
            servers.stop(self._server)

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- controls in the browser --------------------------------------------------------------------------------------

    def _add_controls(self) -> None:
        gui = self._server.gui
        self._boxes: dict[str, Any] = {}
        with gui.add_folder("Show"):
            for layer, label, shown in (
                ("visuals", "Bodies", True),
                ("skeleton", "Links behind visuals", False),
                ("inertias", "Inertia ellipsoids", False),
                ("frames", "Frames", False),
            ):
                if self._scene.layers[layer]:
                    self._boxes[layer] = gui.add_checkbox(label, shown)
                    self._boxes[layer].on_update(self._layer_switch(layer))
            self._center = gui.add_checkbox("Centre of mass", False)
            self._center.on_update(self._center_switched)
            choices = (_NO_FRAME, *self.robot.frames)
            self._felt = gui.add_dropdown("Inertia felt at", choices, initial_value=_NO_FRAME)
            self._felt.on_update(self._felt_chosen)
        with gui.add_folder("Joints"):
            buttons = gui.add_button_group("Set to", ("neutral", "random"))
            buttons.on_click(lambda _: self._jump(buttons.value))
            self._sliders = Sliders(gui, self.robot, self._moved)

    def _layer_switch(self, layer: str) -> Callable[[Any], None]:
        def update(_: Any) -> None:
            with self._lock:
                self._scene.show_layer(layer, self._boxes[layer].value)

        return update

    def _center_switched(self, event: Any) -> None:
        self._asked(event, center_of_mass=self._center.value)

    def _felt_chosen(self, event: Any) -> None:
        self._asked(event, ellipsoids=() if self._felt.value == _NO_FRAME else (self._felt.value,))

    def _asked(self, event: Any, **arguments: Any) -> None:
        """Show what a user requests in a browser, or notify the user there why it is not possible."""
        if event.client is None:  # the program changed a control
            return
        try:
            self.show(**arguments)
        except KinetreeError as error:
            self.show()  # resets the control
            event.client.add_notification("This robot cannot show that", str(error), color="red")

    def _jump(self, where: str) -> None:
        self.show(self.robot.neutral() if where == "neutral" else self.robot.random_configuration())
        self._tell()

    def _moved(self, joint: Joint, own: Array) -> None:
        with self._lock:
            q = self._q.copy()
            q[joint.q_slice] = own
            try:
                q = self.robot.close(q)
            except LoopError:  # the joint cannot go there
                return
            draw(self._scene, self._overlays, q, self._ellipsoids, self._forces, self._center_of_mass)
            self._q = q
        self._tell()

    def _tell(self) -> None:
        q = self.q
        for listener in tuple(self._listeners):
            listener(q)


def configuration(robot: Model, q: Any) -> Array:
    """A configuration, (nq,), checked to be drawable."""
    try:
        array = np.array(q, dtype=float)
    except (TypeError, ValueError):
        raise InputError("q is not made of real numbers") from None
    if array.shape != (robot.nq,):
        raise InputError(f"q has shape {array.shape}; one picture takes one configuration, ({robot.nq},)")
    if not np.all(np.isfinite(array)):
        raise InputError("q has NaN or infinite entries, which cannot be drawn")
    return array
