"""Calls under odd circumstances: whatever they are, results have the bits of single calls with plain arrays.

    python -m tests.fuzz.circumstances --minutes 30

For each robot of `tests.fuzz.mechanics`, with special angles and masses and lengths of all sizes:

    layouts    inputs misaligned, byte-swapped, strided, backwards, in Fortran order, broadcast; batches of any shape,
               empty ones too; out= misaligned, strided, or overlapping an input
    threads    first calls of a new copy of the robot from several threads at once
    forks      a child forked while another thread calls and binds functions
    signals    timers that go off within calls, with handlers that return and that raise
    cache      another process whose cache of compiled code is damaged
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import kinetree as kt
from tests.fuzz.mechanics import robot, state
from tests.parity.functions import FUNCTIONS, Function

Array = np.ndarray[Any, np.dtype[Any]]
Call = tuple[Function, Array, Array, Array]

BATCHES = ((), (), (0,), (1,), (2,), (3,), (5,), (9,), (2, 3), (0, 4), (2, 0, 3), (4, 1), (17,), (70,))
#: Cheap to compile, so that binding and not compiling is what happens at the same time.
QUICK = tuple(f for f in FUNCTIONS if f.name in ("inverse_dynamics", "mass_matrix", "gravity_forces", "pose", "energy"))


def batch_of(model: kt.Model, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """States of `tests.fuzz.mechanics` in a batch."""
    count = int(np.prod(shape))
    each = [state(rng, model) for _ in range(min(count, 6))]
    picked = [each[int(i)] for i in rng.integers(len(each), size=count)] if count else []
    sizes = (model.nq, model.nv, model.nv)
    q, v, x = (np.array([s[i] for s in picked]).reshape(*shape, sizes[i]) for i in range(3))
    return q, v, x


def expected(model: kt.Model, call: Call, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The results of one call per sample."""
    function, q, v, x = call
    flat = [np.broadcast_to(a, (*shape, a.shape[-1])).reshape(-1, a.shape[-1]) for a in (q, v, x)]
    if not len(flat[0]):
        plain = function(model, *(np.zeros(a.shape[-1]) for a in (q, v, x)))
        return tuple(np.zeros((*shape, *np.shape(part))) for part in plain)
    rows = [function(model, *(np.ascontiguousarray(a[i]) for a in flat)) for i in range(len(flat[0]))]
    parts = [np.array(part) for part in zip(*rows, strict=True)]
    return tuple(part.reshape((*shape, *part.shape[1:])) for part in parts)


# -- layouts -----------------------------------------------------------------------------------------------------------


def misaligned(array: Array, rng: np.random.Generator) -> Array:
    raw = bytearray(array.nbytes + 8)
    other = np.ndarray(array.shape, array.dtype, buffer=raw, offset=int(rng.integers(1, 8)))
    other[...] = array
    return other


def strided(array: Array, rng: np.random.Generator) -> Array:
    """Every so many numbers of a larger array, some axes backwards."""
    steps = [int(rng.integers(1, 4)) for _ in array.shape]
    room = np.full([n * step for n, step in zip(array.shape, steps, strict=True)], np.nan)
    view = room[(..., *(slice(None, None, step) for step in steps))]
    view = view[(..., *(slice(None, None, int(rng.choice([-1, 1]))) for _ in steps))]
    view[...] = array
    return view


def read_only(array: Array, _: np.random.Generator) -> Array:
    other = array.copy()
    other.flags.writeable = False
    return other


LAYOUTS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "plain": lambda a, _: a.copy(),
    "misaligned": misaligned,
    "byte-swapped": lambda a, _: a.astype(a.dtype.newbyteorder()),
    "byte-swapped and strided": lambda a, rng: strided(a, rng).astype(a.dtype.newbyteorder()),
    "strided": strided,
    "Fortran": lambda a, _: np.asfortranarray(a),
    "read-only": read_only,
}


