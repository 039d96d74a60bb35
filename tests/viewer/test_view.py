"""`View` and `film` without a browser: what they take, what they refuse, and who can reach them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import (
    InputError,
    LoadError,
    ModelWarning,
    SingularMechanismError,
    UnknownNameError,
    ViewerError,
)
from kinetree.model.field_distances import Ground
from kinetree.viewer import View, film, picture
from kinetree.viewer import view as server
from tests.oracle import oracle
from tests.tolerance import assert_near, refused
from tests.viewer.test_browser import within

oracle("viser")


@pytest.fixture
def robot() -> kt.Model:
    return kt.zoo.humanoid24()


@pytest.fixture
def view(robot: kt.Model) -> Iterator[View]:
    with View(robot, port=0) as opened:
        yield opened


def test_the_configuration_on_display(view: View, robot: kt.Model) -> None:
    np.testing.assert_array_equal(view.q, robot.neutral())
    q = robot.random_configuration(0)
    view.show(q)
    np.testing.assert_array_equal(view.q, q)
    q[:] = 0.0  # the view has its own
    assert view.q.any()


def test_bodies_are_where_the_robot_is(view: View, robot: kt.Model) -> None:
    q = robot.random_configuration(1)
    view.show(q)
    for name in ("left_elbow_link", "right_wrist_link"):
        pose = robot.pose(q)[robot.frames.index(name)]
        node = view._scene._nodes[name]
        assert_near(node.position, pose[:3, 3], 1e-6)
        w, x, y, z = node.wxyz
        assert_near([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], pose[:3, 0], 1e-6)


def test_ellipsoids_show_the_inertia_felt(view: View, robot: kt.Model) -> None:
    q = robot.random_configuration(2)
    view.show(q, ellipsoids=["left_hand"], center_of_mass=True)
    handle, _ = view._overlays._ellipsoids["left_hand"]
    mobility = robot.tasks([kt.Task("left_hand", "position")], reference="local_world_aligned").inverse_inertia(q)
    masses = 1.0 / np.linalg.eigvalsh(mobility)
    radii = np.array(handle.scale)
    longest = 0.5 * view._scene.size
    expected = np.minimum(0.05 * view._scene.size * np.sqrt(masses), longest)
    np.testing.assert_allclose(radii, expected, rtol=1e-6)
    assert_near(view._overlays._center[0].position, robot.center_of_mass(q), 1e-6)
    view.show(ellipsoids=[], center_of_mass=False)
    assert not handle.visible
    assert not view._overlays._center[0].visible


def crate() -> tuple[kt.Model, simulation.Simulator, Any]:
    """A box at rest on the floor, and its state."""
    box = kt.zoo.box((0.2, 0.2, 0.1), 1.0).with_shapes([geo.Box("box", (0.2, 0.2, 0.1))])
    return box, simulation.Simulator(box, contacts="discover"), np.array([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0])


def test_contacts_have_points_and_forces_until_the_next_configuration() -> None:
    box, world, q = crate()
    _, _, info = world.step(q, np.zeros(6))
    with View(box, port=0, force_scale=0.1) as view:
        view.show(q, contacts=info.contacts)
        assert view._overlays._contacts is not None
        points, arrows = view._overlays._contacts
        assert points.visible
        assert arrows.visible
        corners = np.array([(x, y, 0.0) for x in (-0.1, 0.1) for y in (-0.1, 0.1)])
        order = np.lexsort(points.points.T[::-1])
        assert_near(points.points[order], corners, 1e-6)
        assert_near(arrows.points[:, 1] - arrows.points[:, 0], np.tile([0, 0, 0.1 * 9.81 / 4], (4, 1)), 1e-6)
        view.show(center_of_mass=True)
        assert points.visible
        view.show(q)
        assert not points.visible
        assert not arrows.visible
        refused("info.contacts of one state", view.show, q, contacts=info)


def test_lines_join_nearest_points() -> None:
    box, _, q = crate()
    pairs = box.collision_pairs(scene=kt.Scene([geo.Plane("floor")]), keep_colliding=True)
    q[2] = 0.5
    with View(box, port=0) as view:
        view.show(q, distances=box.distances(q, pairs))
        assert_near(view._overlays._distances.points, [[[0.0, 0.0, 0.45], [0.0, 0.0, 0.0]]], 1e-6)
        view.show(q, distances=box.distances(q, pairs).nearest(1))
        assert view._overlays._distances.visible
        view.show(q)
        assert not view._overlays._distances.visible
        refused("at one configuration", view.show, q, distances=box.distances(q[None], pairs))


def test_films_show_the_contacts_of_each_sample(tmp_path: Path) -> None:
    box, world, q = crate()
    q[2] = 0.1
    path = world.rollout(q, np.zeros(6), steps=200, every=50)
    contacts = world.step(path.q, path.v)[2].contacts
    made = [
        film(tmp_path / "drop.html", box, *motion, contacts=contacts, shapes=True).read_bytes()
        for motion in ((path.q, path.time), (path,))
    ]
    assert made[0] == made[1]
    refused("a simulation brings its own time", film, tmp_path / "drop.html", box, path, path.time)
    refused("do not fit the 2", film, tmp_path / "drop.html", box, path.q[:2], contacts=contacts)


def test_films_join_nearest_points_of_each_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box, _, _ = crate()
    pairs = box.collision_pairs(scene=kt.Scene([geo.Plane("floor")]), keep_colliding=True)
    q = np.tile(box.neutral(), (3, 1))
    q[:, 2] = 0.5, 0.7, 0.6
    near, drawn = box.distances(q, pairs), []
    monkeypatch.setattr(sys.modules["kinetree.viewer.film"], "draw", lambda *given: drawn.append(given[-1].points))
    film(tmp_path / "drop.html", box, q, rate=10.0, distances=near.nearest(1))
    np.testing.assert_array_equal(drawn, near.points)
    refused("distances of 3 samples do not fit the 2", film, tmp_path / "a.html", box, q[:2], distances=near)
    refused("at all samples of the motion", film, tmp_path / "a.html", box, q, distances=box.distances(q[0], pairs))


def test_arrows_show_forces_in_the_axes_of_their_frame(robot: kt.Model) -> None:
    with View(robot, port=0, force_scale=0.01) as view:
        q = robot.random_configuration(3)
        view.show(q, forces={"left_hand": (1.0, 2.0, 3.0), "right_hand": (0.0, 5.0, 0.0, 0.0, 0.0, 0.0)})
        pose = dict(zip(robot.frames, robot.pose(q)))
        force, moment = view._overlays._arrows["left_hand"]
        start, end = force.points[0]
        assert_near(start, pose["left_hand"][:3, 3], 1e-6)
        assert_near(end - start, 0.01 * pose["left_hand"][:3, :3] @ [1.0, 2.0, 3.0], 1e-6)
        assert force.visible
        assert not moment.visible
        force, moment = view._overlays._arrows["right_hand"]
        assert moment.visible
        assert not force.visible
        view.show(forces={})
        assert not view._overlays._arrows["left_hand"][0].visible


def test_inertias_and_frames_are_shown_when_asked_for(view: View, robot: kt.Model) -> None:
    layers = view._scene.layers
    assert len(layers["inertias"]) == len(robot.bodies)
    assert len(layers["frames"]) == len(robot.bodies) + len(robot.extra_frames)
    for layer in ("inertias", "frames"):
        assert not any(handle.visible for handle in layers[layer])
        view.show(**{layer: True})
        assert all(handle.visible for handle in layers[layer])
        assert view._boxes[layer].value
        view.show(robot.random_configuration(0))  # what is not named stays
        assert all(handle.visible for handle in layers[layer])
        view.show(**{layer: False})
        assert not any(handle.visible for handle in layers[layer])


def test_collision_shapes_are_shown_when_asked_for() -> None:
    robot = kt.zoo.humanoid24()
    hand, frame = "left_wrist_link", robot.extra_frames[0]
    shapes: list[geo.SolidShape] = [
        geo.Sphere(frame.name, (0.1, 0, 0), 0.1),
        geo.Capsule(hand, (0, 0, 0), (0, 0, 0.2), 0.1),
        geo.Box(hand, (0.1, 0.2, 0.3)),
        geo.Cylinder(hand, 0.1, 0.2),
        geo.Ellipsoid(hand, (0.1, 0.2, 0.3)),
        geo.Hull(hand, points=0.1 * np.eye(4, 3)),
        geo.HeightField([[0.0, 0.1], [0.3, 0.2], [0.0, 0.0]], (2.0, 4.0), name="hills", body="world"),
        geo.Plane("floor", body="world"),
    ]
    robot = robot.with_shapes([*shapes, geo.Hull(hand, "hand.stl")])
    with View(robot, port=0) as view:
        drawn = view._scene.layers["shapes"]
        assert not drawn  # files are read when somebody looks
        with pytest.warns(ModelWarning, match="shapes are not drawn: .*hand.stl"):
            view.show(shapes=True)
        assert len(drawn) == len(shapes)
        assert all(handle.visible for handle in drawn)
        view.show(shapes=False)
        assert not any(handle.visible for handle in drawn)
        view.show(shapes=True)
        assert view._boxes["shapes"].value
        assert_near(drawn[0].position, frame.placement[:3, :3] @ (0.1, 0, 0) + frame.placement[:3, 3], 1e-6)
        extents = [np.ptp(handle.vertices, axis=0) for handle in drawn]
        size = 5.0 * view._scene.size
        round_ones = (0.2, 0.2, 0.2), (0.2, 0.2, 0.4), (0.1, 0.2, 0.3), (0.2, 0.2, 0.2), (0.2, 0.4, 0.6)
        assert_near(extents, [*round_ones, (0.1, 0.1, 0.1), (2.0, 4.0, 0.3), (size, size, 0.0)], 0.01)
        faces, points = drawn[6].faces, drawn[6].vertices
        a, b, c = (points[faces[:, i]] for i in range(3))
        assert (np.cross(b - a, c - a)[:, 2] > 0.0).all()
        middles = Ground(robot.shapes[6]).distances(((a + b + c) / 3.0).astype(float))[0]
        assert_near(middles, 0.0, 1e-6)  # the same triangles as those of distances


def test_free_objects_look_like_their_shapes() -> None:
    robot = kt.zoo.box((0.2, 0.2, 0.1), 1.0).with_shapes([geo.Sphere("box", (0.1, 0.2, 0.3), 0.5)])
    with View(robot, port=0) as view:
        (drawn,) = view._scene.layers["visuals"]
        assert_near(np.mean([drawn.vertices.min(axis=0), drawn.vertices.max(axis=0)], axis=0), (0.1, 0.2, 0.3), 0.02)
        assert_near(np.ptp(drawn.vertices, axis=0), 1.0, 0.02)
        view.show(shapes=True)
        assert not drawn.visible  # contacts are seen through the shape
        for bodies, shapes in ((True, True), (False, True), (False, False)):
            view._scene.show_layer("visuals", bodies)
            view._scene.show_layer("shapes", shapes)
            assert not drawn.visible
        view._scene.show_layer("visuals", True)
        assert drawn.visible


def test_what_stands_around_a_robot_is_shown(tmp_path: Path) -> None:
    box, wall = kt.zoo.box((0.2, 0.2, 0.1), 1.0), geo.Box("wall", (0.1, 2.0, 1.0), (np.eye(3), (1.0, 0.0, 0.5)))
    scene = kt.Scene([wall])
    with View(box, port=0, scene=scene) as view:
        (drawn,) = view._scene.layers["surroundings"]
        view.show(shapes=False)  # these are the robot's
        assert drawn.visible
        assert_near(drawn.position, (1.0, 0.0, 0.5), 1e-6)
        assert_near(np.ptp(drawn.vertices, axis=0), (0.1, 2.0, 1.0), 1e-6)
    plain, around = (film(tmp_path / "film.html", box, [box.neutral()], scene=s).stat().st_size for s in (None, scene))
    assert around > plain
    for call in (
        lambda: View(box, port=0, scene=[wall]),
        lambda: film(tmp_path / "a.html", box, [box.neutral()], scene=[wall]),
    ):
        refused(r"scene is a kinetree.Scene, got list: pass kt.Scene\(\[shapes\]\)", call)


def test_many_threads_may_show(view: View, robot: kt.Model) -> None:
    motions = [robot.random_configuration(seed, 20) for seed in range(4)]

    def play(motion: np.ndarray) -> None:
        for q in motion:
            view.show(q, ellipsoids=["left_hand"], center_of_mass=True)

    threads = [threading.Thread(target=play, args=(motion,)) for motion in motions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any((view.q == motion[-1]).all() for motion in motions)
    pose = robot.pose(view.q, "left_wrist_link")
    assert_near(view._scene._nodes["left_wrist_link"].position, pose[:3, 3], 1e-4)


def test_sliders_follow_and_stop_at_their_ends(view: View, robot: kt.Model) -> None:
    q = robot.q_from_dict({"left_elbow": -9.0, "right_elbow": -1.0})
    view.show(q)
    values = {joint.name: handles[0].value for joint, handles in view._sliders._handles}
    assert values["right_elbow"] == -1.0
    assert values["left_elbow"] == -2.4
    np.testing.assert_array_equal(view.q, q)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": np.zeros(3)}, r"q has shape \(3,\); one picture takes one configuration, \(24,\)"),
        ({"q": np.zeros((2, 24))}, r"q has shape \(2, 24\)"),
        ({"q": np.full(24, np.nan)}, "q has NaN or infinite entries"),
        ({"q": ["a"] * 24}, "q is not made of real numbers"),
        ({"ellipsoids": "left_hand"}, "ellipsoids='left_hand' is one name; pass a list of them"),
        ({"ellipsoids": ["tail"]}, "no frame is called 'tail'"),
        ({"forces": {"tail": (0, 0, 1)}}, "no frame is called 'tail'"),
        ({"forces": {"left_hand": (0, 1)}}, r"the force at 'left_hand' has shape \(2,\)"),
        ({"forces": {"left_hand": "up"}}, "the force at 'left_hand' is not made of numbers"),
    ],
)
def test_wrong_arguments_leave_the_picture(
    view: View, robot: kt.Model, arguments: dict[str, object], message: str
) -> None:
    q = robot.random_configuration(0)
    view.show(q, ellipsoids=["right_hand"])
    with pytest.raises(InputError, match=message):
        view.show(**{"q": robot.neutral(), **arguments})  # type: ignore[arg-type]
    np.testing.assert_array_equal(view.q, q)
    assert view._overlays._ellipsoids["right_hand"][0].visible
    assert view._scene._nodes["left_elbow_link"].position == pytest.approx(
        robot.pose(q)[robot.frames.index("left_elbow_link"), :3, 3], abs=1e-6
    )


def test_robots_without_an_inverse_mass_matrix_are_drawn(tmp_path: Path) -> None:
    robot = kt.Builder().add_body("a", mass=1.0, inertia=np.eye(3)).add_body("b", parent="a").build()
    with View(robot, port=0) as view:
        with pytest.raises(SingularMechanismError):
            view.show(ellipsoids=["b"])
        view.show([0.5, 0.5], center_of_mass=True)


@pytest.mark.parametrize("joint", ["floating", "spherical", "planar", "cylindrical", "universal"])
def test_every_joint_has_sliders(joint: str) -> None:
    robot = kt.Builder().add_body("a", joint=joint, mass=1.0, com=(0.1, 0.2, 0.3), inertia=np.eye(3)).build()
    with View(robot, port=0) as view:
        view.show(robot.random_configuration(0))
        ((_, handles),) = view._sliders._handles
        assert len(handles) == robot.nv


@pytest.mark.parametrize("limits", [(0.5, 0.5), (0.0, 1e-9), (-1e12, 1e12), (1.0, 1.0004), (0.0, 0.3)])
def test_odd_limits_have_sliders(limits: tuple[float, float]) -> None:
    bounds = kt.Limits(lower=limits[0], upper=limits[1])
    robot = kt.Builder().add_body("a", mass=1.0, com=(1.0, 0.0, 0.0), inertia=np.eye(3), limits=bounds).build()
    with View(robot, port=0) as view:
        ((_, (handle,)),) = view._sliders._handles
        assert limits[0] <= handle.min <= handle.value <= handle.max <= limits[1]


def test_a_world_without_bodies_is_drawn() -> None:
    with pytest.warns(ModelWarning):
        robot = kt.load("<robot name='nothing'/>")
    with View(robot, port=0) as view:
        view.show(np.zeros(0))
        refused("no centre of mass", view.show, center_of_mass=True, error=SingularMechanismError)
        view.show(np.zeros(0))


def test_a_floating_robot_stands_on_the_floor() -> None:
    text = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
      <visual><origin xyz="0 0 -0.3"/><geometry><box size="1 1 1"/></geometry></visual></link></robot>"""
    robot = kt.load(text, floating_base=True)
    with View(robot, visuals=text, port=0) as view:
        assert_near(view.q, [0.0, 0.0, 0.8, 1.0, 0.0, 0.0, 0.0], 1e-12)


