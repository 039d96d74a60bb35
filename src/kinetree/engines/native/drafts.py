"""Code that runs while LLVM is still optimising it.

LLVM takes a quarter of the time if it does not optimise, and the results have the same bits. So code that somebody
waits for is first compiled in this way, unless it is short. Calls reach this draft through a switch, which leads to the
optimised code as soon as other threads have compiled that. `compile` methods return when all code is optimised, and so
do forks and the end of the process. There are no drafts if there are no other threads, or with `KINETREE_NO_DRAFTS=1`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial

from kinetree.engines.llvm.machine_code import compile_draft, compile_text
from kinetree.engines.llvm.target import Target, host
from kinetree.engines.native import threads
from kinetree.engines.native.jobs import Job
from kinetree.engines.native.linking import Library

#: Characters of assembly that LLVM optimises in about 30 ms. Nobody notices how long less than that takes.
_LARGE = 30_000
#: Functions of a library that has drafts.
_MOST_FUNCTIONS = 3

# Arguments stay in the registers in which they came: there are at most six, of 64 bits each.
_SWITCH = """
@code{0} = dso_local global ptr null
define i64 @switch{0}(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) nounwind {{
  %code = load atomic ptr, ptr @code{0} acquire, align 8
  %result = tail call i64 %code(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %result
}}
"""

_avoided: ContextVar[bool] = ContextVar("kinetree_drafts_avoided", default=False)


@contextmanager
def avoided() -> Iterator[None]:
    """Wait for optimised code inside a `with` block."""
    token = _avoided.set(True)
    try:
        yield
    finally:
        _avoided.reset(token)


def begin(texts: Sequence[str], target: Target) -> list[Job[bytes]] | None:
    """Let other threads begin with drafts of modules; None if it does not pay to have any.

    Args:
        texts: The LLVM assembly of the modules.
        target: The processor to compile for.
    """
    forbidden = _avoided.get() or os.environ.get("KINETREE_NO_DRAFTS", "") not in ("", "0")
    if forbidden or threads.get_threads() == 1 or sum(map(len, texts)) < _LARGE:
        return None
    longest_first = sorted(texts, key=len, reverse=True)
    jobs = threads.begin([partial(compile_draft, text, target) for text in longest_first])
    begun = dict(zip(longest_first, jobs, strict=True))
    return [begun[text] for text in texts]


class Switch(Library):
    """A library whose functions can be replaced while they are in use.

    Args:
        library: Has the first ones.
        symbols: Their names. They take at most six arguments, integers or addresses, and return one or nothing.
    """

    def __init__(self, library: Library, *symbols: str) -> None:
        places = [f"{what}{number}" for number in range(len(symbols)) for what in ("switch", "code")]
        super().__init__([_switches()], *places)
        switches, codes = ([self.address(place) for place in places[start::2]] for start in range(2))
        self._addresses = dict(zip(symbols, switches, strict=True))
        self._codes = {symbol: ctypes.c_void_p.from_address(code) for symbol, code in zip(symbols, codes, strict=True)}
        self._libraries: list[Library] = []  # other threads may be inside any of them
        self.lead_to(library)

    def lead_to(self, library: Library) -> None:
        """Let calls from now on run the functions of a library."""
        self._libraries.append(library)
        for symbol, code in self._codes.items():
            code.value = library.address(symbol)


@lru_cache(maxsize=1)
def _switches() -> bytes:
    return compile_text("".join(_SWITCH.format(number) for number in range(_MOST_FUNCTIONS)), host())
