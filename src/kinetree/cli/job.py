"""A function applied to the arrays of a Zarr group, block by block, into another group: restartable, in bounded memory.

Each block of samples is one chunk of every result, written by one process. A journal next to the output lists the
blocks that are complete. A block enters it only after all of its chunks have been written, so one that was interrupted
half-way is computed again, with the same bits. The journal names the output by a random number: that of an output that
has been deleted means nothing to its successor.

Zarr reads a chunk without a file as the fill value, because it need not write those that hold nothing else. Whether a
file was lost or never written cannot be determined, so such chunks are reported. Workers of a cluster import this
module; it needs no terminal.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.runtime.dask import Blocks, DaskOperand, Once, sample_of
from kinetree.runtime.function import Function

#: Chunks named in a message; others are counted.
_NAMED = 5


class StoredChunk(NamedTuple):
    """A chunk: the name of its file below the array's directory, and the part of the array that it holds."""

    key: str
    part: tuple[slice, ...]


def chunks_of(folder: Path, shape: tuple[int, ...], extent: slice | None = None) -> Iterator[StoredChunk]:
    """The chunks of an array, or of some samples, as its metadata state them; of a sharded array, its shards."""
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
        yield StoredChunk(separator.join([*first, *map(str, place)]) or "0", part)


def missing(data: Path, group: Any, path: str, batched: bool) -> str | None:
    """What is said of an array of the data with chunks that have no file; None if there are none."""
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
    """An array of the data, or some samples of it; errors name the chunks that are damaged."""
    try:
        return np.asarray(group[path][... if extent is None else extent])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - codecs raise what they like
        keys = [one.key for one in chunks_of(data / path, group[path].shape, extent) if not _readable(group[path], one)]
        where = ", ".join(str(data / path / key) for key in keys[:_NAMED]) or str(data / path)
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where} is damaged and cannot be read ({reason}); restore it") from None


def _readable(array: Any, chunk: StoredChunk) -> bool:
    try:
        array[chunk.part]
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _located(chunk: StoredChunk, batched: bool) -> str:
    if not batched:
        return chunk.key
    samples = chunk.part[0]
    return f"{chunk.key} (samples {samples.start} to {samples.stop - 1})"


#: Bytes of inputs and results in one block, unless the user chooses its length.
BLOCK_BYTES = 32 * 2**20
_KEY = "kinetree"


class ComputeSource(NamedTuple):
    """An argument that is an array of the data."""

    path: str  # name of the array in the group
    batched: bool  # whether it has a value for each sample; otherwise one for all


