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
    with zarr.config.set({"array.write_empty_chunks": True}):
        home = zarr.open_array(str(path / name), mode="w", shape=values.shape, chunks=chunks, dtype=values.dtype)
        home[...] = values


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
    out, computed, real = tmp_path / "out.zarr", [], job.ComputeJob.run

    def torn(self: job.ComputeJob, block: int) -> int:
        computed.append(block)
        real(self, block)
        if len(computed) == 3:  # in the middle of writing the chunk
            chunk = max((path for path in out.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
            chunk.write_bytes(chunk.read_bytes()[:7])
            raise KeyboardInterrupt
        return block

    monkeypatch.setattr(job.ComputeJob, "run", torn)
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
        "import time\nfrom kinetree.cli import job, main\nreal = job.ComputeJob.run\n"
        "job.ComputeJob.run = lambda self, block: (time.sleep(0.03), real(self, block))[1]\nmain()"
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
    with job.ComputeOutput(planned, model).journal():
        refused(InputError, f"another process is computing into {out}; wait for it", "gravity_forces", robot, data,
                "--out", out)  # fmt: skip


def test_errors_in_a_block_name_its_samples(
    robot: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: job.ComputeJob, block: int) -> int:
        raise InputError("no")

    monkeypatch.setattr(job.ComputeJob, "run", fail)
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


def chunk(data: Path, name: str, number: int) -> Path:
    return data / name / "c" / str(number) / "0"


@pytest.mark.parametrize("how", ["cut", "empty", "foreign"])
def test_a_damaged_chunk_is_named(robot: Path, data: Path, tmp_path: Path, how: str) -> None:
    file, out = chunk(data, "v", 2), tmp_path / "out.zarr"
    file.write_bytes({"cut": file.read_bytes()[:50], "empty": b"", "foreign": b"\x7fELF" * 100}[how])
    words = ("energy", robot, data, "--out", out, "--block", 300)
    refused(InputError, f"samples 600 to 899: {file} is damaged and cannot be read (", *words)
    words = ("energy", robot, data, "--out", tmp_path / "other.zarr", "--block", 100)  # a part of the chunk
    refused(InputError, f"samples 600 to 699: {file} is damaged and cannot be read (", *words)


def test_a_damaged_chunk_ends_the_program_with_a_message(robot: Path, data: Path, tmp_path: Path) -> None:
    file = chunk(data, "q", 1)
    file.write_bytes(file.read_bytes()[:50])
    words = ["compute", "energy", str(robot), str(data), "--out", str(tmp_path / "out")]
    program = [sys.executable, "-c", "from kinetree.cli import main; main()", *words]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"InputError: samples 0 to 999: {file} is damaged" in done.stderr


def test_missing_chunks_are_named_and_refused(robot: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    for name, number in (("q", 1), ("v", 0), ("v", 3)):
        chunk(data, name, number).unlink()
    chunk(data, "q", 1).mkdir()  # Zarr takes it for nothing as well
    words = ("energy", robot, data, "--out", out)
    refused(InputError, f"{data / 'q'}: 1 of 4 chunks are missing, and read as 0.0: c/1/0 (samples 300 to 599)", *words)
    refused(InputError, f"{data / 'v'}: 2 of 4 chunks are missing, and read as 0.0: c/0/0 (samples 0 to 299), c/3/0 "
            "(samples 900 to 999)", *words)  # fmt: skip
    refused(InputError, "pass --missing fill", *words)
    assert not out.exists()
    done = call(*words, "--missing", "fill")
    assert done.exit_code == 0, done.output
    assert "warning: " in done.output
    assert "c/1/0 (samples 300 to 599)" in done.output
    q, v = arrays(data, "q", "v")
    assert not q[300:600].any()
    expected = kt.load(robot).energy(q, v)
    assert arrays(out, "kinetic")[0].tobytes() == expected.kinetic.tobytes()
    assert call(*words, "--missing", "guess").exit_code == 2


def test_arrays_that_need_no_chunks(robot: Path, data: Path, tmp_path: Path) -> None:
    """Arrays that the function does not take, and those of no samples."""
    chunk(data, "tau", 0).unlink()
    assert call("energy", robot, data, "--out", tmp_path / "one").exit_code == 0
    write(data, "q", np.zeros((SAMPLES, 2)))  # zeros that were written
    assert call("energy", robot, data, "--out", tmp_path / "two").exit_code == 0


@pytest.mark.parametrize("layout", ["2", "2 nested", "3 flat", "shards"])
def test_chunks_of_every_layout_are_found(robot: Path, tmp_path: Path, layout: str) -> None:
    data, values = tmp_path / "other.zarr", np.random.default_rng(0).normal(size=(10, 2))
    form = 2 if layout.startswith("2") else 3
    group = zarr.open_group(str(data), mode="w", zarr_format=form)
    options: dict[str, Any] = {
        "2": {},
        "2 nested": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "3 flat": {"chunk_key_encoding": {"name": "default", "separator": "."}},
        "shards": {"shards": (4, 2)},
    }[layout]
    for name in "qv":
        group.create_array(name, data=values, chunks=(2, 2) if layout == "shards" else (4, 2), **options)
    planned = job.plan(kt.load(robot), "energy", data, tmp_path / "out", {})
    assert planned.missing_chunks() == []
    files = sorted(
        path for path in (data / "q").rglob("*") if path.is_file() and not path.name.startswith((".z", "zarr"))
    )
    assert len(files) == 3
    files[1].unlink()
    (told,) = planned.missing_chunks()
    key = files[1].relative_to(data / "q").as_posix()
    assert told.endswith(f"q: 1 of 3 chunks are missing, and read as 0.0: {key} (samples 4 to 7)")


@pytest.mark.parametrize("line", ["x", "-1", "10", "1.0", "", "\xff", "1 2"])
def test_a_damaged_journal_is_refused(robot: Path, data: Path, tmp_path: Path, line: str) -> None:
    model, out = kt.load(robot), tmp_path / "out.zarr"
    output = job.ComputeOutput(job.plan(model, "gravity_forces", data, out, {}, 100), model)
    with output.journal() as (_, record):
        record(0)
    journal = tmp_path / "out.zarr.journal"
    journal.write_bytes(journal.read_bytes() + line.encode("latin-1") + b"\n2\n")
    words = ("gravity_forces", robot, data, "--out", out, "--block", 100)
    refused(InputError, f"{journal}, line 3: ", *words)
    refused(InputError, "is no block, of which there are 10; the journal is damaged. Delete it, and all", *words)
    journal.unlink()
    assert call(*words).exit_code == 0
    assert np.isfinite(arrays(out, "gravity_forces")[0]).all()


def test_damaged_metadata_are_named(robot: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    words = ("gravity_forces", robot, data, "--out", out, "--block", 100)
    assert call(*words).exit_code == 0
    for wrong in ("{", "[]", "{}"):
        zarr.open_group(str(out), mode="r+").attrs["kinetree"] = wrong
        refused(InputError, f"{out} exists and was not made by kinetree compute", *words)
    (data / "q" / "zarr.json").write_text("{", encoding="utf-8")
    refused(
        InputError, f"{data} is damaged and cannot be read (", "gravity_forces", robot, data, "--out", tmp_path / "n"
    )
