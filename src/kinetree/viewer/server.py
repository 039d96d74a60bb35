"""A viser server that only this machine can reach, and that downloads and shares nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kinetree.errors import InputError, ViewerError

#: The only address on which the server listens.
HOST = "127.0.0.1"

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
        ViewerError: If the port is in use.
    """
    if isinstance(port, bool) or not isinstance(port, (int, np.integer)) or not 0 <= port <= _LAST_PORT:
        raise InputError(f"port={port!r} is no port: choose a number from 1 to {_LAST_PORT}, or 0 for any that is free")
    try:
        import viser
    except ModuleNotFoundError as error:
        raise ImportError(_INSTALL) from error

    # otherwise any page could request a public tunnel from viser's own server
    local = type("Local", (viser.ViserServer,), {"request_share_url": _share_nothing})
    with _quiet():
        server = local(host=HOST, port=port, label=title, verbose=False)
    if port and server.get_port() != port:  # viser silently takes the next free port
        stop(server)
        raise ViewerError(
            f"port {port} of {HOST} is in use, by another viewer perhaps; close it, or choose another port (0: any)"
        )
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(66, 114, 166))
    return server


def _share_nothing(_server: Any, *_: Any, **__: Any) -> None:
    """Replaces the method that requests a public address from a server run by viser's developers."""


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
