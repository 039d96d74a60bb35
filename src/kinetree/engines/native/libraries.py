"""Machine code by what it does: from the cache on disk, or compiled and kept there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetree.engines.native import cache
from kinetree.engines.native.machine_code import Library, compile_text
from kinetree.engines.native.target import Target


def find_or_compile(
    what: tuple[object, ...] | None, target: Target, text: Callable[[], tuple[str, dict[str, Any]]], *symbols: str
) -> tuple[Library, dict[str, Any]]:
    """Load a library.

    Args:
        what: What distinguishes its code, besides the version of this package and the target; None if it must not be
            kept on disk.
        target: The processor that it is for.
        text: Makes its LLVM assembly, and whatever else is to be known of it, fit for JSON.
        symbols: The functions whose addresses are wanted.
    """
    name = None if what is None else cache.key(*what, target)
    found = cache.load(name)
    if found is None:
        source, metadata = text()
        code = compile_text(source, target)
        cache.store(name, metadata, code)
    else:
        metadata, code = found
    return Library(code, *symbols), metadata
