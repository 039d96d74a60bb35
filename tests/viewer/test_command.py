"""`kinetree view`: its films, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import app, commands
from kinetree.cli.commands import sweep
from kinetree.errors import ViewerError
from kinetree.viewer.browser import BROWSERS, require_encoder
from tests.oracle import oracle, program
from tests.tolerance import refused

oracle("viser")

ROBOT = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<visual><geometry><mesh filename="package://p/a\x9b.stl"/></geometry></visual></link></robot>"""


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["view", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_a_film(tmp_path: Path) -> None:
    path = tmp_path / "film.html"
    code, output, errors = call("--film", path)
    assert (code, errors) == (0, "")
    assert output.startswith(f"{path}: 36 s, ")
    assert path.stat().st_size > 500_000


def test_a_picture(tmp_path: Path) -> None:
    """The robot stands in the middle, coloured, on white."""
    program(*BROWSERS)
    path = tmp_path / "robot.png"
    code, output, errors = call("--picture", path, "--configuration", "left_elbow=-1.5")
    assert (code, errors, output) == (0, "", f"{path}\n")
    with Image.open(path) as image:
        colours = np.asarray(image).astype(int)
    assert colours.shape == (720, 1280, 3)
    vivid = np.ptp(colours, axis=-1) > 40
    rows, columns = np.nonzero(vivid)
    assert vivid.sum() > 5_000
    assert (np.ptp(rows) > 300, 500 < columns.mean() < 780) == (True, True)


def test_a_video(tmp_path: Path) -> None:
    """Two pictures of a pendulum, as they are encoded: the second differs where it went."""
    program(*BROWSERS)
    robot = kt.zoo.double_pendulum()
    path = kt.viewer.film(
        tmp_path / "film.mp4", robot, [[0.0, 0.0], [2.0, 1.0]], [0.0, 0.1], rate=10.0, size=(160, 120)
    )
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    found = subprocess.run([require_encoder(), "-loglevel", "error", "-i", path, *raw], capture_output=True, check=True)
    first, second = np.frombuffer(found.stdout, np.uint8).reshape(2, 120, 160, 3).astype(int)
    assert (np.abs(first - second).max(axis=-1) > 60).sum() > 50
    assert first.mean() > 150  # on white


def test_a_program_that_is_killed_leaves_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by SIGKILL, after which it cannot do anything itself. This browser never opens the page."""
    browser, started = tmp_path / "chromium", tmp_path / "started"
    browser.write_text(f'#!/bin/sh\necho $$ "$@" > {started}.part; mv {started}.part {started}; exec sleep 600\n')
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    code = (
        "from types import SimpleNamespace as Server\nfrom kinetree.viewer import browser\n"
        "with browser.pictures(Server(get_port=lambda: 1, get_clients=dict), 64, 64): pass"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        until(started.exists)
        program.kill()
    number, *words = started.read_text().split()
    profile = next(Path(word.partition("=")[2]) for word in words if word.startswith("--user-data-dir="))
    until(lambda: not (Path("/proc", number, "exe").exists() or profile.exists()))


def until(condition: Callable[[], bool]) -> None:
    """Wait, for half a minute at most."""
    end = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_programs_that_are_missing_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is computed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, errors = call("--picture", tmp_path / "robot.png")
    assert code == 2
    assert "Chromium or Chrome" in errors
    with pytest.raises(ViewerError, match="neither is on the PATH"):
        kt.viewer.film(tmp_path / "film.mp4", kt.zoo.double_pendulum(), [[0.0, 0.0]])
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"kinetree\[video\]"):
        require_encoder()
    refused("even numbers from 16", kt.viewer.picture, "a.png", kt.zoo.double_pendulum(), size=(15, 10))
    refused("width and height in pixels", kt.viewer.picture, "a.png", kt.zoo.double_pendulum(), size=3)
    refused("a picture is written as .png or .jpg", kt.viewer.picture, "a.tiff", kt.zoo.double_pendulum())


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    file = tmp_path / "robot.urdf"
    file.write_text(ROBOT, encoding="utf-8")
    code, _, errors = call(file, "--floating-base", "--film", tmp_path / "film.html")
    assert code == 0
    assert "warning: " in errors
    assert "looked in" in errors
    assert "\x9b" not in errors  # a terminal would obey it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.urdf",), "LoadError: gone.urdf: there is no such file"),
        (("--package-root", "gone"), "is not a directory"),
        (("--film", "gone/film.html"), "there is no directory gone"),
        (("--port", "70000"), "65535"),
    ],
)
def test_bad_arguments(words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.urdf").write_text(ROBOT, encoding="utf-8")
    robot = () if words[0] == "gone.urdf" else ("robot.urdf",)
    code, _, errors = call(*robot, *words)
    assert code == 2
    assert message in errors


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, errors = call("--port", taken.getsockname()[1])
    assert code == 2
    assert "ViewerError: port" in errors


def test_it_runs_until_it_is_interrupted() -> None:
    code = "import sys; from kinetree.cli import main; sys.argv = ['kinetree', 'view', '--port', '0']; main()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("humanoid24: http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_films_and_pictures_begin_where_a_view_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A robot that floats stands on the floor, not in it."""
    robot, motions = kt.zoo.asimo35(), []
    drawing = sys.modules["kinetree.viewer.film"]

    def kept(path: Path, robot: kt.Model, q: np.ndarray, *_: object, **__: object) -> Path:
        motions.append(q)
        path.touch()
        return path

    monkeypatch.setattr(kt.viewer, "film", kept)
    commands.write_film(tmp_path / "film.html", robot, [], None, False)
    commands.write_film(tmp_path / "film.html", robot, [], robot.neutral(), False)
    black = nullcontext(lambda: np.zeros((2, 2, 3), np.uint8))
    monkeypatch.setattr(
        drawing, "browser", SimpleNamespace(require_browser=list, checked_size=tuple, pictures=lambda *_: black)
    )
    monkeypatch.setattr(drawing, "draw", lambda _scene, _overlays, q, *_: motions.append(q))
    kt.viewer.picture(tmp_path / "robot.png", robot)
    with kt.viewer.View(robot, port=0) as view:
        np.testing.assert_array_equal(motions[0][0], view.q)
        np.testing.assert_array_equal(motions[2], view.q)
    assert motions[0][0, 2] > motions[1][0, 2] == 0.0


@pytest.mark.parametrize("make", [kt.zoo.humanoid24, lambda: kt.zoo.random_tree(12)])
def test_the_sweep_moves_every_joint_through_its_range(make: object) -> None:
    robot = make()  # type: ignore[operator]
    q, time = sweep(robot)
    assert (np.diff(time) > 0.0).all()
    assert time[-1] <= 60.0 + 1e-9
    moved = np.abs(robot.difference(robot.neutral(), q)).max(axis=0)
    assert (moved > 0.0).all()
    for joint in robot.joints:
        if joint.nq == joint.nv:
            own = q[:, joint.q_slice]
            lower, upper = np.array(joint.limits.lower), np.array(joint.limits.upper)
            np.testing.assert_allclose(own.min(axis=0)[np.isfinite(lower)], lower[np.isfinite(lower)], rtol=1e-12)
            np.testing.assert_allclose(own.max(axis=0)[np.isfinite(upper)], upper[np.isfinite(upper)], rtol=1e-12)
