"""`kinetree compute`: results, restarts after interruptions of every kind, and loud refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import kinetree as kt
from kinetree.cli import app, job
from kinetree.errors import InputError, UnknownNameError
from tests.oracle import oracle

zarr = oracle("zarr")

SAMPLES = 1000
_ROBOT = kt.zoo.double_pendulum()
for _body in _ROBOT.bodies:
    _ROBOT = _ROBOT.with_inertia(_body.name, inertia=0.01 * np.eye(3))


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(kt.to_urdf(_ROBOT), encoding="utf-8")
    return path


def write(path: Path, name: str, values: np.ndarray) -> None:
    chunks = (300, *values.shape[1:]) if values.ndim else ()
    zarr.open_array(str(path / name), mode="w", shape=values.shape, chunks=chunks, dtype=values.dtype)[...] = values


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path, rng = tmp_path / "data.zarr", np.random.default_rng(0)
    zarr.open_group(str(path), mode="w")
    for name in ("q", "v", "a", "tau"):
        write(path, name, rng.standard_normal((SAMPLES, 2)))
    return path


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, ["compute", *(str(word) for word in words)])


def arrays(path: Path, *names: str) -> Any:
    group = zarr.open_group(str(path), mode="r")
    return [group[name][...] for name in names]


def test_results_are_those_of_the_function(robot: Path, data: Path, tmp_path: Path) -> None:
    model, out = kt.load(robot), tmp_path / "out.zarr"
    q, v, tau = arrays(data, "q", "v", "tau")
    done = call("energy", robot, data, "--out", out, "--block", 300)
    assert done.exit_code == 0, done.output
    assert f"{out}: kinetic (1000,), potential (1000,)" in done.output
    for got, expected in zip(arrays(out, "kinetic", "potential"), model.energy(q, v), strict=True):
        assert got.tobytes() == expected.tobytes()
    assert not list(tmp_path.glob("out.zarr.*"))
    again = call("energy", robot, data, "--out", out, "--block", 300)
    assert f"{out} is complete: 4 blocks" in again.output

    write(data, "dt", np.array(0.01))  # one value for all samples
    (data / "f_ext").mkdir()
    zarr.open_group(str(data / "f_ext"), mode="w")
    wrench = np.random.default_rng(1).standard_normal((SAMPLES, 6))
    write(data, "f_ext/tip", wrench)
    for name, options, titles, expected in (
        ("step", ["--method", "rk4"], ("step_0", "step_1"), model.step(q, v, tau, 0.01, "rk4", f_ext={"tip": wrench})),
        ("pose", ["--frames", "tip"], ("pose",), (model.pose(q, "tip"),)),
        ("jacobian", ["--frames", "tip,", "--reference", "world"], ("jacobian",),
         (model.jacobian(q, ["tip"], "world"),)),
        ("forward_dynamics.vjp", [], None, None),
    ):  # fmt: skip
        if titles is None:
            write(data, "w", v)
            expected = model.forward_dynamics.vjp(q, v, tau, v, f_ext={"tip": wrench})
            titles = expected._fields
        out = tmp_path / f"{name}.zarr"
        done = call(name, robot, data, "--out", out, *options)
        assert done.exit_code == 0, done.output
        for got, right in zip(arrays(out, *titles), expected, strict=True):
            assert got.tobytes() == np.ascontiguousarray(right).tobytes()


def test_an_interrupted_run_continues(robot: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, computed, real = tmp_path / "out.zarr", [], job.Job.run

    def torn(self: job.Job, block: int) -> int:
        computed.append(block)
        real(self, block)
        if len(computed) == 3:  # in the middle of writing the chunk
            chunk = max((path for path in out.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
            chunk.write_bytes(chunk.read_bytes()[:7])
            raise KeyboardInterrupt
        return block

    monkeypatch.setattr(job.Job, "run", torn)
    words = ("gravity_forces", robot, data, "--out", out, "--block", 100)
    first = call(*words)
    assert first.exit_code == 130
    assert "interrupted; 2 of 10 blocks are complete. Run the same command again to continue" in first.output
    journal = tmp_path / "out.zarr.journal"
    journal.write_bytes(journal.read_bytes() + b"7")  # a line without its end
    second = call(*words)
    assert second.exit_code == 0, second.output
    assert "continuing: 2 of 10 blocks are there" in second.output
    assert computed == [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9]
    assert not journal.exists()
    expected = kt.load(robot).gravity_forces(*arrays(data, "q"))
    assert arrays(out, "gravity_forces")[0].tobytes() == expected.tobytes()


def test_a_journal_of_a_deleted_output_means_nothing(robot: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    (tmp_path / "out.zarr.journal").write_text("0123456789abcdef\n0\n1\n2\n", encoding="utf-8")
    assert call("gravity_forces", robot, data, "--out", out, "--block", 100).exit_code == 0
    assert np.isfinite(arrays(out, "gravity_forces")[0]).all()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_continues(robot: Path, data: Path, tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "out.zarr"
    journal = tmp_path / "out.zarr.journal"
    words = ["compute", "mass_matrix", str(robot), str(data), "--out", str(out), "--block", "5"]
    # slow enough to be killed in the middle, on however busy a machine
    program = (
        "import time\nfrom kinetree.cli import job, main\nreal = job.Job.run\n"
        "job.Job.run = lambda self, block: (time.sleep(0.03), real(self, block))[1]\nmain()"
    )
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None and (not journal.exists() or journal.stat().st_size < 30):
            time.sleep(0.01)
        os.kill(running.pid, how)
        _, said = running.communicate()
    assert running.returncode == (-how if how == signal.SIGKILL else 130), said
    assert (how == signal.SIGKILL) or "Run the same command again to continue" in said
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "continuing: " in done.output
    expected = kt.load(robot).mass_matrix(*arrays(data, "q"))
    assert arrays(out, "mass_matrix")[0].tobytes() == expected.tobytes()


def refused(kind: type[Exception], message: str, *words: Any) -> None:
    done = call(*words)
    assert isinstance(done.exception, kind), done.output
    assert message in str(done.exception)


def test_what_cannot_be_computed_is_refused_before_anything_is_written(robot: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    there = "'a', 'q', 'tau', 'v'"
    refused(UnknownNameError, "no function is called 'energie'; did you mean 'energy'", "energie", robot, data,
            "--out", out)  # fmt: skip
    refused(UnknownNameError, "no function is called '_move'", "_move", robot, data, "--out", out)
    refused(UnknownNameError, "no derivative of energy is called 'vjp'", "energy.vjp", robot, data, "--out", out)
    refused(InputError, f"difference needs an array 'q0'; {data} has {there}", "difference", robot, data, "--out", out)
    refused(InputError, "is not a directory; give a Zarr group", "energy", robot, tmp_path / "no.zarr", "--out", out)
    (tmp_path / "empty").mkdir()
    refused(InputError, "is not a Zarr group", "energy", robot, tmp_path / "empty", "--out", out)
    refused(InputError, "energy takes no --frames", "energy", robot, data, "--out", out, "--frames", "tip")
    refused(InputError, "pose takes no --method; it takes --frames", "pose", robot, data, "--out", out, "--method", "x")
    refused(InputError, "jacobian needs --frames; there are: ", "jacobian", robot, data, "--out", out)
    refused(UnknownNameError, "no frame is called 'nose'", "pose", robot, data, "--out", out, "--frames", "nose")
    write(data, "v", np.zeros((SAMPLES, 3)))
    refused(InputError, "energy: v has shape (1000, 3), expected (..., 2)", "energy", robot, data, "--out", out)
    write(data, "v", np.zeros((7, 2)))
    refused(InputError, "energy: arrays have different numbers of samples: q (1000,), v (7,)", "energy", robot, data,
            "--out", out)  # fmt: skip
    write(data, "q", np.zeros(2, dtype=bool))
    refused(InputError, "gravity_forces: q has dtype bool", "gravity_forces", robot, data, "--out", out)
    write(data, "q", np.zeros(2))
    refused(InputError, "none of the arrays has an axis of samples", "gravity_forces", robot, data, "--out", out)
    both = call("energy", robot, data, "--out", out, "--workers", 2, "--scheduler", "tcp://x:1")
    assert both.exit_code == 2
    assert "give either --workers or --scheduler" in both.output
    assert not out.exists()
    assert not list(tmp_path.glob("out.zarr*"))


def test_other_outputs_are_left_alone(robot: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    assert call("gravity_forces", robot, data, "--out", out).exit_code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    exists = f"{out} exists, and its "
    refused(
        InputError, exists + "function is 'gravity_forces' instead of 'energy'", "energy", robot, data, "--out", out
    )
    heavier = tmp_path / "heavier.urdf"
    heavier.write_text(kt.to_urdf(_ROBOT.with_inertia("upper", mass=9.0)), encoding="utf-8")
    refused(InputError, exists + "model is ", "gravity_forces", heavier, data, "--out", out)
    refused(InputError, exists + "block is 1000 instead of 7", "gravity_forces", robot, data, "--out", out,
            "--block", 7)  # fmt: skip
    write(data, "q", np.zeros((SAMPLES, 2)))
    refused(InputError, exists + "state of the data is ", "gravity_forces", robot, data, "--out", out)
    unlike = f"{data} exists and was not made by kinetree compute; choose another --out"
    refused(InputError, unlike, "energy", robot, data, "--out", data)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_one_process_at_a_time(robot: Path, data: Path, tmp_path: Path) -> None:
    model, out = kt.load(robot), tmp_path / "out.zarr"
    planned = job.plan(model, "gravity_forces", data, out, {}, None)
    with job.Output(planned, model).journal():
        refused(InputError, f"another process is computing into {out}; wait for it", "gravity_forces", robot, data,
                "--out", out)  # fmt: skip


def test_errors_in_a_block_name_its_samples(
    robot: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: job.Job, block: int) -> int:
        raise InputError("no")

    monkeypatch.setattr(job.Job, "run", fail)
    words = ("energy", robot, data, "--out", tmp_path / "out.zarr", "--block", 100)
    refused(InputError, "samples 0 to 99: no", *words)


def test_a_scheduler_that_does_not_answer_is_named(
    robot: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    out = tmp_path / "out.zarr"
    refused(InputError, "no Dask scheduler answers at nowhere", "energy", robot, data, "--out", out,
            "--scheduler", "nowhere://x")  # fmt: skip
    refused(InputError, "--memory-limit much: ", "energy", robot, data, "--out", out, "--workers", 1,
            "--memory-limit", "much")  # fmt: skip
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused(InputError, "a cluster needs Dask", "energy", robot, data, "--out", out, "--workers", 1)
    monkeypatch.setitem(sys.modules, "zarr", None)
    refused(InputError, "compute needs zarr", "energy", robot, data, "--out", out)