class Result(NamedTuple):
    """One array of the output: its name, and the shape of one sample."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ComputeJob(Once):
    """What is to be computed, from where to where. Can be pickled."""

    blocks_of: Blocks  # the function of arrays
    data: Path  # directory of the input group
    out: Path  # directory of the output group
    sources: tuple[ComputeSource, ...]
    results: tuple[Result, ...]
    batch: tuple[int, ...]  # shape of the leading axes; blocks are cut along the first
    length: int  # samples along the first axis in one block

    @property
    def name(self) -> str:
        """Name of the function."""
        name: str = self.blocks_of.function.name
        return name

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.batch[0] // self.length)

    def extent(self, block: int) -> slice:
        """The samples of a block."""
        return slice(block * self.length, min((block + 1) * self.length, self.batch[0]))

    def run(self, block: int) -> int:
        """Compute a block and write its chunks; returns its number."""
        group, extent = _open_group(self.data), self.extent(block)
        arrays = [read(self.data, group, s.path, extent if s.batched else None) for s in self.sources]
        computed = self.blocks_of(*arrays)
        parts = computed if isinstance(computed, tuple) else (computed,)
        for result, part in zip(self.results, parts, strict=True):
            shape = (extent.stop - extent.start, *self.batch[1:], *result.shape)
            with _reading(self.out / result.name):
                home = _zarr().open_array(str(self.out / result.name), mode="r+")
            home[extent] = np.broadcast_to(part, shape)
        return block

    def missing_chunks(self) -> list[str]:
        """What is said of arrays of the data with chunks that have no file."""
        group = _open_group(self.data)
        found = [missing(self.data, group, source.path, source.batched) for source in self.sources]
        return [each for each in found if each is not None]


def find_function(robot: kt.Model, name: str) -> Any:
    """A function of a robot by name, such as "energy" or "forward_dynamics.vjp"."""
    public = (each for each in dir(robot) if not each.startswith("_"))
    names = tuple(each for each in public if isinstance(getattr(robot, each), Function))
    first, _, derivative = name.partition(".")
    if first not in names:
        raise UnknownNameError("function", name, names)
    function = getattr(robot, first)
    if not derivative:
        return function
    derivatives: dict[str, Any] = {}
    for which in ("jvp", "vjp", "hvp"):
        with suppress(AttributeError, UnsupportedError):
            found = getattr(function, which)
            derivatives |= {which: found} if isinstance(found, Function) else {}
    if derivative not in derivatives:
        raise UnknownNameError(f"derivative of {first}", derivative, tuple(derivatives))
    return derivatives[derivative]


def plan(
    robot: kt.Model, name: str, data: Path, out: Path, options: Mapping[str, Any], length: int | None = None
) -> ComputeJob:
    """Check everything that can be checked before the first block.

    `data` is a Zarr group with an array for each argument: (n, …) or, for one value for all, that value. Wrenches are
    in a subgroup `f_ext`, by frame. By default a block has as many samples as fit in `BLOCK_BYTES`.
    """
    function = find_function(robot, name)
    parameters = [parameter for parameter in function.__signature__.parameters.values() if parameter.name != "out"]
    names, ranks = [parameter.name for parameter in parameters], function.ranks
    defaults = {parameter.name for parameter in parameters if parameter.default is not parameter.empty}
    for option in options:
        if option not in names or option in ranks:
            taken = [each for each in names if each not in ranks and each != "f_ext"]
            raise InputError(f"{name} takes no --{option}" + (f"; it takes --{', --'.join(taken)}" if taken else ""))
    if "frames" in names and "frames" not in defaults and "frames" not in options:
        raise InputError(f"{name} needs --frames; there are: {', '.join(robot.frames)}")
    group = _open_group(data)
    places: list[tuple[str, str | None]] = []
    paths: list[str] = []
    with _reading(data):
        for argument in names:
            if argument in ranks and (argument in group or argument not in defaults):
                places.append((argument, None))
                paths.append(argument)
            elif argument == "f_ext" and argument in group:
                frames = sorted(group[argument].array_keys())
                places += [(argument, frame) for frame in frames]
                paths += [f"{argument}/{frame}" for frame in frames]
        arrays = [_array(name, data, group, path) for path in paths]
    operands = [DaskOperand(argument, array, ranks[argument] if key is None else 1)
                for (argument, key), array in zip(places, arrays, strict=True)]  # fmt: skip
    sources = tuple(
        ComputeSource(path, len(operand.value.shape) > operand.rank) for path, operand in zip(paths, operands)
    )
    blocks = Blocks(function, options, places)
    function.require()
    sample = sample_of(blocks, operands)
    batched = {source.path: operand for source, operand in zip(sources, operands) if source.batched}
    batch = _batch(name, {path: operand.batch for path, operand in batched.items()})
    parts = sample if isinstance(sample, tuple) else (sample,)
    title = name.rpartition(".")[2]
    titles = getattr(sample, "_fields", [f"{title}_{i}" for i in range(len(parts))] if len(parts) > 1 else [title])
    results = tuple(Result(each, tuple(part.shape[1:])) for each, part in zip(titles, parts, strict=True))
    if length is None:
        inner = math.prod(batch[1:])
        numbers = sum(math.prod(operand.value.shape[1:]) for operand in batched.values())
        numbers += sum(math.prod(result.shape) for result in results) * inner
        most = max(1, BLOCK_BYTES // (8 * max(1, numbers)))
        chunk = max(operand.value.chunks[0] for operand in batched.values())
        length = most // chunk * chunk if most >= chunk else most  # no chunk of the data is read twice, if possible
    length = min(length, max(1, batch[0]))
    return ComputeJob(blocks, data, out, sources, results, batch, length)


@contextmanager
def _reading(where: Path) -> Iterator[None]:
    """Zarr's errors about metadata, with what they are of."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where} is damaged and cannot be read ({reason}); restore or delete it") from None


def _array(function: str, data: Path, group: Any, path: str) -> Any:
    """An array of the data."""
    array = group.get(path)
    if not hasattr(array, "shape"):
        there = sorted(group.array_keys())
        raise InputError(f"{function} needs an array {path!r}; {data} has {', '.join(map(repr, there)) or 'no arrays'}")
    return array


