"""Pauses Python's garbage collector during compilation.

A program consists of tens of thousands of small objects. As their number grows, the collector traverses all of them
again and again, and takes as long as tracing and simplifying together.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pausing = 0
_was_enabled = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector inside a `with` block. It resumes when the last thread leaves its block."""
    global _pausing, _was_enabled
    with _lock:
        if not _pausing:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pausing += 1
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if not _pausing and _was_enabled:
                gc.enable()
