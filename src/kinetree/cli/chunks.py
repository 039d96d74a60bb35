"""The chunks of a Zarr array in a directory: which files they are, which of them are missing or damaged.

Zarr reads a chunk without a file as the fill value, because it need not write those that hold nothing else. Whether a
file was lost or never written cannot be told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError

#: Chunks named in a message; others are counted.
_NAMED = 5


class Chunk(NamedTuple):
    """A chunk: the name of its file below the array's directory, and the part of the array that it holds."""

    key: str
    part: tuple[slice, ...]


def chunks_of(folder: Path, shape: tuple[int, ...], extent: slice | None = None) -> Iterator[Chunk]:
    """The chunks of an array, as its metadata state them; those of a sharded array are its shards.

    Args:
        folder: Directory of the array.
        shape: Shape of the array.
        extent: Only chunks with samples along the first axis in this range.
    """
    new = (folder / "zarr.json").exists()
    stated: dict[str, Any] = json.loads((folder / ("zarr.json" if new else ".zarray")).read_text(encoding="utf-8"))
    lengths = stated["chunk_grid"]["configuration"]["chunk_shape"] if new else stated["chunks"]
    old = {"name": "v2", "configuration": {"separator": stated.get("dimension_separator") or "."}}
    encoding: dict[str, Any] = stated["chunk_key_encoding"] if new else old
    first = ["c"] if encoding["name"] == "default" else []
    separator = encoding.get("configuration", {}).get("separator", "/" if first else ".")
    ranges = [range(-(-size // length)) for size, length in zip(shape, lengths, strict=True)]
    if extent is not None:
        ranges[0] = range(extent.start // lengths[0], -(-extent.stop // lengths[0]))
    for place in product(*ranges):
        ends = zip(place, lengths, shape, strict=True)
        part = tuple(slice(i * length, min((i + 1) * length, size)) for i, length, size in ends)
        yield Chunk(separator.join([*first, *map(str, place)]) or "0", part)


def missing(data: Path, group: Any, path: str, batched: bool) -> str | None:
    """What is said of an array with chunks that have no file; None if there are none.

    Args:
        data: Directory of the group.
        group: The group.
        path: Name of the array in it.
        batched: Whether its first axis is that of samples.
    """
    array = group[path]
    chunks = list(chunks_of(data / path, array.shape))
    gone = [chunk for chunk in chunks if not (data / path / chunk.key).is_file()]
    if not gone:
        return None
    named = ", ".join(_located(chunk, batched) for chunk in gone[:_NAMED])
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    return (
        f"{data / path}: {len(gone)} of {len(chunks)} chunks are missing, and read as {array.fill_value}: {named}{more}"
    )


def read(data: Path, group: Any, path: str, extent: slice | None) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of the data, or some samples of it.

    Raises:
        InputError: If a chunk is damaged; names it.
    """
    try:
        return np.asarray(group[path][... if extent is None else extent])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - codecs raise what they like
        keys = [one.key for one in chunks_of(data / path, group[path].shape, extent) if not _readable(group[path], one)]
        where = ", ".join(str(data / path / key) for key in keys[:_NAMED]) or str(data / path)
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where} is damaged and cannot be read ({reason}); restore it") from None


def _readable(array: Any, chunk: Chunk) -> bool:
    try:
        array[chunk.part]
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _located(chunk: Chunk, batched: bool) -> str:
    if not batched:
        return chunk.key
    samples = chunk.part[0]
    return f"{chunk.key} (samples {samples.start} to {samples.stop - 1})"
