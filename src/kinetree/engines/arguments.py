"""What functions take and where results may go: one rule for all engines.

Inputs are whatever NumPy makes arrays of numbers from, unless something would be lost on the way. `out=` is an array of
exactly the result's shape and type, or a tuple of them where a function has several results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.spatial.value import Array

_FLOAT64 = np.dtype(np.float64)


def numbers(function: str, name: str, value: Any, kinds: str = "fiu") -> Array:
    """A user's array.

    Args:
        function: What is called, for messages.
        name: The argument, for messages.
        value: What was given.
        kinds: NumPy's letters for the kinds of numbers that are taken.
    """
    array = value if type(value) is np.ndarray else _converted(function, name, value)
    if array.dtype.kind not in kinds:
        expected = "real numbers" if "c" not in kinds else "numbers"
        raise InputError(f"{function}: {name} has dtype {array.dtype}, expected {expected}")
    return array


def _converted(function: str, name: str, value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{function}: {name} is a masked array, and its mask would be lost; fill it: {name}.filled(0)")
    if _is_lazy(value):
        raise InputError(
            f"{function}: {name} is a Dask array, which would be loaded as a whole; apply the function to its blocks "
            f"with dask.array.apply_gufunc, or load it yourself: {name}.compute()"
        )
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{function}: {name} is not an array of numbers ({error})") from None


def _is_lazy(value: Any) -> bool:
    """Whether this is a Dask collection, or something (as of xarray) that holds one."""
    graph = getattr(value, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def frame_names(function: str, frames: Any) -> tuple[str, ...]:
    """Names of frames, of which one may be given alone."""
    names = (frames,) if isinstance(frames, str) else frames
    # The order of a set is not the user's, and results have the order of the names.
    if isinstance(names, (AbstractSet, Mapping, bytes)) or not isinstance(names, Iterable):
        raise InputError(f"{function}: frames is a name or a sequence of names, got {type(names).__name__}")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{function}: frames is a name or a sequence of names, got {name!r} among them")
    return names


def require_shape(what: str, shape: tuple[int, ...], core: tuple[int, ...]) -> None:
    """Refuse a shape whose last axes are not those of one sample."""
    rank = len(core)
    if len(shape) < rank or shape[len(shape) - rank :] != core:
        expected = ", ".join(["...", *map(str, core)])
        raise InputError(f"{what} has shape {shape}, expected ({expected})")


def common_batch(function: str, names: Sequence[str], batches: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The leading shape to which those of all inputs broadcast."""
    if batches.count(batches[0]) == len(batches):
        return batches[0]
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(f"{name} {batch}" for name, batch in zip(names, batches, strict=True))
        raise InputError(f"{function}: batch shapes do not broadcast: {shapes}") from None


def results(
    function: str,
    out: Any,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    dtype: np.dtype[Any] = _FLOAT64,
) -> tuple[Array, ...]:
    """The user's arrays for results, if they fit.

    Args:
        function: What is called, for messages.
        out: An array, or a tuple of arrays.
        names: What the results are called.
        shapes: Their shapes.
        dtype: Their type.
    """
    given = tuple(out) if isinstance(out, tuple) else (out,)
    if len(given) != len(shapes):
        raise InputError(f"{function}: out has {len(given)} arrays, expected {len(shapes)}")
    for array, result, shape in zip(given, names, shapes, strict=True):
        name = "out" if len(shapes) == 1 else f"out ({result})"
        if not isinstance(array, np.ndarray) or array.dtype != dtype or isinstance(array, np.ma.MaskedArray):
            plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
            kind = f"dtype {array.dtype}" if plain else type(array).__name__
            raise InputError(f"{function}: {name} must be a {dtype} array, got {kind}")
        if array.shape != shape:
            raise InputError(f"{function}: {name} has shape {array.shape}, expected {shape}")
        if not array.flags.writeable:
            raise InputError(f"{function}: {name} is read-only")
    return given
