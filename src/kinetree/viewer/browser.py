"""Pictures of a scene, drawn by a browser without a window, and their encoding as a video.

viser draws in the browser. So a Chromium or Chrome that is installed opens the page, and returns what it draws; it can
reach nothing but this machine.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from kinetree.errors import InputError, ViewerError
from kinetree.spatial.value import Array

#: Names of programs that can draw.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")

_FLAGS = (
    "--headless",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    # WebGL in software
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--hide-scrollbars",
    "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
#: Starts a browser once its number is in a pipe.
_START = 'echo $$; exec "$@" >/dev/null'
#: Ends that browser and removes its files when the pipe from this program closes, even because the program is killed.
_WATCH = 'read -r browser; read -r _; kill "$browser"; sleep 1; kill -KILL "$browser"; rm -rf -- "$1"'
#: How long a browser may take to open the page, and to draw it: without a graphics card, on a busy machine [s].
_PATIENCE = 300.0
#: Side of a picture [pixels]; encoders need even numbers.
_SIDES = range(16, 7681)


def checked_size(size: Any) -> tuple[int, int]:
    """Width and height of a picture [pixels].

    Raises:
        InputError: These are not two even numbers in range.
    """
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError):
        raise InputError(f"size={size!r} is width and height in pixels, such as (1280, 720)") from None
    if not {width, height} <= set(_SIDES) or width % 2 or height % 2:
        raise InputError(f"size={size!r}: both are even numbers from {_SIDES.start} to {_SIDES.stop - 1}")
    return width, height


def require_browser() -> str:
    """The path of a browser.

    Raises:
        ViewerError: There is none.
    """
    for name in BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise ViewerError(
        "pictures and .mp4 files are drawn by Chromium or Chrome, and neither is on the PATH; install one, or write an "
        ".html film, which needs none"
    )


def require_encoder() -> str:
    """The path of ffmpeg: the system's, or that of imageio-ffmpeg.

    Raises:
        ImportError: There is none.
    """
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        raise ImportError('.mp4 files need ffmpeg; install it, or pip install "kinetree[video]"') from None
    return str(imageio_ffmpeg.get_ffmpeg_exe())


class Pictures:
    """What a browser draws of a server's scene, as arrays of colours."""

    def __init__(self, client: Any, width: int, height: int) -> None:
        self._client, self._width, self._height = client, width, height

    def __call__(self) -> Array:
        """The scene as it is now on white, (height, width, 3), uint8."""
        # the browser handles messages in their order: what was drawn before is in the picture
        drawn = self._client.get_render(height=self._height, width=self._width, transport_format="png")
        opacity = drawn[..., 3:].astype(np.uint16)
        blended: Array = ((drawn[..., :3] * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
        return blended


def _shell(script: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a script of ours with arguments."""
    command = ["/bin/sh", "-c", script, "sh", *words]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)  # noqa: S603 - no words of others


@contextmanager
def pictures(server: Any, width: int, height: int) -> Iterator[Pictures]:
    """Open a server's page in a browser without a window."""
    browser = require_browser()
    # a browser connects ahead of time and leaves, which the library of the server reports as an error
    log = logging.getLogger("websockets.server")
    level = log.level
    with tempfile.TemporaryDirectory(prefix="kinetree-", ignore_cleanup_errors=True) as profile:
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium's sandbox refuses root
        # the page would lower its resolution while it is slow
        address = f"http://127.0.0.1:{server.get_port()}/?fixedDpr=1"
        log.setLevel(logging.CRITICAL)
        # Ctrl-C does not reach a session of its own
        watch = _shell(_WATCH, profile, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        flags = [*_FLAGS, *root, f"--user-data-dir={profile}", f"--window-size={width},{height}", address]
        process = _shell(_START, browser, *flags, stdout=watch.stdin)
        try:
            look = Pictures(_client(server, process, browser), width, height)
            _settle(look)
            yield look
        finally:
            process.terminate()
            process.wait()
            watch.kill()
            watch.wait()
            cast("IO[bytes]", watch.stdin).close()
            log.setLevel(level)


def _client(server: Any, process: Any, browser: str) -> Any:
    """The browser as a client of the server, once its camera is where it should be."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        for client in server.get_clients().values():
            if np.allclose(client.camera.position, server.initial_camera.position, rtol=0.0, atol=1e-6):
                return client
        if process.poll() is not None:
            raise ViewerError(f"{browser} ended with exit code {process.returncode} before it showed the scene")
        time.sleep(0.05)
    raise ViewerError(f"{browser} did not open the viewer's page within {_PATIENCE:.0f} s")


def _settle(look: Pictures) -> None:
    """Draw until two pictures in a row are the same: first ones may lack lights, shapes and shadows."""
    end, before, same = time.monotonic() + _PATIENCE, look(), 0
    while time.monotonic() < end:
        now = look()
        same = same + 1 if np.array_equal(now, before) else 0
        if same > (2 if now.min() == now.max() else 0):  # what is blank may still be loading, or be all there is
            return
        before = now
    raise ViewerError(f"the browser has not finished drawing the scene within {_PATIENCE:.0f} s")


@contextmanager
def video(path: Path, width: int, height: int, rate: float) -> Iterator[Any]:
    """A file that takes raw pictures, one after another, and encodes them as H.264."""
    command = [
        require_encoder(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
        "-r", f"{rate:g}", "-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart",
        os.fspath(path),
    ]  # fmt: skip
    process = subprocess.Popen(  # noqa: S603 - ffmpeg, with numbers and a path of the caller's
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    pipe, complaints = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stderr)
    try:
        yield pipe
    finally:
        pipe.close()
        trouble = complaints.read().decode(errors="replace").strip()
        complaints.close()
        if process.wait():
            raise ViewerError(f"{os.fspath(path)}: ffmpeg could not write it: {trouble}")
