"""Output streams of any encoding, and strings that are safe to print whatever a robot file contains."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
import warnings

from rich.console import Console
from rich.text import Text

from kinetree.model.printing import printable

#: ASCII spellings of symbols that the output's encoding lacks.
SPELLED = {
    "Λ": "Lambda", "λ": "lambda", "⁻¹": "^-1", "⁻": "^-", "²": "^2", "³": "^3", "ᵀ": "^T", "½": "1/2", "µ": "u",
    "·": "*", "–": "-", "−": "-", "…": "...", "└─": "`-", "├─": "|-", "│": "|",
}  # fmt: skip

_HANDLER = "kinetree.spelled"


def console() -> Console:
    """Standard output. Strings are printed verbatim: no markup, no emoji codes, no highlighting."""
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def safe(text: object) -> str:
    """A string, possibly of several lines, with terminal control characters escaped."""
    return "\n".join(printable(line) for line in str(text).split("\n"))


def line(*parts: str | tuple[str, str]) -> Text:
    """A styled line without control characters.

    Args:
        parts: Strings, or pairs of a string and a style.
    """
    return Text.assemble(*(safe(part) if isinstance(part, str) else (safe(part[0]), part[1]) for part in parts))


def prepare() -> None:
    """Make standard output and error accept any character, shorten warnings, and exit on a closed pipe (`| head`)."""
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    codecs.register_error(_HANDLER, _spell)
    if sys.stdout is None:  # closed by the shell, e.g. `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)
    warnings.showwarning = lambda message, *_: print(f"warning: {safe(message)}", file=sys.stderr)


def discard() -> None:
    """Discard buffered output after a failure to write it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: spells out symbols and escapes everything else."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    for symbol, spelled in SPELLED.items():
        text = text.replace(symbol, spelled)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
