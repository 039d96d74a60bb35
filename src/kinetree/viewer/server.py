"""A viser server that only this machine can reach, and that downloads and shares nothing.

Pages of other sites, shown by a browser on this machine, can reach it, too: through a websocket, or under a name of
theirs that leads here. Browsers tell what a page is and what it asked for. So requests are refused whose `Origin` or
`Host` is not a name of this server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import numpy as np

from kinetree.errors import InputError, ViewerError

#: The only address on which the server listens.
HOST = "127.0.0.1"

#: Names of the address in requests.
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # left out of addresses
_LAST_PORT = 65535
_INSTALL = 'kinetree.viewer needs viser: pip install "kinetree[viewer]"'


def start(port: int, title: str) -> Any:
    """A `viser.ViserServer` on the loopback address.

    Args:
        port: Port to listen on; 0 selects any free port.
        title: Title shown above the controls.

    Raises:
        ImportError: If viser is not installed.
        InputError: If there is no such port.
        ViewerError: If the port is in use, or this version of viser cannot be made to refuse other pages.
    """
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
