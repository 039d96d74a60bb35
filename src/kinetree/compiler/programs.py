"""From an algorithm to a lowered program: trace, simplify, fuse, lay out, lower, hoist.

The identity of an algorithm, with that of everything it wraps, is part of the names of compiled code. A change of the
package's own sources changes every name in the cache. Whatever else takes part in an algorithm may change unnoticed: a
user's recursion that was differentiated, or given its constants as an input, a user's joint. Such algorithms have no
identity, and their code is not kept.

A long program consists of tens of thousands of objects: megabytes, which the garbage collector traverses again and
again. So only the last ones stay as they are: four long ones, or all that a function needs if they are short. Earlier
ones are pickled and compressed to some ten kilobytes; restoring one takes a twentieth of the time of tracing it again.
"""

from __future__ import annotations

import hashlib
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Generic, TypeVar

import numpy as np

from kinetree.compiler.ir import Program
from kinetree.compiler.lower.lower import Lowered, lower
from kinetree.compiler.lower.node_sweeps import sweeps
from kinetree.compiler.passes.fuse import fuse
from kinetree.compiler.passes.hoist import angles, hoist
from kinetree.compiler.passes.simplify import simplify
from kinetree.compiler.trace import trace
from kinetree.compiler.verify import verify
from kinetree.concurrency import ForkSafeLock, gc_paused
from kinetree.language.algorithm import Algorithm
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.node import NodeKind
from kinetree.language.setup import Rows, Variants

#: Packages whose sources, or versions, are part of every name in the cache; the last ones come with Python.
_KNOWN = frozenset({"kinetree", "numpy", "builtins", "math", "operator", "functools"})
_PLAIN = (str, bytes, int, float, complex, type(None), type(...), np.generic)


class Traced:
    """Base of what runs a user's formulas and has a digest of what they compute in its `name`."""

    name: str


class _ForeignError(Exception):
    """Something is not the package's own."""


@lru_cache(maxsize=1024)
def identity(algorithm: Algorithm) -> str | None:
    """A digest that tells an algorithm from others; None if anything of it is not the package's own."""
    try:
        return hashlib.sha256("\n".join(_parts(algorithm, ())).encode()).hexdigest()
    except _ForeignError:
        return None


def is_own_kind(kind: NodeKind) -> bool:
    """Whether a node kind is the package's own, or has a digest of its formulas in its name."""
    try:
        return all(_parts(kind, ()))
    except _ForeignError:
        return False


