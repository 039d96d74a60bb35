"""Code that runs while LLVM is still optimising it.

LLVM takes a quarter of the time if it does not optimise, and the results have the same bits. So if somebody waits for a
large kernel, it is first compiled in this way. Calls reach this draft through a switch, which leads to the optimised
code as soon as other threads have compiled that. `compile` methods return when all code is optimised, and so do forks
and the end of the process. There are no drafts if there are no other threads, or with `KINETREE_NO_DRAFTS=1`.
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

#: Characters of assembly that LLVM optimises in about 50 ms. Nobody notices how long less than that takes.
_LARGE = 100_000

_SWITCH = """
@code = dso_local global ptr null
define void @kernel(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs) nounwind {
  %code = load atomic ptr, ptr @code acquire, align 8
  tail call void %code(ptr %ws, ptr %params, ptr %tables, ptr %in, ptr %outs)
  ret void
}
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
    """A library whose function `kernel` can be replaced while it is in use.

    Args:
        library: Has the first one.
    """

    def __init__(self, library: Library) -> None:
        super().__init__([_switch()], "kernel", "code")
        self._code = ctypes.c_void_p.from_address(super().address("code"))
        self._libraries: list[Library] = []  # other threads may be inside any of them
        self.lead_to(library)

    def lead_to(self, library: Library) -> None:
        """Let calls from now on run the kernel of a library."""
        self._libraries.append(library)
        self._code.value = library.address("kernel")


@lru_cache(maxsize=1)
def _switch() -> bytes:
    return compile_text(_SWITCH, host())
