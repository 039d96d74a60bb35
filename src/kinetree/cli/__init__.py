"""The command `kinetree`. It requires the extra `cli`; the library itself does not.

Exit codes: 0, everything passed; 1, a check failed; 2, unusable arguments or file, or the output cannot be written;
128 plus the signal number if interrupted by a signal, as usual in shells.
"""

from __future__ import annotations

import sys
from typing import Any

from kinetree.errors import KinetreeError
from kinetree.interrupts import UNUSABLE, end

INSTALL = 'pip install "kinetree[cli]"'

_EXTRA = ("rich", "typer")


def main() -> None:
    """Run the command line."""
    try:
        _main()
    except KeyboardInterrupt:
        end()


def _main() -> None:
    try:
        from kinetree.cli.commands import app
        from kinetree.cli.terminal import discard, prepare, safe
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        sys.exit(f"The command line needs {error.name}, which is not installed. Install it with:\n\n    {INSTALL}")
    try:
        prepare()
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a failure can still be reported
    except KinetreeError as error:
        print(f"{type(error).__name__}: {safe(error)}", file=sys.stderr)
    except MemoryError:
        print("not enough memory; try a smaller --batch or --samples", file=sys.stderr)
    except OSError as error:  # e.g. the disk is full
        discard()
        print(f"cannot write the output: {error.strerror}", file=sys.stderr)
    sys.exit(UNUSABLE)


def __getattr__(name: str) -> Any:
    # `app` is created on first access, so that a missing extra is reported by `main` and not by an import
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kinetree.cli.commands import app

    return app
