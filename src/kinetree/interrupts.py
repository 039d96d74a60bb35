"""Ctrl-C: one line and the usual exit code of an interrupted command, instead of a traceback.

The script `kinetree` imports the library, which takes a few tenths of a second, before it calls `main`. So the library
imports this module before anything else. It has no effect in other programs.
"""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType
from typing import NoReturn

#: Exit code of the command if the arguments, the file or the output cannot be used; 1 is a failed check.
UNUSABLE = 2


def end() -> NoReturn:
    """Terminate the command."""
    sys.stderr.write("interrupted\n")
    sys.exit(128 + signal.SIGINT)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        end()
    sys.__excepthook__(kind, error, trace)


if getattr(sys, "argv", None) and os.path.splitext(os.path.basename(sys.argv[0]))[0] == "kinetree":
    sys.excepthook = _report
