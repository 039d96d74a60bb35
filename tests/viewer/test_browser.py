"""The viewer in Chromium without a window, driven over the DevTools protocol.

Nothing leaves this machine, sliders move the robot, films play.
"""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import kinetree as kt
from kinetree.cli import box
from kinetree.viewer import View, film
from tests.oracle import oracle, program

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # the page draws with WebGL, in software
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=1000,700",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    # the browser's own wishes, and those of a page at fault, end here
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

#: How long anything may take on a busy machine [s].
PATIENCE = 90.0


def within(what: str, condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true, and return what it gave."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE:.0f} s")


class Page:
    """One tab."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self.requests: list[str] = []  # addresses of everything that the page asked for, sockets included
        self.errors: list[str] = []  # what went wrong in the page's scripts
        for domain in ("Network", "Page", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; events that come meanwhile are noted."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        kind, parameters = message.get("method"), message.get("params", {})
        if kind == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif kind == "Network.webSocketCreated":
            self.requests.append(parameters["url"])
        elif kind == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))

    def open(self, url: str) -> None:
        """Go to an address, and wait until something is drawn."""
        self.call("Page.navigate", url=url)
        within("a canvas", lambda: self.run("document.querySelector('canvas') !== null"))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def press(self, key: str, code: int, times: int = 1) -> None:
        """Press a key."""
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, file: Path | None = None) -> bytes:
        """A screenshot, PNG."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if file is not None:
            file.write_bytes(data)
        return data

    def settled(self, file: Path | None = None) -> bytes:
        """A screenshot of a page that does not change any more: scenes fade in."""
        last = self.picture()

        def still() -> bytes | None:
            nonlocal last
            time.sleep(1.0)
            before, last = last, self.picture(file)
            return last if last == before else None

        return within("a picture that stays", still)

    def external(self) -> list[str]:
        """Requests that left this machine."""
        self.run("1")  # collects events until now
        return [url for url in self.requests if not _local(url)]