def test_missing_meshes_are_told_and_replaced_by_capsules(tmp_path: Path) -> None:
    file = tmp_path / "robot.urdf"
    file.write_text(
        """<robot name="r"><link name="base"/><link name="arm"><inertial><origin xyz="0 0 1"/><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1"/></inertial><visual><geometry><mesh filename="gone.stl"/></geometry></visual>
      </link><joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>"""
    )
    robot = kt.load(file)
    with pytest.warns(ModelWarning, match="gone.stl"):
        view = View(robot, visuals=file, port=0)
    with view:
        assert view._scene.layers["visuals"]
        assert not view._scene.layers["skeleton"]


def test_a_broken_file_of_visuals_starts_nothing(robot: kt.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "start", lambda *_: pytest.fail("started"))
    refused("broken XML", View, robot, visuals="<robot", error=LoadError)


# -- who can reach it --------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_an_error(robot: kt.Model) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(rf"port {port} of 127\.0\.0\.1 is in use", View, robot, port=port, error=ViewerError)
        with socket.socket() as next_one:  # nothing listens on the port that viser took instead
            assert next_one.connect_ex(("127.0.0.1", port + 1)) != 0


@pytest.mark.parametrize("port", [-1, 65536, 99999, True, 80.0, "8080"])
def test_ports_that_do_not_exist(robot: kt.Model, port: Any) -> None:
    refused(rf"port={port!r} is no port: choose a number from 1 to 65535, or 0", View, robot, port=port)


