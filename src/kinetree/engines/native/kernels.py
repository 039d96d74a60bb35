"""Compiled kernels of an algorithm for one set of node kinds: from the cache on disk, or traced and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kinetree.engines.layout import Tables
from kinetree.engines.native import cache, target
from kinetree.engines.native.binding import Binding, Operand
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.emit import emit
from kinetree.engines.native.locks import Lock
from kinetree.engines.native.machine_code import Library, compile_text
from kinetree.engines.pipeline import lowered, variants_of
from kinetree.recursion.algorithm import Algorithm, Argument
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.recursion.variants import Variants


class Kernels:
    """The kernels of one algorithm for one set of variants; all robots with these variants share them."""

    def __init__(self, algorithm: Algorithm, variants: Variants) -> None:
        self.algorithm, self.variants = algorithm, variants
        self._lock = Lock()
        self._libraries: dict[tuple[int, target.Target], Library] = {}
        self._metadata: dict[str, Any] = {}

    def text(self, width: int, chosen: target.Target) -> tuple[str, dict[str, Any]]:
        """LLVM assembly for a lane width, and the sizes of records and arrays that go with it."""
        program = lowered(self.algorithm, self.variants)
        return emit(program, width, chosen.width), program.metadata

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
    variants = variants_of(algorithm, mechanism, sites)
    made = kernels(algorithm, variants)
    tables = Tables(algorithm, variants, mechanism, sites, made.metadata())
    packed, workspace = tables.packed()
    sizes = algorithm.sizes(mechanism, sites)

    def operand(argument: Argument, unread: bool = False) -> Operand:
        dimensions = [d for d in argument.dimensions if not (single and d == "frames")]
        shape = replace(argument, dimensions=tuple(dimensions)).shape(sizes)
        return Operand(argument.name, shape, zeroed=argument.sparse, symmetric=argument.symmetric, unread=unread)

    inputs = tuple(operand(a) for a in algorithm.inputs if sites or "frames" not in a.dimensions)
    reread = made.metadata()["reread"]
    outputs = tuple(operand(a, number not in reread) for number, a in enumerate(algorithm.outputs))
    return Compiled(Binding(name, inputs, outputs, tables.constants, packed, workspace, bundle), made.library)
