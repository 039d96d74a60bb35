"""Chromium without a window, driven over the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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


def chromium() -> str:
    """The browser; without it the test is skipped, and fails on a build machine."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    reason = "Chromium is not installed: make programs, or apt-get install chromium"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def within(what: str, condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true, and return what it gave."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE:.0f} s")


class Page:
    """One tab.

    Attributes:
        requests: Addresses of everything that the page asked for, sockets included.
        errors: What went wrong in the page's scripts.
    """

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
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
    """A browser with a new profile.

    Args:
        profile: A new directory to keep its data in. `netlog.json` in it lists what the whole browser asked the network
            for.
    """
    from websockets.sync.client import connect

    profile.mkdir()

    log = profile / "netlog.json"
    command = [chromium(), *FLAGS, f"--user-data-dir={profile}", f"--log-net-log={log}", "about:blank"]
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