def test_robots_that_are_files() -> None:
    with pytest.raises(InputError, match=r"got str; load files first.*View\(kt.load\(path\)\)"):
        View("robot.urdf")  # type: ignore[arg-type]
    refused(r"got str; load files first: kt.load\(path\)", film, "film.html", "robot.urdf", [[0.0]])
    refused(r"got str; load files first: kt.load\(path\)", picture, "robot.png", "robot.urdf")


def test_only_this_machine_can_connect(view: View) -> None:
    port = int(view.url.rpartition(":")[2])
    assert view.url == f"http://127.0.0.1:{port}"
    with open("/proc/net/tcp") as table:
        listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
    addresses = [entry.partition(":")[0] for entry in listening if int(entry.partition(":")[2], 16) == port]
    assert addresses == ["0100007F"]
    with open("/proc/net/tcp6") as table:
        assert not [line for line in table if line.split()[1].endswith(f":{port:04X}")]


def connected(view: View, **options: Any) -> Any:
    """A websocket, as viser's page opens one."""
    import viser
    from websockets.sync.client import connect

    port = view.url.rpartition(":")[2]
    given = {"subprotocols": [f"viser-v{viser.__version__}"], "max_size": None, "proxy": None, **options}
    return connect(f"ws://127.0.0.1:{port}", **given)


