"""The command `kinetree`. It needs the extra `cli`; the library itself does not."""

from __future__ import annotations

import sys
from typing import Any

INSTALL = 'pip install "kinetree[cli]"'

_EXTRA = ("rich", "typer")


def main() -> None:
    """Run the command line."""
    try:
        from kinetree.cli.commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        sys.exit(f"The command line needs {error.name}, which is not installed. Install it with:\n\n    {INSTALL}")
    app()


def __getattr__(name: str) -> Any:
    # `app` is made when asked for, so that a missing extra is reported by `main` and not by an import
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kinetree.cli.commands import app

    return app
