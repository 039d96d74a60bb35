"""A real cluster of two processes, data larger than the memory of either, and a worker that is killed half-way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli import compute
from kinetree.cli.job import ComputeJob, ComputeOutput, plan
from kinetree.errors import InputError
from tests.oracle import oracle

da = oracle("dask.array")
distributed = oracle("distributed")
zarr = oracle("zarr")

SAMPLES, CHUNK = 9_600_000, 100_000
LIMIT = 420 * 2**20  # at four fifths of it, a worker takes no more work
NAMES = ("q", "v", "tau")


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return kt.zoo.double_pendulum()


def write(path: Path, values: np.ndarray) -> None:
    """Write an array without compression, which would take most of the time."""
    shape = {"shape": values.shape, "chunks": (CHUNK, 2), "dtype": "f8"}
    if hasattr(zarr, "create_array"):
        array = zarr.create_array(str(path), compressors=None, **shape)
    else:  # before version 3
        array = zarr.open_array(str(path), mode="w", compressor=None, **shape)
    array[...] = values


@pytest.fixture(scope="module")
def data(robot: kt.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "data.zarr"
    zarr.open_group(str(path), mode="w")
    numbers = np.arange(2.0 * SAMPLES).reshape(SAMPLES, 2)
    for i, name in enumerate(NAMES):
        write(path / name, np.sin(numbers + i))
    assert 3 * numbers.nbytes > LIMIT
    return path


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=LIMIT, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_one(client: Any) -> None:
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def peak() -> int:
    """Largest resident size of this process since it started [bytes]; `getrusage` would include its parent's."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def expected(robot: kt.Model, data: Path) -> np.ndarray:
    group = zarr.open_group(str(data), mode="r")
    return robot.forward_dynamics(*(group[name][...] for name in NAMES))


@pytest.mark.slow
def test_the_death_of_a_worker_changes_no_bit(client: Any, robot: kt.Model, data: Path, tmp_path: Path) -> None:
    # lazy arrays, and blocks of `kinetree compute`, at the same time
    part = slice(SAMPLES // 4)
    lazy = robot.forward_dynamics(*(da.from_zarr(str(data / name), chunks=(CHUNK, 2))[part] for name in NAMES))
    sums = lazy.map_blocks(lambda block: block.sum(axis=0, keepdims=True), chunks=((1,) * lazy.numblocks[0], (2,)))
    future = client.compute(sums)

    job = plan(robot, "forward_dynamics", data, tmp_path / "out.zarr", {}, CHUNK)
    output = ComputeOutput(job, robot)
    completed = []
    with output.journal() as (_, record):
        for block in compute.on_cluster(client, job, list(range(job.blocks))):
            record(block)
            completed.append(block)
            if len(completed) == job.blocks // 4:
                kill_one(client)
    output.finish()
    assert sorted(completed) == list(range(job.blocks))
    whole = expected(robot, data)
    assert zarr.open_group(str(job.out), mode="r")["forward_dynamics"][...].tobytes() == whole.tobytes()
    np.testing.assert_array_equal(future.result(timeout=120), whole[part].reshape(-1, CHUNK, 2).sum(axis=1))
    peaks = list(client.run(peak).values())
    print("peak memory of workers, MB:", [round(one / 1e6) for one in peaks])
    assert max(peaks) < LIMIT


@pytest.fixture
def other() -> Iterator[Any]:
    """A scheduler whose workers have done nothing yet."""
    with (
        distributed.LocalCluster(
            n_workers=1,
            processes=False,
            protocol="tcp",
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def planned(robot: kt.Model, tmp_path: Path) -> Any:
    """A job of nine blocks."""
    zarr.open_group(str(tmp_path / "data.zarr"), mode="w")
    write(tmp_path / "data.zarr" / "q", np.random.default_rng(0).standard_normal((900, 2)))
    return plan(robot, "mass_matrix", tmp_path / "data.zarr", tmp_path / "out.zarr", {}, 100)


def test_workers_that_die_are_reported(other: Any, planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> int:
        raise distributed.KilledWorker("block", SimpleNamespace(address="tcp://worker"), 3)

    monkeypatch.setattr(ComputeJob, "run", die)
    with pytest.raises(InputError, match="samples 0 to 99: one worker after another died .* raise --memory-limit or"):
        list(compute.on_cluster(other, planned, [0]))


def test_workers_that_take_no_work_are_reported(other: Any, planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask pauses workers that are short of memory, for ever if it is not given back."""

    def pause(dask_worker: Any) -> None:
        dask_worker.status = distributed.Status.paused

    other.run(pause)
    monkeypatch.setattr(compute, "_PATIENCE", 0.2)
    with pytest.raises(InputError, match="all workers are short of memory and take no more work; raise --memory-limit"):
        list(compute.on_cluster(other, planned, [0, 1]))


def test_the_command_takes_the_address_of_a_scheduler(other: Any, robot: kt.Model, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from kinetree.cli import app

    heavy = robot
    for body in robot.bodies:
        heavy = heavy.with_inertia(body.name, inertia=0.01 * np.eye(3))
    (tmp_path / "arm.urdf").write_text(kt.to_urdf(heavy), encoding="utf-8")
    path, q = tmp_path / "data.zarr", np.random.default_rng(0).standard_normal((900, 2))
    zarr.open_group(str(path), mode="w")
    write(path / "q", q)
    words = ["compute", "mass_matrix", tmp_path / "arm.urdf", path, "--out", tmp_path / "out.zarr", "--block", 100]
    done = CliRunner().invoke(app, [str(word) for word in (*words, "--scheduler", other.scheduler.address)])
    assert done.exit_code == 0, done.output
    result = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")["mass_matrix"][...]
    assert result.tobytes() == kt.load(tmp_path / "arm.urdf").mass_matrix(q).tobytes()