def drag(view: View, page: Any, to: float) -> None:
    """Send what viser's page sends: first where its camera is, then that a slider was moved."""
    import msgspec

    _, (slider,) = view._sliders._handles[0]
    camera = {
        "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (3.0, 0.0, 1.0), "fov": 1.0, "near": 0.1, "far": 10.0,
        "image_height": 9, "image_width": 9, "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
    }  # fmt: skip
    update = {"uuid": slider._impl.uuid, "updates": {"value": to}}
    for kind, message in {"ViewerCameraMessage": camera, "GuiUpdateMessage": update}.items():
        page.send(msgspec.msgpack.encode({"type": kind, **message}))


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "https://127.0.0.1:{port}"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:{port}.evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Host": "evil.example:{port}"},
    {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
    {"Host": "127.0.0.1:1"},
    {"Host": "localhost"},
    {"Host": ""},
]


def request(view: View, headers: dict[str, str], *more: str) -> str:
    """The first line of the answer to a request with these headers."""
    port = int(view.url.rpartition(":")[2])
    lines = [f"{name}: {value.format(port=port)}" for name, value in headers.items()]
    text = "\r\n".join(["GET / HTTP/1.1", *lines, *more, "", ""])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(text.encode())
        return client.makefile("rb").readline().decode().strip()


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_pages_of_other_sites_are_refused(view: View, headers: dict[str, str]) -> None:
    whole = {"Host": "127.0.0.1:{port}", **headers}
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol: viser-v1.1.1")  # fmt: skip
    for more in ((), upgrade):
        assert request(view, whole, *more) == "HTTP/1.1 403 Forbidden"


