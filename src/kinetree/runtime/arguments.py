"""Checks of inputs and of `out=`, the same for all engines.

An input is anything that NumPy converts to an array of numbers without losing information. `out=` is an array of
exactly the result's shape and type, or a tuple of them if the function has several results. No two of its numbers share
memory; they may share it with inputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.runtime.buffers import physical_memory
from kinetree.spatial.value import Array

_FLOAT64 = np.dtype(np.float64)


def number(
    name: str,
    value: Any,
    least: float = -np.inf,
    what: str = "a finite number",
    above: float = -np.inf,
    below: float = np.inf,
) -> float:
    """A finite number that a user gives, as a float: from integers and NumPy's numbers, but not from truth values."""
    given = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool):
        try:
            converted = float(given)
        except OverflowError:  # an integer beyond all floats
            converted = np.nan
        if least <= converted and above < converted < below:
            return converted
    raise InputError(f"{name}={value!r} is not {what}")


def whole(name: str, value: Any, least: int = 1, what: str = "a positive number") -> int:
    """A whole number that a user gives, at least as large as `least`, but no truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}={value!r} is not {what}")
    return int(value)


def numbers(function: str, name: str, value: Any, kinds: str = "fiu") -> Array:
    """An argument as an array of accepted kinds, as NumPy's letters."""
    array = value if type(value) is np.ndarray else _converted(function, name, value)
    if array.dtype.kind not in kinds:
        expected = "real numbers" if "c" not in kinds else "numbers"
        raise InputError(f"{function}: {name} has dtype {array.dtype}, expected {expected}")
    return array


