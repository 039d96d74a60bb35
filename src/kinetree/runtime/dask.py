"""Lazy calls: Dask arrays in, lazy Dask arrays out; xarray's DataArrays give DataArrays, matched by dimension names.

A function is applied to each block of samples, in one thread: Dask runs several blocks at once. Nothing is computed or
loaded here. An empty batch, which costs nothing, checks the arguments and gives types, shapes and names of the results.

Batch axes keep the chunks of the inputs; where inputs differ, Dask splits them until they match. Axes of one sample,
such as the coordinates of a configuration, are merged into one chunk.

This module imports Dask or xarray. Functions import it only when such an array is passed to them.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.runtime import arguments, threads

#: A parameter of the function, and the key in it if it is a mapping.
Place = tuple[str, Any]


class Once:
    """An object that a process unpickles once, however many tasks carry it: its functions stay compiled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), pickle.dumps(self.__dict__))


@lru_cache(maxsize=16)
def _restored(kind: type[Any], state: bytes) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(pickle.loads(state))  # noqa: S301 (part of a pickle that is being loaded)
    return made


class Blocks(Once):
    """A function of arrays alone, which Dask sends to its workers; `places` says which arguments they are."""

    def __init__(self, function: Any, given: Mapping[str, Any], places: Sequence[Place]) -> None:
        self.function, self.places = function, tuple(places)
        replaced = {name for name, _ in places}
        self.rest = {name: value for name, value in given.items() if name not in replaced}
        self.__name__ = getattr(function, "__name__", "function")  # shown on Dask's dashboard

    def whole(self, *arrays: Any) -> Any:
        """The function's own result."""
        given: dict[str, Any] = dict(self.rest)
        for (name, key), array in zip(self.places, arrays, strict=True):
            if key is None:
                given[name] = array
            else:
                given.setdefault(name, {})[key] = array
        return self.function(**given)

    def __call__(self, *arrays: Any) -> Any:
        """The result, or a plain tuple of results."""
        with threads.one():
            result = self.whole(*arrays)
        return tuple(result) if isinstance(result, tuple) else np.asarray(result)