@pytest.mark.parametrize("more", ["Host: 127.0.0.1:1", "Origin: http://evil.example"])
def test_a_second_header_does_not_help(view: View, more: str) -> None:
    port = view.url.rpartition(":")[2]
    own = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
    assert request(view, own, more) == "HTTP/1.1 403 Forbidden"


def test_a_request_without_a_host_is_refused(view: View) -> None:
    assert request(view, {}) == "HTTP/1.1 403 Forbidden"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_our_own_page_is_served(view: View, name: str) -> None:
    assert request(view, {"Host": f"{name}:{{port}}"}) == "HTTP/1.1 200 OK"
    assert request(view, {"Host": f"{name}:{{port}}", "Origin": f"http://{name}:{{port}}"}) == "HTTP/1.1 200 OK"


def test_other_sites_can_neither_look_nor_move_sliders() -> None:
    from websockets.exceptions import InvalidStatus

    with View(kt.zoo.double_pendulum(), port=0) as view:
        for origin in ("http://evil.example", "null"):
            with pytest.raises(InvalidStatus, match="403"), connected(view, origin=origin) as page:
                drag(view, page, 0.5)
        assert not view.q.any()
        with connected(view, origin=view.url) as page:  # the same from our page
            assert page.recv(timeout=30)
            drag(view, page, 0.5)
            within("the slider's value", lambda: view.q[0] == 0.5)


