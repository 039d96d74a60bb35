"""A live view of a robot in a browser: a viser server that only this machine can reach, with sliders for joints.

It downloads and shares nothing. But pages of other sites, shown by a browser on this machine, can reach it too: through
a websocket, or under a name of theirs that resolves to this address. Browsers send the page's site and the name that it
asked for, so requests are refused whose `Origin` or `Host` is not a name of this server.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, KinetreeError, LoopError, ViewerError
from kinetree.model.joint import Joint
from kinetree.model.model import Model
from kinetree.model.shapes import Scene as Surroundings
from kinetree.model.shapes import surroundings
from kinetree.spatial.rotation import exp_quaternion, matrix_of, multiply
from kinetree.spatial.value import Array
from kinetree.viewer.files import own_or_given
from kinetree.viewer.overlays import Overlays, checked_contacts, checked_distances, draw, floats
from kinetree.viewer.scene import Scene

#: The only address on which the server listens.
HOST = "127.0.0.1"

#: Names of the address in requests.
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # left out of addresses
_LAST_PORT = 65535
_INSTALL = 'kinetree.viewer needs viser: pip install "kinetree[viewer]"'


def start(port: int, title: str) -> Any:
    """A `viser.ViserServer` on the loopback address; port 0 selects any free one. The title is above the controls."""
    if isinstance(port, bool) or not isinstance(port, (int, np.integer)) or not 0 <= port <= _LAST_PORT:
        raise InputError(f"port={port!r} is no port: choose a number from 1 to {_LAST_PORT}, or 0 for any that is free")
    try:
        import viser
    except ModuleNotFoundError as error:
        raise ImportError(_INSTALL) from error

    # otherwise any page could request a public tunnel from viser's own server
    local = type("Local", (viser.ViserServer,), {"request_share_url": _share_nothing})
    with _quiet(), _guarded() as guarded:
        server = local(host=HOST, port=port, label=title, verbose=False)
    if not guarded:
        stop(server)
        raise ViewerError(
            f"viser {viser.__version__} does not serve as expected, so that pages of other sites could not be refused; "
            "install viser 1.1: pip install 'viser==1.1.*'"
        )
    if port and server.get_port() != port:  # viser silently takes the next free port
        stop(server)
        raise ViewerError(
            f"port {port} of {HOST} is in use, by another viewer perhaps; close it, or choose another port (0: any)"
        )
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(66, 114, 166))
    return server


def _share_nothing(_server: Any, *_: Any, **__: Any) -> None:
    """Replaces the method that requests a public address from a server run by viser's developers."""


@contextmanager
def _guarded() -> Iterator[list[Any]]:
    """Servers of viser that start meanwhile at our address refuse requests that are not for them; yields these servers.

    viser has no hook for requests, but the library that it serves with has.
    """
    import websockets.asyncio.server as library

    guarded: list[Any] = []
    plain = library.serve

    class Guarded(plain):  # type: ignore[misc, valid-type]
        def __init__(self, handler: Any, host: Any = None, *rest: Any, process_request: Any = None, **options: Any):
            ours = host == HOST and str(handler.__module__).partition(".")[0] == "viser"
            answer = _refusing(process_request) if ours else process_request
            super().__init__(handler, host, *rest, process_request=answer, **options)
            if ours:
                guarded.append(self)

    with _starting:
        library.serve = Guarded  # type: ignore[misc]
        try:
            yield guarded
        finally:
            library.serve = plain  # type: ignore[misc]


_starting = threading.Lock()


def _refusing(answer: Callable[..., Any] | None) -> Callable[..., Any]:
    """The answer to requests of our own page; others are refused."""

    def guard(connection: Any, request: Any) -> Any:
        port = connection.local_address[1]
        named = [f"{name}:{port}" for name in _NAMES] + list(_NAMES if port == _HTTP_PORT else ())
        hosts = [host.lower() for host in request.headers.get_all("Host")]
        origins = [origin.lower() for origin in request.headers.get_all("Origin")]  # programs have none
        if len(hosts) == 1 and hosts[0] in named and {*origins} <= {f"http://{name}" for name in named}:
            return None if answer is None else answer(connection, request)
        advice = f"open http://{HOST}:{port}; through a tunnel, forward the same port"
        return connection.respond(HTTPStatus.FORBIDDEN, f"This viewer answers its own page only: {advice}.\n")

    return guard