def layouts(model: kt.Model, rng: np.random.Generator, _: Path) -> list[str]:
    """One function with inputs and results laid out at random."""
    function = FUNCTIONS[rng.integers(len(FUNCTIONS))]
    shape = BATCHES[rng.integers(len(BATCHES))]
    arrays = list(batch_of(model, rng, shape))
    if len(shape) > 1 and rng.random() < 0.4:
        letter = int(rng.integers(3))
        arrays[letter] = np.broadcast_to(arrays[letter][..., :1, :], arrays[letter].shape)
    right = expected(model, (function, *arrays), shape)
    chosen = [str(rng.choice(list(LAYOUTS))) for _ in range(3)]
    laid = [LAYOUTS[name](a, rng) for name, a in zip(chosen, arrays, strict=True)]
    before = [a.tobytes() for a in laid]
    wrong = []
    what = f"{function} of {shape}, {chosen}"
    if not same(function(model, *laid), right):
        wrong.append(what)
    if [a.tobytes() for a in laid] != before:
        wrong.append(f"{what}: inputs have changed")
    if function.outputs == 1:
        wrong += _into(model, function, laid, right[0], rng, what)
    return wrong


def _into(
    model: kt.Model, function: Function, laid: list[Array], right: Array, rng: np.random.Generator, what: str
) -> list[str]:
    """The same with `out=`, which may overlap an input."""
    kind = str(rng.choice(["misaligned", "strided", "overlapping"]))
    if kind == "overlapping":
        letter = int(rng.integers(3))
        source = np.ascontiguousarray(laid[letter], dtype=np.float64)
        room = np.full(max(source.size, right.size) + 9, np.nan)
        start, home = int(rng.integers(9)), int(rng.integers(9))
        moved = room[start : start + source.size].reshape(source.shape)
        moved[...] = source
        laid = [moved if i == letter else a for i, a in enumerate(laid)]
        out = room[home : home + right.size].reshape(right.shape)
    else:
        out = LAYOUTS[kind](np.full(right.shape, np.nan), rng)
    (result,) = function(model, *laid, out=out)
    return [] if result is out and same((out,), (right,)) else [f"{what}, out= {kind}"]


def same(results: tuple[Any, ...], right: tuple[Array, ...]) -> bool:
    """Whether all arrays have the same shapes and bits."""
    return all(
        np.shape(a) == b.shape and np.ascontiguousarray(a).tobytes() == b.tobytes()
        for a, b in zip(results, right, strict=True)
    )


# -- threads, forks, signals, cache ------------------------------------------------------------------------------------


def _calls(model: kt.Model, rng: np.random.Generator, count: int) -> list[tuple[Call, tuple[Array, ...]]]:
    found = []
    for _ in range(count):
        function, shape = QUICK[rng.integers(len(QUICK))], BATCHES[rng.integers(len(BATCHES))]
        call = (function, *batch_of(model, rng, shape))
        found.append((call, expected(model, call, shape)))
    return found