def _converted(function: str, name: str, value: Any) -> Array:
    if _is_masked(value):
        raise InputError(f"{function}: {name} is a masked array, and its mask would be lost; fill it: {name}.filled(0)")
    refuse_lazy(f"{function}: {name}", value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{function}: {name} is not an array of numbers ({error})") from None


def _is_masked(value: Any) -> bool:
    """Whether this is a masked array. There is none before `numpy.ma` is imported, which takes 10 ms."""
    return isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


#: Types of arguments that are certainly not lazy.
PLAIN = frozenset({np.ndarray, float, int, str, np.float64, np.float32, type(None)})


def is_lazy(value: Any) -> bool:
    """Whether this is a Dask collection or xarray object, or a mapping that has one."""
    if type(value) in PLAIN or isinstance(value, (list, tuple)):
        return False
    if type(value) is dict and PLAIN.issuperset(map(type, value.values())):
        return False
    graph = getattr(value, "__dask_graph__", None)
    if graph is None:
        return isinstance(value, Mapping) and any(map(is_lazy, value.values()))
    return callable(graph) and (is_xarray(value) or graph() is not None)


def is_xarray(value: Any) -> bool:
    """Whether this is an object of xarray, which need not be installed."""
    return type(value).__module__.partition(".")[0] == "xarray"


def refuse_lazy(what: str, value: Any) -> None:
    """Raise if converting a value to an array would load a Dask array."""
    if type(value) in PLAIN:
        return
    values = value if isinstance(value, (list, tuple)) else (value,)
    for kind in set(map(type, values)):  # of a long list of numbers, only the types are looked at
        if kind in PLAIN:
            continue
        one = next(each for each in values if type(each) is kind)
        graph = getattr(one, "__dask_graph__", None)
        if callable(graph) and graph() is not None:
            several = "is a sequence of Dask arrays" if values is value else "is a Dask array"
            raise InputError(
                f"{what} {several}, which would be loaded as a whole. Functions of a robot and of its tasks take Dask "
                "arrays, and stay lazy; elsewhere, call compute() on it first"
            )


def frame_names(function: str, frames: Any) -> tuple[str, ...]:
    """Names of frames, from a single name or a sequence."""
    names = (frames,) if isinstance(frames, str) else frames
    # results are in the order of the names, and sets have none
    if isinstance(names, (AbstractSet, Mapping, bytes)) or not isinstance(names, Iterable):
        raise InputError(f"{function}: frames is a name or a sequence of names, got {type(names).__name__}")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{function}: frames is a name or a sequence of names, got {name!r} in it")
    return names


def doubles(function: str, name: str, value: Any, core: tuple[int, ...]) -> Array:
    """Numbers as a float64 array whose shape ends in `core`."""
    array = np.asarray(numbers(function, name, value), dtype=np.float64)
    require_shape(f"{function}: {name}", array.shape, core)
    return array


def require_shape(what: str, shape: tuple[int, ...], core: tuple[int, ...]) -> None:
    """Raise unless the last axes of a shape are those of one sample."""
    rank = len(core)
    if len(shape) < rank or shape[len(shape) - rank :] != core:
        expected = ", ".join(["...", *map(str, core)])
        raise InputError(f"{what} has shape {shape}, expected ({expected})")


def common_batch(function: str, names: Sequence[str], batches: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The batch shape to which the leading shapes of all inputs broadcast."""
    if batches.count(batches[0]) == len(batches):
        return batches[0]
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(f"{name} {batch}" for name, batch in zip(names, batches, strict=True))
        raise InputError(f"{function}: batch shapes do not broadcast: {shapes}") from None


def empty(function: str, shapes: Sequence[tuple[int, ...]], make: Callable[..., Array], fix: str) -> list[Array]:
    """New arrays for results, made by `make`; if they do not fit into memory, the message proposes a fix."""
    needed = 8 * sum(map(math.prod, shapes))
    with suppress(MemoryError):
        if needed <= physical_memory():  # systems promise more than they have
            return [make(shape) for shape in shapes]
    listed = ", ".join(map(str, shapes))
    raise InputError(f"{function}: results {listed}, {needed / 2**30:.3g} GiB, do not fit into memory; {fix}")


def results(
    function: str,
    out: Any,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    dtype: np.dtype[Any] = _FLOAT64,
) -> tuple[Array, ...]:
    """The user's `out`, an array or a tuple of arrays, checked."""
    given = tuple(out) if isinstance(out, tuple) else (out,)
    if len(given) != len(shapes):
        raise InputError(f"{function}: out has {len(given)} arrays, expected {len(shapes)}")
    for array, result, shape in zip(given, names, shapes, strict=True):
        name = "out" if len(shapes) == 1 else f"out ({result})"
        if not isinstance(array, np.ndarray) or array.dtype != dtype or _is_masked(array):
            plain = isinstance(array, np.ndarray) and not _is_masked(array)
            kind = f"dtype {array.dtype}" if plain else type(array).__name__
            raise InputError(f"{function}: {name} must be a {dtype} array, got {kind}")
        if array.shape != shape:
            raise InputError(f"{function}: {name} has shape {array.shape}, expected {shape}")
        flags = array.flags
        if not flags.writeable:
            raise InputError(f"{function}: {name} is read-only")
        if not flags.forc and _overlaps_itself(array):
            raise InputError(
                f"{function}: several entries of {name} have the same place in memory (strides {array.strides}), so "
                f"results would be lost; pass an array with a place for each, such as numpy.empty({shape})"
            )
    for i, j in combinations(range(len(given)), 2) if len(given) > 1 else ():
        if np.may_share_memory(given[i], given[j]) and _meet(given[i], given[j]):
            raise InputError(
                f"{function}: out for {names[i]} and for {names[j]} share memory, so results would be lost; "
                "pass arrays that do not overlap"
            )
    return given


def _overlaps_itself(array: Array) -> bool:
    """Whether two entries share memory."""
    if array.size == 0:
        return False
    axes = sorted([(abs(step), count) for step, count in zip(array.strides, array.shape, strict=True) if count > 1])
    reach = array.itemsize
    for step, count in axes:
        if step < reach:
            break
        reach += step * (count - 1)
    else:
        return False
    if axes[0][0] == 0:
        return True
    # entries along an axis lie among those along others, or on them
    places = np.zeros(1, dtype=np.intp)
    for step, count in axes:
        places = np.add.outer(places, step * np.arange(count)).reshape(-1)
    return bool((np.diff(np.sort(places)) < array.itemsize).any())


def _meet(one: Array, other: Array) -> bool:
    """Whether two arrays share memory; to find out may be hard, and then they count as if they did."""
    most: Any = 10**6
    try:
        return np.shares_memory(one, other, max_work=most)
    except np.exceptions.TooHardError:
        return True
