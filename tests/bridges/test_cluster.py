"""A real cluster of two processes, data larger than the memory of either, and a worker that is killed half-way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.cli import compute
from kinetree.cli.job import Output, plan
from tests.oracle import oracle

da = oracle("dask.array")
distributed = oracle("distributed")
zarr = oracle("zarr")

SAMPLES, CHUNK = 6_400_000, 100_000
LIMIT = 290 * 2**20  # of which an idle worker takes 80 MB
NAMES = ("q", "v", "tau")


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return kt.zoo.double_pendulum()


@pytest.fixture(scope="module")
def data(robot: kt.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "data.zarr"
    zarr.open_group(str(path), mode="w")
    # few of its bits are random, so that it is written and read quickly
    numbers = np.arange(2 * SAMPLES, dtype=float).reshape(SAMPLES, 2)
    for i, name in enumerate(NAMES):
        array = zarr.open_array(
            str(path / name), mode="w", shape=numbers.shape, chunks=(CHUNK, 2), dtype="f8", fill_value=0.0
        )
        array[...] = np.sin(numbers[: SAMPLES // 8] + i).astype("f4").repeat(8, axis=0) + numbers * 1e-6
    assert 3 * numbers.nbytes > LIMIT
    return path


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None, silence_logs=50
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


def test_compute_survives_the_death_of_a_worker(client: Any, robot: kt.Model, data: Path, tmp_path: Path) -> None:
    job = plan(robot, "forward_dynamics", data, tmp_path / "out.zarr", {}, CHUNK)
    output = Output(job, robot)
    completed = []
    with output.journal() as (_, record):
        for block in compute.on_cluster(client, job, list(range(job.blocks))):
            record(block)
            completed.append(block)
            if len(completed) == job.blocks // 4:
                kill_one(client)
    output.finish()
    assert sorted(completed) == list(range(job.blocks))
    result = zarr.open_group(str(job.out), mode="r")["forward_dynamics"][...]
    assert result.tobytes() == expected(robot, data).tobytes()
    peaks = list(client.run(peak).values())
    print("peak memory of workers, MB:", [round(one / 1e6) for one in peaks])
    assert max(peaks) < LIMIT


def test_lazy_arrays_survive_the_death_of_a_worker(client: Any, robot: kt.Model, data: Path) -> None:
    arrays = [da.from_zarr(str(data / name), chunks=(CHUNK, 2)) for name in NAMES]
    half = [array[: SAMPLES // 2] for array in arrays]
    a = robot.forward_dynamics(*half)
    sums = client.persist(a.map_blocks(lambda block: block.sum(axis=0, keepdims=True), chunks=((1,) * 32, (2,))))
    next(iter(distributed.as_completed(distributed.futures_of(sums))))
    kill_one(client)
    whole = expected(robot, data)[: SAMPLES // 2].reshape(-1, CHUNK, 2).sum(axis=1)
    np.testing.assert_array_equal(sums.compute(), whole)
