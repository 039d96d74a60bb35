"""Compiled kernels of an algorithm for one set of node kinds: from the cache on disk, or traced and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kinetree.engines.ir import Op, Output, Program, verify, walk
from kinetree.engines.native import cache, target
from kinetree.engines.native.binding import Binding, Operand
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.emit import emit
from kinetree.engines.native.layout import Layout, tables
from kinetree.engines.native.locks import Lock
from kinetree.engines.native.machine_code import Library, compile_text
from kinetree.engines.simplify import fuse, simplify
from kinetree.engines.trace import trace
from kinetree.engines.variants import Variants
from kinetree.recursion.algorithm import Algorithm, Argument
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.rows import Rows


class Kernels:
    """The kernels of one algorithm for one set of variants; all robots with these variants share them."""

    def __init__(self, algorithm: Algorithm, variants: Variants) -> None:
        self.algorithm, self.variants = algorithm, variants
        self._lock = Lock()
        self._libraries: dict[tuple[int, target.Target], Library] = {}
        self._metadata: dict[str, Any] = {}

    def text(self, width: int, chosen: target.Target) -> tuple[str, dict[str, Any]]:
        """LLVM assembly for a lane width, and the sizes of records and arrays that go with it."""
        program, layout = _prepared(self.algorithm, self.variants)
        text = emit(program, self.algorithm, self.variants, layout, width, chosen.width)
        loads = [item.attr for _, item in walk(program.top) if isinstance(item, Op) and item.code == "load"]
        reread = sorted({place.number for place in loads if isinstance(place, Output)})
        return text, {**layout.metadata(), "reread": reread}

    def library(self, width: int) -> Library:
        """Machine code for a lane width on the current target."""
        chosen = target.current()
        with self._lock:
            if (width, chosen) not in self._libraries:
                name = _cache_name(self, width, chosen)
                cached = cache.load(name) if name else None
                if cached is None:
                    text, metadata = self.text(width, chosen)
                    code = compile_text(text, chosen)
                    if name:
                        cache.store(name, metadata, code)
                else:
                    metadata, code = cached
                self._metadata = metadata
                self._libraries[width, chosen] = Library(code, "kernel")
            return self._libraries[width, chosen]

    def metadata(self) -> dict[str, Any]:
        """Sizes of records and arrays, which are the same for all widths."""
        if not self._metadata:
            self.library(1)
        return self._metadata


@lru_cache(maxsize=2)
def _prepared(algorithm: Algorithm, variants: Variants) -> tuple[Program, Layout]:
    """A program, ready to be emitted: the same for all lane widths, which are most often asked for in a row."""
    program = trace(algorithm, variants)
    for stage in (simplify, fuse):
        verify(program)
        program = stage(program)
    verify(program)
    return program, Layout.of(program, variants)


def _cache_name(kernels: Kernels, width: int, chosen: target.Target) -> str | None:
    """Where compiled code is kept. Only the library's own: a change of anybody else's sources could go unnoticed."""
    authors = {kernels.algorithm.run.__module__, *(type(kind).__module__ for kind, _ in kernels.variants.nodes)}
    if not all(author.startswith("kinetree.") for author in authors):
        return None
    return cache.key("kernel", kernels.algorithm.name, kernels.variants.key, width, chosen)


def kernels(algorithm: Algorithm, variants: Variants) -> Kernels:
    """The kernels of an algorithm for a set of variants, made once per process."""
    with _making:
        return _made(algorithm, variants)


_making = Lock()
_made = lru_cache(maxsize=256)(Kernels)


def bind(
    algorithm: Algorithm,
    mechanism: Mechanism,
    sites: Sequence[Site],
    name: str,
    single: bool = False,
    bundle: type[tuple[Any, ...]] = tuple,
) -> Compiled:
    """A callable of NumPy arrays for one mechanism and choice of frames.

    Inputs that are empty for this choice (wrenches of no frames) are left out of its signature.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames asked for.
        name: What users call the function, for messages.
        single: There is one frame, and results have no axis for it.
        bundle: What several results come in.
    """
    variants = Variants.of(mechanism, sites)
    if any("rows" in argument.dimensions for argument in (*algorithm.inputs, *algorithm.outputs)):
        variants = replace(variants, in_order=Rows(mechanism, sites).in_order)
    made = kernels(algorithm, variants)
    constants, table, workspace = tables(algorithm, variants, mechanism, sites, made.metadata())
    sizes = algorithm.sizes(mechanism, sites)

    def operand(argument: Argument, unread: bool = False) -> Operand:
        dimensions = [d for d in argument.dimensions if not (single and d == "frames")]
        shape = replace(argument, dimensions=tuple(dimensions)).shape(sizes)
        return Operand(argument.name, shape, zeroed=argument.sparse, symmetric=argument.symmetric, unread=unread)

    inputs = tuple(operand(a) for a in algorithm.inputs if sites or "frames" not in a.dimensions)
    reread = made.metadata()["reread"]
    outputs = tuple(operand(a, number not in reread) for number, a in enumerate(algorithm.outputs))
    return Compiled(Binding(name, inputs, outputs, constants, table, workspace, bundle), made.library)
