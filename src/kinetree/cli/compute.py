"""`kinetree compute`: runs a job in this process, on a local cluster, or on an existing one, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import kinetree as kt
from kinetree.cli.job import ComputeJob, ComputeOutput
from kinetree.errors import InputError, KinetreeError

#: Exit code of an interrupted command: 128 + SIGINT.
_INTERRUPTED = 130
#: Blocks that wait in the queue of each worker, so that none is idle while the next one is sent.
_AHEAD = 2
#: Seconds without a result after which workers are asked whether they still work.
_PATIENCE = 5.0
_MORE_MEMORY = "raise --memory-limit or choose a smaller --block"

#: Runs blocks, and yields the number of each as it is completed.
Runner = Callable[[ComputeJob, list[int]], Iterator[int]]


def run(job: ComputeJob, robot: kt.Model, workers: int | None, scheduler: str | None, memory_limit: str) -> None:
    """Compute what is missing of a job: in this process, or in `workers` processes or at the address of a scheduler."""
    output = ComputeOutput(job, robot)
    if output.complete:
        typer.echo(f"{job.out} is complete: {job.blocks} block{'s'[: job.blocks != 1]}")
        return
    with output.journal() as (done, record):
        missing = [block for block in range(job.blocks) if block not in done]
        if done:
            typer.echo(f"continuing: {len(done)} of {job.blocks} blocks are there", err=True)
        left = len(missing)
        try:
            with _runner(workers, scheduler, memory_limit) as runner, _progress(job, len(done)) as advance:
                for block in runner(job, missing):
                    record(block)
                    left -= 1
                    advance()
        except KeyboardInterrupt:
            typer.echo(
                f"interrupted; {job.blocks - left} of {job.blocks} blocks are complete. "
                "Run the same command again to continue",
                err=True,
            )
            raise typer.Exit(_INTERRUPTED) from None
    output.finish()
    shapes = ", ".join(f"{result.name} {(*job.batch, *result.shape)}" for result in job.results)
    typer.echo(f"{job.out}: {shapes}")


@contextmanager
def _progress(job: ComputeJob, done: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error if that is a terminal."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True, markup=False, emoji=False)) as progress:
        bar = progress.add_task(job.name, total=job.blocks, completed=done)
        yield lambda: progress.advance(bar)


@contextmanager
def _runner(workers: int | None, scheduler: str | None, memory_limit: str) -> Iterator[Runner]:
    if workers is None and scheduler is None:
        yield _here
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError(f"a cluster needs Dask ({error}): pip install 'kinetree[dask]'") from None
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        with client:
            yield lambda job, blocks: on_cluster(client, job, blocks)
        return
    try:
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=memory_limit, dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},  # any page could read it
        )  # fmt: skip
    except ValueError as error:
        raise InputError(f"--memory-limit {memory_limit}: {error}") from None
    with cluster, Client(cluster) as client:
        yield lambda job, blocks: on_cluster(client, job, blocks)


def _here(job: ComputeJob, blocks: list[int]) -> Iterator[int]:
    for block in blocks:
        with _located(job, block):
            done = job.run(block)
        yield done


def on_cluster(client: Any, job: ComputeJob, blocks: list[int]) -> Iterator[int]:
    """Keep a few blocks per worker in flight, so that memory and the scheduler's work are bounded."""
    import distributed

    waiting = iter(blocks)
    pending: dict[Any, int] = {}

    def submit(count: int) -> None:
        for _, block in zip(range(count), waiting):
            pending[client.submit(_run, job, block, pure=False)] = block

    submit(_AHEAD * max(1, len(client.nthreads())))
    while pending:
        try:
            distributed.wait(list(pending), timeout=_PATIENCE, return_when="FIRST_COMPLETED")
        except distributed.TimeoutError:
            _require_awake(client)
            continue
        for future in [each for each in pending if each.done()]:
            block = pending.pop(future)
            try:
                with _located(job, block):
                    done: int = future.result()
            except distributed.KilledWorker:
                raise InputError(
                    f"{_samples(job, block)}: one worker after another died computing them; if they ran out of memory, "
                    f"{_MORE_MEMORY}"
                ) from None
            yield done
            submit(1)


def _require_awake(client: Any) -> None:
    """Raise if no worker takes work: Dask pauses those that use four fifths of their memory."""
    states = client.run_on_scheduler(_states)
    if states and all(state == "paused" for state in states):
        raise InputError(f"all workers are short of memory and take no more work; {_MORE_MEMORY}")


def _states(dask_scheduler: Any) -> list[str]:
    return [worker.status.name for worker in dask_scheduler.workers.values()]


def _run(job: ComputeJob, block: int) -> int:
    return job.run(block)


def _samples(job: ComputeJob, block: int) -> str:
    extent = job.extent(block)
    return f"samples {extent.start} to {extent.stop - 1}"


@contextmanager
def _located(job: ComputeJob, block: int) -> Iterator[None]:
    """Errors name the samples of a block."""
    try:
        yield
    except KinetreeError as error:
        raise InputError(f"{_samples(job, block)}: {error}") from None