class DaskOperand(NamedTuple):
    """An argument that is an array."""

    name: str  # for messages
    value: Any  # the argument
    rank: int  # number of axes of one sample

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of its leading axes."""
        return tuple(self.value.shape[: self.value.ndim - self.rank])


def call(function: Any, given: Mapping[str, Any], ranks: Mapping[str, int], out: Any) -> Any:
    """The lazy result of a function, given its arguments by name, and how many axes samples of arrays have."""
    name = function.name
    if out is not None:
        raise InputError(f"{name}: a lazy result cannot be written to out=; store it with dask.array.store or to_zarr")
    places: list[Place] = []
    operands: list[DaskOperand] = []
    for argument, value in given.items():
        if isinstance(value, Mapping) and not hasattr(value, "__dask_graph__"):
            places += [(argument, key) for key in value]
            operands += [DaskOperand(f"the wrench on {key!r}", each, 1) for key, each in value.items()]
        elif argument in ranks:
            places.append((argument, None))
            operands.append(DaskOperand(argument, value, ranks[argument]))
    blocks = Blocks(function, given, places)
    if any(arguments.is_xarray(operand.value) for operand in operands):
        return _named(name, blocks, [_with_names(name, operand) for operand in operands])
    return _lazy(name, blocks, [_array(name, operand) for operand in operands])


def _lazy(name: str, blocks: Blocks, operands: Sequence[DaskOperand]) -> Any:
    """The result for arrays of Dask and NumPy."""
    from dask.array import apply_gufunc

    sample = sample_of(blocks, operands)
    arguments.common_batch(name, [operand.name for operand in operands], [operand.batch for operand in operands])
    results = sample if isinstance(sample, tuple) else (sample,)
    ins = [[f"i{k}_{axis}" for axis in range(operand.rank)] for k, operand in enumerate(operands)]
    outs = [[f"o{k}_{axis}" for axis in range(result.ndim - 1)] for k, result in enumerate(results)]
    sizes = {axis: n for axes, result in zip(outs, results) for axis, n in zip(axes, result.shape[1:])}
    signature = "->".join(",".join(f"({','.join(axes)})" for axes in side) for side in (ins, outs))
    dtypes = [result.dtype for result in results]
    made = apply_gufunc(
        blocks,
        signature,
        *_aligned(operands, ins),
        output_dtypes=dtypes if isinstance(sample, tuple) else dtypes[0],
        output_sizes=sizes,
    )
    return _like(sample, made) if isinstance(sample, tuple) else made


def sample_of(blocks: Blocks, operands: Sequence[DaskOperand]) -> Any:
    """The result for a batch of no samples; raises for what the function does not accept."""
    empty = []
    for operand in operands:
        shape = tuple(operand.value.shape)
        core = shape[max(0, len(shape) - operand.rank) :]
        empty.append(np.empty((0, *core) if len(core) == operand.rank else core, operand.value.dtype))
    try:
        return blocks.whole(*empty)
    except InputError as error:
        if type(error) is not InputError:
            raise
        problem = str(error)
        for operand, array in zip(operands, empty):  # the message is about the user's array
            problem = problem.replace(f"shape {array.shape}", f"shape {tuple(operand.value.shape)}")
        raise InputError(problem) from None


def _like(sample: tuple[Any, ...], parts: Any) -> Any:
    return tuple(parts) if type(sample) is tuple else type(sample)(*parts)


def _array(name: str, operand: DaskOperand) -> DaskOperand:
    """The operand as an array of Dask or NumPy; other collections are refused."""
    value = operand.value
    if not arguments.is_lazy(value):
        kinds = "fiucO"  # the function itself is stricter
        return operand._replace(value=arguments.numbers(name, operand.name, value, kinds))
    Array = _dask_array(f"{name}: {operand.name}")
    if not isinstance(value, Array):
        raise InputError(
            f"{name}: {operand.name} is a {type(value).__name__}, which is lazy but not an array; make it a "
            "dask.array.Array (dask.array.from_delayed, to_dask_array), or load it yourself with compute()"
        )
    if any(math.isnan(size) for size in value.shape):
        raise InputError(
            f"{name}: {operand.name} has chunks of unknown size, shape {value.shape}; "
            "call compute_chunk_sizes() on it first"
        )
    return operand._replace(value=value)


def _dask_array(what: str) -> Any:
    try:
        from dask.array import Array
    except ImportError as error:
        raise InputError(f"{what} is lazy, which needs Dask ({error}): pip install 'kinetree[dask]'") from None
    return Array


def _aligned(operands: Sequence[DaskOperand], cores: Sequence[Sequence[str]]) -> list[Any]:
    """The arrays with the same chunks along batch axes, and with a single chunk along the axes of one sample."""
    from dask.array.core import unify_chunks

    labelled: list[Any] = []
    for operand, core in zip(operands, cores):
        value, lead = operand.value, operand.value.ndim - operand.rank
        if not isinstance(value, np.ndarray):
            value = value.rechunk(dict.fromkeys(range(lead, value.ndim), -1))
        # batch axes are counted from the last one, as in broadcasting
        labelled += [value, (*(str(axis - lead) for axis in range(lead)), *core)]
    _, arrays = unify_chunks(*labelled)
    return list(arrays)


def _with_names(name: str, operand: DaskOperand) -> DaskOperand:
    """The operand as a DataArray; arrays without names may be single samples only."""
    from xarray import DataArray

    value = operand.value
    if isinstance(value, DataArray):
        return operand
    if arguments.is_xarray(value):
        raise InputError(
            f"{name}: {operand.name} is a {type(value).__name__}; give a DataArray, such as one variable of a Dataset"
        )
    array = _array(name, operand).value
    if array.ndim > operand.rank:
        raise InputError(
            f"{name}: {operand.name} has batch axes without names, shape {array.shape}, next to arguments with names; "
            "give it names with xarray.DataArray(…, dims=…)"
        )
    return operand._replace(value=DataArray(array, dims=[f"{operand.name}_{axis}" for axis in range(array.ndim)]))


def _named(name: str, blocks: Blocks, operands: Sequence[DaskOperand]) -> Any:
    """The result for DataArrays: batch axes are matched by name, the last axes are those of one sample."""
    from xarray import apply_ufunc

    sample = sample_of(blocks, operands)
    results = sample if isinstance(sample, tuple) else (sample,)

    def computed(*arrays: Any) -> Any:
        if any(map(arguments.is_lazy, arrays)):
            lazy = [_array(name, operand._replace(value=array)) for operand, array in zip(operands, arrays)]
            return _lazy(name, blocks, lazy)
        return blocks.whole(*arrays)

    try:
        made = apply_ufunc(
            computed,
            *(operand.value for operand in operands),
            input_core_dims=[operand.value.dims[operand.value.ndim - operand.rank :] for operand in operands],
            output_core_dims=[[f"{name}_{axis}" for axis in range(result.ndim - 1)] for result in results],
            join="exact",
            dask="allowed",
        )
    except InputError:
        raise
    except ValueError as error:  # of which xarray's errors of alignment are a kind
        raise InputError(f"{name}: dimensions do not match: {error}") from None
    return _like(sample, made) if isinstance(sample, tuple) else made