def _parts(value: Any, above: tuple[int, ...]) -> Iterator[str]:
    """What a value consists of; `above` are the values that it is a part of."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if id(value) in above:  # a function that calls itself
        yield f"above {above[::-1].index(id(value))}"
        return
    inner: tuple[Any, ...]
    if isinstance(value, FunctionType):
        # not __module__, which decorators copy
        place = value.__globals__.get("__name__")
        yield f"function {_known(place)} {value.__qualname__} {value.__code__.co_firstlineno}"
        cells = value.__closure__ or ()
        inner = *(cell.cell_contents for cell in cells), value.__defaults__, value.__kwdefaults__
    elif isinstance(value, (type, BuiltinFunctionType)):
        yield f"{_known(value.__module__)} {value.__qualname__}"
        inner = ()
    elif isinstance(value, MethodType):
        inner = value.__func__, value.__self__
    elif isinstance(value, partial):
        inner = value.func, value.args, value.keywords
    else:
        yield f"{_known(type(value).__module__)} {type(value).__qualname__}"
        inner = _state(value)
    yield f"({len(inner)}"
    for each in inner:
        yield from _parts(each, (*above, id(value)))


def _state(value: Any) -> tuple[Any, ...]:
    """What distinguishes an object from others of its type."""
    if isinstance(value, Traced):
        return (value.name,)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.ufunc):
        return (value.__name__,)
    if isinstance(value, (tuple, list)):
        return tuple(value)
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(value, key=repr))
    if is_dataclass(value):
        return tuple(getattr(value, field.name) for field in fields(value))
    return tuple(vars(value).items())


def _known(module: str | None) -> str:
    if module is None or module.partition(".")[0] not in _KNOWN:
        raise _ForeignError
    return module


Made = TypeVar("Made")

#: Objects that are kept as they are, at least one; results that are kept packed.
LIVE, PACKED = 40_000, 256


class ProgramCache(Generic[Made]):
    """Last results of a function of hashable arguments: some as they are, by their number of objects, 256 packed."""

    def __init__(self, make: Callable[..., Made], size: Callable[[Made], int]) -> None:
        self._make, self._size = make, size
        self._lock = ForkSafeLock()
        self._live: OrderedDict[Hashable, Made] = OrderedDict()
        self._packed: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, *key: Hashable) -> Made:
        """The result for these arguments, kept or made now."""
        with self._lock:
            found = self._live.get(key)
            if found is not None:
                self._live.move_to_end(key)
                return found
            packed = self._packed.get(key)
        made: Made = self._make(*key) if packed is None else _unpacked(packed)
        with self._lock:
            self._live[key] = made
            objects = sum(map(self._size, self._live.values()))
            while objects > LIVE and len(self._live) > 1:
                oldest, least_used = self._live.popitem(last=False)
                objects -= self._size(least_used)
                self._pack(oldest, least_used)
        return made

    def _pack(self, key: Hashable, made: Made) -> None:
        if key not in self._packed:
            try:
                self._packed[key] = zlib.compress(pickle.dumps(made, pickle.HIGHEST_PROTOCOL), 1)
            except (AttributeError, RecursionError, TypeError, pickle.PicklingError):
                return  # a user's algorithm may put anything into a program
        self._packed.move_to_end(key)
        while len(self._packed) > PACKED:
            self._packed.popitem(last=False)


def _unpacked(packed: bytes) -> Any:
    with gc_paused():
        return pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed above


def variants_of(algorithm: Algorithm, mechanism: Mechanism, sites: Sequence[Site]) -> Variants:
    """The variants of an algorithm's loop bodies."""
    variants = Variants.of(mechanism, sites)
    if any("rows" in argument.dimensions for argument in (*algorithm.inputs, *algorithm.outputs)):
        return replace(variants, in_order=Rows(mechanism, sites).in_order)
    return variants


def is_own(algorithm: Algorithm, variants: Variants) -> bool:
    """Whether the algorithm, all that it wraps, and all node kinds are this package's own."""
    return identity(algorithm) is not None and all(is_own_kind(kind) for kind, _ in variants.nodes)


def simplified(algorithm: Algorithm, variants: Variants) -> Program:
    """The traced program, simplified.

    The package's own algorithms are known to keep the rules of the tree language: its tests check each of them.
    """
    with gc_paused():
        return simplify(trace(algorithm, variants, checked=not is_own(algorithm, variants)))


@lru_cache(maxsize=2)
def fused(algorithm: Algorithm, variants: Variants) -> Program:
    """The simplified program with fused multiply-adds: the same for all mechanisms."""
    with gc_paused():
        return fuse(simplified(algorithm, variants))


def lowered(algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None = None) -> Lowered:
    """The lowered program; specialised for one mechanism if its sizes are known."""
    if known is None:
        return _lowered.get(algorithm, variants)
    with gc_paused():
        return _lower(fused(algorithm, variants), algorithm, variants, known)


def _lower(
    program: Program, algorithm: Algorithm, variants: Variants, known: Callable[[str], int] | None = None
) -> Lowered:
    made = lower(program, algorithm, variants, known)
    hoist(made.program)
    if not is_own(algorithm, variants):  # those of the package are verified by its tests
        verify(made.program)
    made.angles, made.sweeps = angles(made.program), sweeps(made.program, made.layout, made.tables)
    return made


def _for_all(algorithm: Algorithm, variants: Variants) -> Lowered:
    with gc_paused():
        program = fuse(simplified(algorithm, variants))
        made = _lower(program, algorithm, variants)
        program.forget(items=True)
    return made


# The same for all lane widths and formats, which are often needed one after another with other functions in between.
_lowered: ProgramCache[Lowered] = ProgramCache(_for_all, lambda made: made.length)
