"""Compiles for a second processor what this process compiles for its own, and puts both into the cache.

An emulated processor takes twenty times as long to compile, for the same bytes: a compiled kernel depends on the
package's sources, the versions of NumPy and llvmlite, and the processor it is for, but not on the one that compiles it.

The environment variable `KINETREE_ALSO_FOR` describes the processor, for `tools.bits` and for tests, as a plugin of
pytest: `-p tools.cross_compile`.
"""

from __future__ import annotations

import os
from unittest import mock

from kinetree.compiler import cache
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.machine_code import compile_text
from kinetree.compiler.lower.node_schedule import LANES
from kinetree.runtime import compile_queue, kernels
from kinetree.runtime.compile_queue import Library


def described(text: str) -> machine_code.Processor:
    """The processor of a description "triple|cpu|features|width"."""
    triple, cpu, features, width = text.split("|")
    return machine_code.Processor(triple, cpu, features, int(width))


def pytest_configure() -> None:
    """Compile what the tests compile for a second processor, too."""
    on_request()


def on_request() -> None:
    """Compile for the processor that the environment describes, if it does."""
    if text := os.environ.get("KINETREE_ALSO_FOR"):
        also_for(described(text))


def also_for(second: machine_code.Processor) -> None:
    """From now on, compile every kernel also for a second processor."""
    machine_code.llvm().initialize_all_targets()
    machine_code.llvm().initialize_all_asmprinters()
    library = kernels.Kernels.library

    def both(self: kernels.Kernels, width: int, node_lanes: bool = False) -> Library:
        found = library(self, width, node_lanes)
        lanes, node_lanes = min(width, second.width), node_lanes and second.width >= LANES
        name = self._name(lanes, node_lanes)
        if name is not None and cache.load(key := cache.key(*name, second)) is None:
            texts, metadata = self.modules(lanes, second, node_lanes)
            modules = compile_queue.Modules(texts, second, cached=True)
            modules.store(key, metadata, [compile_text(text, second) for text in modules.missing])
        return found

    mock.patch.object(kernels.Kernels, "library", both).start()