def stop(server: Any) -> None:
    """Close a server and all connections to it."""
    with _quiet():
        server.stop()


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress viser's own output on the terminal."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


# Range of the sliders of joints without limits, to either side [rad, m].
_TURN, _LENGTH = math.pi, 2.0


@dataclass(frozen=True)
class Coordinate:
    """One slider."""

    label: str
    lower: float  # left end [rad or m]
    upper: float  # right end [rad or m]


def coordinates(joint: Joint) -> tuple[Coordinate, ...]:
    """The sliders of a joint: its coordinates, with roll, pitch and yaw in place of a quaternion."""
    if joint.type.nq == joint.type.nv:
        count = joint.type.nq
        names = [joint.name] if count == 1 else [f"{joint.name} {i}" for i in range(count)]
        return tuple(
            _bounded(name, low, high, _TURN if angle else _LENGTH)
            for name, low, high, angle in zip(names, joint.limits.lower, joint.limits.upper, joint.type.angles)
        )
    lengths = [Coordinate(f"{joint.name} {axis}", -_LENGTH, _LENGTH) for axis in "xyz"[: joint.type.nq - 4]]
    turns = [Coordinate(f"{joint.name} {name}", -_TURN, _TURN) for name in ("roll", "pitch", "yaw")]
    return (*lengths, *turns)


def _bounded(label: str, lower: float, upper: float, reach: float) -> Coordinate:
    low = lower if math.isfinite(lower) else (upper - 2.0 * reach if math.isfinite(upper) else -reach)
    high = upper if math.isfinite(upper) else (lower + 2.0 * reach if math.isfinite(lower) else reach)
    return Coordinate(label, low, high)


def values_of(joint: Joint, q: Array) -> Array:
    """Slider values of a joint at its configuration, (nq,)."""
    if joint.type.nq == joint.type.nv:
        return q
    R = matrix_of(q[-4:])
    pitch = math.asin(min(max(-R[2, 0], -1.0), 1.0))
    roll, yaw = math.atan2(R[2, 1], R[2, 2]), math.atan2(R[1, 0], R[0, 0])
    return np.array([*q[:-4], roll, pitch, yaw])


def configuration_of(joint: Joint, values: Array) -> Array:
    """The configuration of a joint, (nq,), from its slider values."""
    if joint.type.nq == joint.type.nv:
        return values
    about_x, about_y, about_z = (exp_quaternion(angle * axis) for angle, axis in zip(values[-3:], np.eye(3)))
    return np.concatenate([values[:-3], multiply(multiply(about_z, about_y), about_x)])


class Sliders:
    """Sliders of all joints of a robot; `moved` is called with a joint and its configuration when a user moves one."""

    def __init__(self, gui: Any, robot: Model, moved: Callable[[Joint, Array], None]) -> None:
        self._handles: list[tuple[Joint, list[Any]]] = []
        q = robot.neutral()
        for joint in (joint for joint in robot.joints if joint.nv):  # others follow
            values = values_of(joint, q[joint.q_slice])
            handles = [_slider(gui, one, float(value)) for one, value in zip(coordinates(joint), values)]
            for handle in handles:
                handle.on_update(_moved(joint, handles, moved))
            self._handles.append((joint, handles))

    def show(self, q: Array) -> None:
        """Set all sliders to a configuration, clamping values to their ranges."""
        for joint, handles in self._handles:
            for handle, value in zip(handles, values_of(joint, q[joint.q_slice])):
                within = min(max(float(value), handle.min), handle.max)
                if handle.value != within:
                    handle.value = within


def _moved(joint: Joint, handles: list[Any], moved: Callable[[Joint, Array], None]) -> Callable[[Any], None]:
    def update(event: Any) -> None:
        if event.client is not None:  # otherwise the program moved it
            moved(joint, configuration_of(joint, np.array([handle.value for handle in handles])))

    return update