def _local(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme in ("data", "blob", "file", "about") or parts.hostname == "127.0.0.1"


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with a new directory for its data, where `netlog.json` lists what all of it asked the network for."""
    from websockets.sync.client import connect

    profile.mkdir()

    log = profile / "netlog.json"
    command = [
        program("chromium", "chromium-browser", "google-chrome"),
        *FLAGS,
        f"--user-data-dir={profile}",
        f"--log-net-log={log}",
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = profile / "DevToolsActivePort"
        within("the port of DevTools", lambda: port_file.exists() and port_file.read_text().strip())
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE) as answer:
            tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
        with connect(tabs[0]["webSocketDebuggerUrl"], max_size=None) as socket:
            page = Page(socket)
            yield page
            page.call("Browser.close")  # unlike a signal, this lets it finish its log
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)


oracle("viser")

RIGHT = ("ArrowRight", 39)


def asked_for(log: Path) -> set[str]:
    """What pages and their workers asked the network for, by the browser's log; without the browser's own wishes."""
    content = json.loads(log.read_text(encoding="utf-8"))
    start = content["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    jobs = [
        event["params"] for event in content["events"] if event["type"] == start and "url" in event.get("params", {})
    ]
    return {job["url"] for job in jobs if job["initiator"] != "not an origin"}


def changed(one: bytes, other: bytes, right: float) -> int:
    """The number of pixels of two screenshots that differ clearly, left of the control panel and below notices."""
    first, second = (np.asarray(Image.open(BytesIO(data)).convert("RGB"), dtype=int) for data in (one, other))
    apart = np.abs(first - second).max(axis=-1)[180:-60, : int(right) - 190]
    return int((apart > 40).sum())


def sliders(page: Page) -> int:
    count: int = page.run("document.querySelectorAll('[role=slider]').length")
    return count


def test_a_slider_moves_the_robot_and_nothing_leaves_this_machine(tmp_path: Path) -> None:
    robot = kt.zoo.double_pendulum()
    heard = []
    with View(robot, port=0) as view, browser(tmp_path / "profile") as page:
        view.on_change(heard.append)
        page.open(view.url)
        within("two sliders", lambda: sliders(page) == 2)
        before = page.settled()
        panel = page.run("document.querySelector('[role=slider]').getBoundingClientRect().left")
        page.run("document.querySelectorAll('[role=slider]')[0].focus()")
        page.press(*RIGHT, times=40)
        within("the slider's value", lambda: view.q[0] > 0.3)
        assert view.q[1] == 0.0
        within("what is told", lambda: heard and heard[-1][0] == view.q[0])
        # pixels of the robot change, beside the panel and below the notices
        within("another picture of the robot", lambda: changed(before, page.picture(), panel) > 200)
        view.show([0.0, 1.0])
        shown = "[...document.querySelectorAll('[role=slider]')].map(one => one.getAttribute('aria-valuenow')).join()"
        within("the sliders follow the program", lambda: page.run(shown) == "0,1")
        assert page.external() == []
        assert page.errors == []
        assert "share" not in page.run("document.body.innerText").lower()
    socket = f"ws://{view.url.removeprefix('http://')}/"
    assert asked_for(tmp_path / "profile" / "netlog.json") == {socket}


#: What a page of another site would try; `answer` tells how it ended.
HOSTILE = """
window.answer = null;
const socket = new WebSocket("ws://127.0.0.1:{port}", ["viser-v{version}"]);
socket.onmessage = event => {{ window.answer = "received the scene"; }};
socket.onerror = event => {{ window.answer = "refused"; }};
"""


def test_a_page_of_another_site_does_not_get_the_scene(tmp_path: Path) -> None:
    import viser

    (tmp_path / "index.html").write_text("<p>another site</p>")
    other = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=other.serve_forever, daemon=True).start()
    with other, View(kt.zoo.double_pendulum(), port=0) as view, browser(tmp_path / "profile") as page:
        port = int(view.url.rpartition(":")[2])
        page.call("Page.navigate", url=f"http://127.0.0.1:{other.server_port}/index.html")
        within("the other site", lambda: page.run("document.body.innerText") == "another site")
        page.run(HOSTILE.format(port=port, version=viser.__version__))
        assert within("an answer", lambda: page.run("window.answer")) == "refused"
        other.shutdown()
        page.open(view.url)
        page.run(HOSTILE.format(port=port, version=viser.__version__))
        assert within("an answer", lambda: page.run("window.answer")) == "received the scene"


def test_a_film_opens_and_plays_without_a_server(tmp_path: Path) -> None:
    robot = kt.zoo.double_pendulum()
    path = film(tmp_path / "film.html", robot, [[0.0, 0.0], [2.0, 1.0], [-2.0, -1.0]], [0.0, 30.0, 60.0])
    with browser(tmp_path / "profile") as page:
        page.open(path.as_uri())
        within("the bar to scrub along", lambda: sliders(page) == 1)
        position = "Number(document.querySelector('[role=slider]').getAttribute('aria-valuenow'))"
        within("the beginning", lambda: page.run(position) > 0.0)
        first = page.picture()
        start = page.run(position)
        within("the film plays", lambda: page.run(position) > start + 1.0)
        within("another picture of the robot", lambda: changed(first, page.picture(), 1190.0) > 200)
        assert page.external() == []
        assert not [url for url in page.requests if url.startswith(("http", "ws"))]
        assert page.errors == []
    assert asked_for(tmp_path / "profile" / "netlog.json") == set()


def test_a_page_that_fetches_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(
        "<canvas></canvas><img src='http://fonts.invalid/a.png'><script>new Worker(URL.createObjectURL(new Blob(["
        "'fetch(\"http://worker.invalid/\").catch(() => 0)'])))</script>"
    )
    with browser(tmp_path / "profile") as page:
        page.open(file.as_uri())
        within("the picture is asked for", lambda: page.external() == ["http://fonts.invalid/a.png"])
        within("and given up", lambda: page.run("document.images[0].complete"))
        time.sleep(1.0)
    assert asked_for(tmp_path / "profile" / "netlog.json") == {"http://fonts.invalid/a.png", "http://worker.invalid/"}


def test_the_box_experiment_waits_for_its_audience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kinetree box --view` starts when a page is open, moves what it shows, and keeps it until it is closed."""
    robot = kt.zoo.double_pendulum()
    started = threading.Event()

    def run(_: object, watch: Callable[..., None]) -> str:
        started.set()
        for now in (0.0, 0.01, 0.1, 0.5):
            watch(now, np.array([2.0 * now, 1.0]), np.zeros(2), None)
        return "film"

    monkeypatch.setattr(box, "run", run)
    found: list[object] = []
    with View(robot, port=0) as view:
        setup: Any = None

        def show() -> None:
            found.append(box.watched(setup, view))
            box.stay(view)
            found.append("closed")

        thread = threading.Thread(target=show)
        thread.start()
        assert not started.wait(0.3)
        with browser(tmp_path / "profile") as page:
            page.open(view.url)
            within("the end of the run", lambda: found == ["film"])
            np.testing.assert_array_equal(view.q, [1.0, 1.0])
            assert page.external() == []
        within("the end of the page", lambda: found == ["film", "closed"])
        thread.join()