def _batch(function: str, leads: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The leading shape of all arrays that have one."""
    if not leads:
        raise InputError(f"{function}: none of the arrays has an axis of samples, so there are no blocks to compute")
    if len(set(leads.values())) > 1:
        listed = ", ".join(f"{path} {lead}" for path, lead in leads.items())
        raise InputError(f"{function}: arrays have different numbers of samples: {listed}")
    return next(iter(leads.values()))


def _fingerprint(job: ComputeJob, robot: kt.Model) -> dict[str, Any]:
    """What must be equal for a run to continue another; readable, since error messages show it."""
    group = _open_group(job.data)
    arrays = {source.path: [*group[source.path].shape, str(group[source.path].dtype)] for source in job.sources}
    return {
        "function": job.name,
        "options": job.blocks_of.rest,
        "robot": robot.name,
        "model": hashlib.sha256(pickle.dumps(robot, protocol=4)).hexdigest(),
        "data": str(job.data.resolve()),
        "arrays": arrays,
        "state of the data": _state(job),
        "block": job.length,
        "version": kt.__version__,
    }


def _state(job: ComputeJob) -> str:
    """A digest of sizes and times of modification of all files with data, which changes when the data do."""
    digest = hashlib.sha256()
    for source in job.sources:
        for file in sorted((job.data / source.path).rglob("*")):
            found = file.stat()
            if file.is_file():
                digest.update(f"{file.relative_to(job.data)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


class ComputeOutput:
    """The output group of a job and its journal; neither may belong to another job or process."""

    def __init__(self, job: ComputeJob, robot: kt.Model) -> None:
        self.job, self.path = job, job.out.with_name(job.out.name + ".journal")
        wanted = _fingerprint(job, robot)
        if not job.out.exists():
            _create(job, wanted)
        found = self._attributes()
        for name, value in wanted.items():
            if found.get(name) != value:
                raise InputError(
                    f"{job.out} exists, and its {name} is {found.get(name)!r} instead of {value!r}; "
                    "choose another --out, or delete it"
                )
        self.identity: str = found["identity"]
        self.complete = bool(found["complete"])

    def _attributes(self) -> dict[str, Any]:
        other = f"{self.job.out} exists and was not made by kinetree compute; choose another --out"
        try:
            attributes = dict(_open_group(self.job.out).attrs)
        except InputError:
            raise InputError(other) from None
        try:
            found = json.loads(attributes[_KEY]) if isinstance(attributes.get(_KEY), str) else None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not {"identity", "complete"} <= found.keys():
            raise InputError(other)
        return found

    @contextmanager
    def journal(self) -> Iterator[tuple[set[int], Any]]:
        """The blocks that are complete, and a function that records another one."""
        with open(self.path, "a+b") as file:
            _lock(file, self.path)
            file.seek(0)
            header, *lines = file.read().split(b"\n")
            if header.decode("ascii", "replace") != self.identity:
                file.truncate(0)
                file.write(f"{self.identity}\n".encode())
                lines = []
            else:
                # the last line is complete only if a newline follows, and then what follows is empty
                file.truncate(len(header) + 1 + sum(len(line) + 1 for line in lines[:-1]))
            done = {self._block(number, line) for number, line in enumerate(lines[:-1], start=2)}

            def record(block: int) -> None:
                file.write(f"{block}\n".encode())
                file.flush()
                os.fsync(file.fileno())

            yield done, record

    def _block(self, number: int, line: bytes) -> int:
        """The block that a line of the journal lists."""
        text = line.decode("ascii", "replace")
        if not text.isdecimal() or int(text) >= self.job.blocks:
            raise InputError(
                f"{self.path}, line {number}: {text!r} is no block, of which there are {self.job.blocks}; the "
                "journal is damaged. Delete it, and all blocks are computed again"
            )
        return int(text)

    def finish(self) -> None:
        """Mark the output as complete, and remove the journal."""
        group = _zarr().open_group(str(self.job.out), mode="r+")
        group.attrs[_KEY] = json.dumps({**self._attributes(), "complete": True})
        self.path.unlink(missing_ok=True)


def _create(job: ComputeJob, fingerprint: Mapping[str, Any]) -> None:
    """Make the output with all its arrays at once: a run that is killed here leaves nothing under its name."""
    zarr, identity = _zarr(), secrets.token_hex(8)
    scratch = job.out.with_name(f"{job.out.name}.{identity}")
    try:
        group = zarr.open_group(str(scratch), mode="w-")
        group.attrs[_KEY] = json.dumps({**fingerprint, "identity": identity, "complete": False})
        for result in job.results:
            zarr.open_array(
                str(scratch / result.name),
                mode="w-",
                shape=(*job.batch, *result.shape),
                chunks=(job.length, *(max(1, n) for n in (*job.batch[1:], *result.shape))),
                dtype="f8",
                fill_value=float("nan"),
            )
        scratch.rename(job.out)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise InputError(f"cannot create {job.out}: {error.strerror}") from None


def _lock(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"another process is computing into {path.with_suffix('')}; wait for it, or stop it") from None


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise InputError(f"compute needs zarr ({error}): pip install 'kinetree[dask]'") from None
    return zarr


def _open_group(path: Path) -> Any:
    zarr = _zarr()
    if not path.is_dir():
        raise InputError(f"{path} is not a directory; give a Zarr group")
    try:
        return zarr.open_group(str(path), mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a Zarr group ({type(error).__name__}: {error})") from None