def _slider(gui: Any, coordinate: Coordinate, value: float) -> Any:
    # limits rounded inwards to thousandths are easier to read
    low, high = math.ceil(1e3 * coordinate.lower) / 1e3, math.floor(1e3 * coordinate.upper) / 1e3
    if high - low < 0.1:
        low, high = coordinate.lower, coordinate.upper
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-6) / 500.0))
    return gui.add_slider(coordinate.label, low, high, step, min(max(value, low), high))


_NO_FRAME = "none"


class _Picture(NamedTuple):
    """What is on display."""

    q: Array  # (nq,)
    ellipsoids: tuple[str, ...] = ()
    forces: Mapping[str, Any] = {}
    center_of_mass: bool = False
    contacts: Any = None
    distances: Any = None


class View:
    """A robot in a browser on this machine, with a slider for each coordinate.

    Open `url` in a browser. Only this machine can connect, and nothing is downloaded. Initially the robot is in its
    first keyframe, else in its neutral configuration; a floating robot then stands on the floor, the horizontal plane
    through the world's origin.

        with kt.viewer.View(robot) as view:
            print(view.url)
            view.show(q, ellipsoids=["hand"], forces={"hand": (0.0, 0.0, -20.0)})
            view.wait()

    Args:
        robot: The mechanism.
        visuals: A URDF or MJCF file, or its content, for the robot's appearance; by default the file that it was loaded
            from, False for none. Without it, and where meshes are missing, bodies are drawn as capsules along their
            links.
        package_roots: Directories from which meshes may be read, besides that of the file: those that contain the
            packages of `package://` names. No mesh outside them is opened.
        port: Port to listen on, at 127.0.0.1; 0 selects any free port.
        force_scale: Length of arrows [m/N]; by default the robot's own weight is half as long as the robot.
        scene: A `kinetree.Scene`, what stands around the robot.

    Raises:
        ImportError: If viser is not installed.
        InputError: If the robot is no model, the scene none, or there is no such port.
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
        scene: Surroundings | None = None,
    ) -> None:
        if not isinstance(robot, Model):
            raise InputError(
                f"robot is a kinetree.Model, got {type(robot).__name__}; load files first: View(kt.load(path))"
            )
        drawn, around = own_or_given(robot, visuals, package_roots), surroundings(scene)
        self.robot = robot
        self._server = start(port, robot.name)
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._listeners: list[Callable[[Array], None]] = []
        self._picture = _Picture(robot.neutral())
        try:
            self._scene = Scene(self._server, robot, drawn, around)
            self._overlays = Overlays(self._scene, force_scale)
            self._add_controls()
            self.show(self._scene.standing())
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Address to open in a browser."""
        return f"http://{HOST}:{self._server.get_port()}"

    @property
    def q(self) -> Array:
        """The configuration on display, (nq,)."""
        with self._lock:
            return np.array(self._picture.q)

    def show(
        self,
        q: Any = None,
        *,
        ellipsoids: Iterable[str] | None = None,
        forces: Mapping[str, Any] | None = None,
        center_of_mass: bool | None = None,
        contacts: Any = None,
        distances: Any = None,
        inertias: bool | None = None,
        frames: bool | None = None,
        shapes: bool | None = None,
    ) -> None:
        """Update the display; arguments that are None leave it unchanged. Every browser window shows the same.

        Args:
            q: Configuration, (nq,).
            ellipsoids: Names of frames at which Λ of the position is drawn: its radius along a direction is
                proportional to √(effective mass in that direction).
            forces: By frame, in its axes: a force, (3,) [N], or a wrench, moment first, (6,) [N m, N].
            center_of_mass: Whether to draw it, and its projection onto the floor.
            contacts: Contacts that a simulation has found, `info.contacts`: their points, and the forces on the first
                body of each pair. They belong to q, and vanish with the next one.
            distances: `robot.distances(q, pairs)`, or its `nearest(…)`: lines between nearest points. As contacts.
            inertias: Whether to draw each body's inertia ellipsoid.
            frames: Whether to draw the axes of all frames.
            shapes: Whether to draw the robot's collision shapes; files of hulls are read when they are first drawn.

        Raises:
            InputError: If an argument is invalid; the display stays unchanged.
            SingularMechanismError: If Λ is requested and the mass matrix is not invertible, or the centre of mass is
                requested and no moving body has mass.
        """
        if isinstance(ellipsoids, str):
            raise InputError(f"ellipsoids={ellipsoids!r} is one name; pass a list of them")
        with self._lock:
            new = self._picture
            if q is not None:
                new = new._replace(q=configuration(self.robot, q), contacts=None, distances=None)
            if ellipsoids is not None:
                new = new._replace(ellipsoids=tuple(ellipsoids))
            if forces is not None:
                new = new._replace(forces=dict(forces))
            if center_of_mass is not None:
                new = new._replace(center_of_mass=bool(center_of_mass))
            if contacts is not None:
                new = new._replace(contacts=checked_contacts(contacts))
            if distances is not None:
                new = new._replace(distances=checked_distances(distances))
            try:
                draw(self._scene, self._overlays, *new)
            except KinetreeError:
                draw(self._scene, self._overlays, *self._picture)
                raise
            self._picture = new
            with self._server.atomic():
                if q is not None:
                    self._sliders.show(new.q)
                    self._scene.aim(new.q)
                self._center.value = new.center_of_mass
                self._felt.value = new.ellipsoids[0] if len(new.ellipsoids) == 1 else _NO_FRAME
                for layer, shown in (("inertias", inertias), ("frames", frames), ("shapes", shapes)):
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
            stop(self._server)

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
                ("shapes", "Collision shapes", False),
                ("inertias", "Inertia ellipsoids", False),
                ("frames", "Frames", False),
            ):
                if self._scene.layers[layer] or (layer == "shapes" and self.robot.shapes):
                    self._boxes[layer] = gui.add_checkbox(label, shown)
                    self._boxes[layer].on_update(self._layer_switch(layer))
            self._center = gui.add_checkbox("Centre of mass", False)
            self._center.on_update(lambda event: self._asked(event, center_of_mass=self._center.value))
            choices = (_NO_FRAME, *self.robot.frames)
            self._felt = gui.add_dropdown("Inertia felt at", choices, initial_value=_NO_FRAME)
            self._felt.on_update(lambda event: self._asked(event, ellipsoids={self._felt.value} - {_NO_FRAME}))
        with gui.add_folder("Joints"):
            buttons = gui.add_button_group("Set to", ("neutral", "random"))
            buttons.on_click(lambda _: self._jump(buttons.value))
            if self.robot.keyframes:
                keys = gui.add_dropdown("Keyframe", tuple(self.robot.keyframes))
                keys.on_update(lambda event: self._asked(event, q=self.robot.keyframes[keys.value]))
            self._sliders = Sliders(gui, self.robot, self._moved)

    def _layer_switch(self, layer: str) -> Callable[[Any], None]:
        def update(_: Any) -> None:
            with self._lock:
                self._scene.show_layer(layer, self._boxes[layer].value)

        return update

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
            q = self.q
            q[joint.q_slice] = own
            try:
                picture = self._picture._replace(q=self.robot.close(q), contacts=None, distances=None)
            except LoopError:  # the joint cannot go there
                return
            draw(self._scene, self._overlays, *picture)
            self._picture = picture
        self._tell()

    def _tell(self) -> None:
        q = self.q
        for listener in tuple(self._listeners):
            listener(q)


def configuration(robot: Model, q: Any) -> Array:
    """A configuration, (nq,), checked to be drawable."""
    array = floats(q, "q is not made of real numbers")
    if array.shape != (robot.nq,):
        raise InputError(f"q has shape {array.shape}; one picture takes one configuration, ({robot.nq},)")
    if not np.all(np.isfinite(array)):
        raise InputError("q has NaN or infinite entries, which cannot be drawn")
    return array