def test_servers_of_others_are_left_alone(view: View) -> None:
    """Neither other users of the library in this process nor viser elsewhere are guarded."""
    import websockets.asyncio.server as library

    assert library.serve.__module__ == "websockets.asyncio.server"

    def elsewhere() -> None: ...

    async def serve() -> None:
        for module, host in (__name__, "127.0.0.1"), ("viser.infra._infra", "localhost"):
            elsewhere.__module__ = module
            async with library.serve(elsewhere, host, 0):
                pass

    with server._guarded() as guarded:
        asyncio.run(serve())
        assert not guarded


def test_a_viser_that_cannot_be_guarded_is_not_started(robot: kt.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(server, "_guarded", lambda: nullcontext([]))
    refused(r"viser .* could not be refused; install viser 1.1", View, robot, port=0, error=ViewerError)


def test_nothing_is_shared(view: View) -> None:
    """viser's page can ask its server for a tunnel to the outside; this server has none."""
    assert view._server.request_share_url() is None
    assert view._server._share_tunnel is None


def test_closing_twice_is_closing(robot: kt.Model) -> None:
    view = View(robot, port=0)
    port = int(view.url.rpartition(":")[2])
    view.close()
    view.close()
    view.wait()
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0


def test_nothing_is_printed(robot: kt.Model, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    View(robot, port=0).close()
    film(tmp_path / "film.html", robot, [robot.neutral()])
    assert capfd.readouterr() == ("", "")


def test_viser_is_asked_for_when_missing() -> None:
    code = (
        "import sys; sys.modules['viser'] = None\n"
        "import kinetree as kt\n"
        "try: kt.viewer.View(kt.zoo.humanoid24())\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'kinetree.viewer needs viser: pip install "kinetree[viewer]"'


# -- films -------------------------------------------------------------------------------------------------------------


def test_a_film_is_one_file(robot: kt.Model, tmp_path: Path) -> None:
    motion = robot.random_configuration(0, 4)
    path = film(
        tmp_path / "film.html",
        robot,
        motion,
        [0.0, 0.1, 0.3, 0.35],
        ellipsoids=["left_hand"],
        forces={"left_hand": np.ones((4, 3)), "right_hand": np.ones(6)},
        center_of_mass=True,
    )
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "__VISER_EMBED_DATA__" in text
    assert len(text) < 3e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": np.zeros(24)}, r"q has shape \(24,\); a film takes \(T, 24\), T at least one$"),
        ({"q": np.zeros((3, 2, 24))}, r"q has shape \(3, 2, 24\); .* show one of several motions: q\[0\]"),
        ({"q": np.zeros((0, 24))}, r"T at least one"),
        ({"q": np.full((2, 24), np.nan)}, "q has NaN or infinite entries in sample 0"),
        ({"q": "motion"}, "q is not made of real numbers"),
        ({"time": [0.0]}, r"time has shape \(1,\); q has 2 samples"),
        ({"time": [1.0, 1.0]}, "time does not increase"),
        ({"time": [0.0, np.inf]}, "time does not increase"),
        ({"time": ["a", "b"]}, "time is not made of numbers"),
        ({"time": [0.0, 1e9]}, "more than 20000 pictures; lower rate=, or cut the motion"),
        ({"rate": 0.0}, "rate=0.0 is not a positive number"),
        ({"rate": float("nan")}, "is not a positive number"),
        ({"ellipsoids": "left_hand"}, "is one name; pass a list of them"),
        ({"ellipsoids": ["tail"]}, "no frame is called 'tail'"),
        ({"forces": {"tail": np.ones(3)}}, "no frame is called 'tail'"),
        ({"forces": {"left_hand": np.ones((3, 3))}}, r"have shape \(3, 3\); pass \(2, 3\) or \(2, 6\)"),
        ({"forces": {"left_hand": "up"}}, "is not made of numbers"),
    ],
)
def test_wrong_arguments_of_a_film(robot: kt.Model, tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    given = {"q": np.zeros((2, 24)), **arguments}
    with pytest.raises(InputError, match=message):
        film(tmp_path / "film.html", robot, **given)  # type: ignore[arg-type]
    assert not (tmp_path / "film.html").exists()


def test_a_film_that_cannot_be_written(robot: kt.Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory; choose another path"):
        film(tmp_path / "gone" / "film.html", robot, [robot.neutral()])


def test_unknown_names_are_named() -> None:
    with View(kt.zoo.humanoid24(), port=0) as view, pytest.raises(UnknownNameError):
        view.show(ellipsoids=["tail"])


def test_a_robot_brings_its_own_file_and_keyframe(tmp_path: Path) -> None:
    oracle("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><worldbody><body name="a"><joint name="j"/><geom type="box" size=".1 .1 .1"/></body></worldbody>'
        '<keyframe><key name="home" qpos="0.5"/></keyframe></mujoco>'
    )
    robot = kt.load(path)
    with View(robot, port=0) as opened:
        assert opened.q.tolist() == [0.5]
        assert [handle.name for handle in opened._scene.layers["visuals"]] == ["/robot/0 a/visual 0"]
    with View(robot, port=0, visuals=False) as opened:
        assert "visual" not in "".join(handle.name for handle in opened._scene.layers["visuals"])
    path.unlink()
    with pytest.warns(ModelWarning, match="bodies are drawn as capsules along their links: .*robot.xml") as told:
        opened = View(robot, port=0)  # the file is gone
    assert told[0].filename == __file__
    with opened:
        assert opened.q.tolist() == [0.5]
    with pytest.warns(ModelWarning, match="bodies are drawn as capsules") as told:
        film(tmp_path / "film.html", robot, [[0.5]])
    assert told[0].filename == __file__


def test_missing_meshes_are_told_in_short(tmp_path: Path) -> None:
    link = '<link name="{0}"><visual><geometry><mesh filename="package://p/{0}.stl"/></geometry></visual></link>'
    joint = '<joint name="j{0}" type="fixed"><parent link="l0"/><child link="l{0}"/></joint>'
    path = tmp_path / "robot.urdf"
    parts = [link.format(f"l{i}") for i in range(9)] + [joint.format(i) for i in range(1, 9)]
    path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
    with pytest.warns(ModelWarning) as caught, View(kt.load(path), port=0):
        pass
    (text,) = {str(one.message) for one in caught}
    assert text.count(".stl") == 2
    assert "(9 in all)" in text


def test_missing_shapes_are_told_in_short() -> None:
    robot = kt.zoo.arm7().with_shapes([geo.Hull(f"link{i}", f"link{i}.stl") for i in range(5)])
    with View(robot, port=0) as view, pytest.warns(ModelWarning) as caught:
        view.show(shapes=True)
    (text,) = {str(one.message) for one in caught}
    assert text.count("not found") == 2
    assert text.endswith("; … (5 in all)")


@pytest.mark.parametrize("far", [0.0, 3.0])
def test_the_camera_sees_all_of_the_robot_and_little_else(far: float) -> None:
    """Projected into the picture, the outermost points are in its middle eight tenths, and one reaches their edge."""
    builder = kt.Builder().add_body("a", mass=1.0, com=(0, 0, -0.4), inertia=np.eye(3), placement=(far, 0, 0))
    robot = builder.add_frame("tip", body="a", placement=(0.1, 0.2, -0.9)).build()
    with View(robot, port=0) as opened:
        camera, corners = opened._server.initial_camera, opened._scene.corners(opened.q)
        position, aim = np.array(camera.position), np.array(camera.look_at)
        forward = (aim - position) / np.linalg.norm(aim - position)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(right, forward), forward])
        x, y, depth = axes @ (corners - position).T
        reach = np.maximum(np.abs(x), np.abs(y)) / (depth * np.tan(camera.fov / 2.0))
        assert reach.max() == pytest.approx(0.8, rel=1e-6)
        # what hangs from the world's origin is above the floor
        (floor,) = [
            handle for handle in opened._server.scene._handle_from_node_name.values() if handle.name == "/floor"
        ]
        assert floor.position[2] == pytest.approx(min(0.0, corners[:, 2].min()), abs=1e-12)