def threads(model: kt.Model, rng: np.random.Generator, _: Path) -> list[str]:
    """First calls of a copy from four threads at once."""
    calls, copy = _calls(model, rng, 4), pickle.loads(pickle.dumps(model))
    start, wrong = threading.Barrier(4), []

    def work(call: Call, right: tuple[Array, ...]) -> None:
        start.wait()
        wrong.extend(f"{call[0]} in a thread" for _ in range(3) if not same(call[0](copy, *call[1:]), right))

    workers = [threading.Thread(target=work, args=each) for each in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong


def forks(model: kt.Model, rng: np.random.Generator, _: Path) -> list[str]:
    """A child, forked while another thread calls and binds functions of copies."""
    calls, stop, data = _calls(model, rng, 3), threading.Event(), pickle.dumps(model)

    def work() -> None:
        while not stop.is_set():
            copy = pickle.loads(data)
            for (function, *arrays), _ in calls:
                function(copy, *arrays)

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(float(rng.uniform(0.0, 0.02)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of any fork while threads live
        child = os.fork()
    if child == 0:
        status = 1
        try:
            copy = pickle.loads(data)
            status = 0 if all(same(c[0](copy, *c[1:]), right) for c, right in calls) else 3
        finally:
            os._exit(status)
    guard = threading.Timer(120.0, lambda: os.kill(child, signal.SIGKILL))
    guard.start()
    _, outcome = os.waitpid(child, 0)
    guard.cancel()
    stop.set()
    worker.join()
    return [] if outcome == 0 else [f"a forked child ended with {outcome}"]


class _Stop(Exception):
    """What a handler of signals raises."""


def signals(model: kt.Model, rng: np.random.Generator, _: Path) -> list[str]:
    """Timers that go off within calls."""
    calls, raises = _calls(model, rng, 2), bool(rng.random() < 0.5)
    function = calls[0][0][0]
    large = [np.broadcast_to(a, (20_000, a.shape[-1])) for a in batch_of(model, rng, (1,))]
    right = function(model, *(a[:1] for a in large))
    seen, wrong = 0, []

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if raises:
            raise _Stop

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _attempt in range(4):
            signal.setitimer(signal.ITIMER_REAL, float(10.0 ** rng.uniform(-5.0, -1.5)), 0.0 if raises else 1e-3)
            try:
                results = function(model, *large)
                for part, first in zip(results, right, strict=True):
                    if not all(same((part[i : i + 1],), (first,)) for i in (0, 9_999, 19_999)):
                        wrong.append(f"{function} of a large batch under signals")
                for (other, *args), bits in calls:
                    if not same(other(model, *args), bits):
                        wrong.append(f"{other} under signals")
            except _Stop:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    except _Stop:  # between two statements of ours
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    wrong += [f"{c[0]} after signals" for c, bits in calls if not same(c[0](model, *c[1:]), bits)]
    return wrong


def digest(model: kt.Model, seed: int) -> str:
    """Of some functions' results."""
    rng = np.random.default_rng(seed)
    arrays, found = batch_of(model, rng, (5,)), hashlib.sha256()
    for function in QUICK:
        for part in (*function(model, *arrays), *function(model, *(a[0] for a in arrays))):
            found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def damage(directory: Path, rng: random.Random) -> None:
    """Do something bad to files in a cache."""
    files = sorted(directory.glob("*.object"))
    for file in rng.sample(files, min(len(files), rng.choice((1, 2, 5)))):
        content = bytearray(file.read_bytes()) if file.is_file() else bytearray(100)
        what = rng.randrange(8)
        if what == 0:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        elif what == 1:
            del content[rng.randrange(len(content)) :]
        elif what == 2:
            content += bytes(rng.randrange(256) for _ in range(50))
        elif what == 3:
            content[:] = bytes(len(content))
        file.unlink()
        if what == 4:
            file.mkdir()
        elif what == 5:
            os.mkfifo(file)
        elif what == 6:
            file.symlink_to("/dev/zero")
        elif what == 7:
            other = rng.choice(files)
            file.write_bytes(other.read_bytes() if other.is_file() else b"")
        else:
            file.write_bytes(content)


def cache(model: kt.Model, rng: np.random.Generator, directory: Path) -> list[str]:
    """Another process, twice: its cache is damaged before the second time."""
    seed = int(rng.integers(2**31))
    right, pickled = digest(model, seed), directory / "model"
    pickled.write_bytes(pickle.dumps(model))
    code = (
        "import pickle, sys; from tests.fuzz.circumstances import digest\n"
        "print(digest(pickle.load(open(sys.argv[1], 'rb')), int(sys.argv[2])))"
    )
    environment = {**os.environ, "KINETREE_CACHE_DIR": str(directory / "cache")}
    words, wrong = [sys.executable, "-c", code, str(pickled), str(seed)], []
    for _ in range(2):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode or done.stdout.strip() != right:
            wrong.append(f"with a damaged cache: exit code {done.returncode}, {done.stderr[-300:]}")
        for path in (directory / "cache").glob("*.object"):  # what cannot be replaced
            if path.is_dir():
                path.rmdir()
        damage(directory / "cache", random.Random(seed))
    return wrong


def main() -> int:
    """Report what differs; the exit code says whether anything does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10**9, help="robots")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="of the processor")
    options = parser.parse_args()
    done, failures = Counter[str](), 0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.seed, options.seed + options.count):
            if time.process_time() > 60.0 * options.minutes:
                break
            rng = np.random.default_rng(number)
            model = robot(rng)
            for act in (*[layouts] * 20, threads, forks, signals, *([cache] if number % 10 == 0 else [])):
                wrong, name = act(model, rng, Path(directory)), act.__name__
                done[name] += 1
                failures += len(wrong)
                for line in wrong:
                    print(f"seed {number}: {line}", flush=True)
            done["robots"] += 1
            if done["robots"] % 10 == 0:
                print(f"{dict(done)}, {failures} failures, {time.process_time():.0f} s", flush=True)
    print(f"{dict(done)}, {failures} failures, {time.process_time():.0f} s of the processor")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
