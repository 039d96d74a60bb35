"""Output streams of any encoding, and text that is safe to print whatever a robot file contains."""

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

#: How symbols are spelled where the output's encoding lacks them.
SPELLED = {
    "Λ": "Lambda", "λ": "lambda", "⁻¹": "^-1", "⁻": "^-", "²": "^2", "³": "^3", "ᵀ": "^T", "½": "1/2", "µ": "u",
    "·": "*", "–": "-", "−": "-", "…": "...", "└─": "`-", "├─": "|-", "│": "|",
}  # fmt: skip

_HANDLER = "kinetree.spelled"


def console() -> Console:
    """Standard output. Strings are printed as they are: no markup, no emoji codes, no highlighting."""
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def safe(text: object) -> str:
    """Text of several lines without control characters, which a terminal would obey."""
    return "\n".join(printable(line) for line in str(text).split("\n"))


def line(*parts: str | tuple[str, str]) -> Text:
    """Styled text without control characters.

    Args:
        parts: Strings, or pairs of a string and a style.
    """
    return Text.assemble(*(safe(part) if isinstance(part, str) else (safe(part[0]), part[1]) for part in parts))


def prepare() -> None:
    """Make standard output and error take any text, warnings short, and a closed pipe (`| head`) end the process."""
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    codecs.register_error(_HANDLER, _spell)
    if sys.stdout is None:  # closed by the shell, as in `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)
    warnings.showwarning = lambda message, *_: print(f"warning: {safe(message)}", file=sys.stderr)


def discard() -> None:
    """Send what is still buffered nowhere, after a failure to write it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def _spell(error: UnicodeError) -> tuple[str, int]:
    """A codec error handler: symbols in words, everything else as an escape sequence."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    for symbol, spelled in SPELLED.items():
        text = text.replace(symbol, spelled)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
