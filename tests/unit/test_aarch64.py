"""Parts of `make test-aarch64` that need no emulator: comparing bits, and compiling for another machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import cache
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.programs import variants_of
from kinetree.runtime import compile_queue, kernels
from tests.oracle import program
from tools import aarch64
from tools.bits import Tally, states
from tools.c_bits import compared, declared
from tools.cross_compile import on_request

ARM = machine_code.Processor("aarch64-unknown-linux-gnu", "generic", "", 2)


def test_a_tally_sees_the_sign_of_zero() -> None:
    tally = Tally()
    tally.add("equal", np.array([0.0, -0.0, np.nan, 1.0]), np.array([0.0, -0.0, -np.nan, 1.0]))
    assert not tally.differing
    assert (tally.arrays, tally.numbers, tally.zeros, tally.negative_zeros) == (1, 4, 1, 1)
    tally.add("sign", np.array([0.0]), np.array([-0.0]))
    tally.add("last bit", np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3.0)]))
    tally.add("not a number", np.array([np.nan]), np.array([1.0]))
    tally.add("shape", np.zeros(2), np.zeros(0))
    assert [line.partition(":")[0] for line in tally.differing] == ["sign", "last bit", "not a number", "shape"]
    assert "1 of 2 entries, by up to 4.4e-16" in tally.differing[1]
    assert str(tally).endswith("1 times +0 and 2 times -0: 4 differ")


def test_states_have_zeros_of_both_signs() -> None:
    q, v, x = states(kt.zoo.double_pendulum())
    assert not np.signbit([q[5], v[5], x[5]]).any()
    assert np.signbit([q[6], v[6], x[6]]).all()
    assert not np.any([v[5:], x[5:], q[5:]])


def test_exported_c_is_compared_by_its_bits(tmp_path) -> None:
    """Compiled for this machine, at all states, with signs of zero; functions of frames and of several results."""
    robot, names, tally = kt.zoo.double_pendulum(), ["jacobian", "energy", "step"], Tally()
    for name, actual, expected in compared("arm", robot, tmp_path, [program("gcc")], [], names):
        tally.add(name, actual, expected)
    assert not tally.differing
    assert (tally.arrays, tally.numbers) == (5, 7 * (2 * 6 * 2 + 2 + 4))
    assert tally.negative_zeros


def test_headers_say_what_functions_take(tmp_path) -> None:
    header, _ = kt.zoo.double_pendulum().export_c(["energy", "step"], tmp_path)
    energy, step = declared(header.read_text("utf-8"))
    assert (energy.name, energy.inputs, energy.outputs) == ("double_pendulum_energy", {"q": 2, "v": 2}, (1, 1))
    assert (step.inputs, step.outputs) == ({"q": 2, "v": 2, "tau": 2, "dt": 1}, (2, 2))


def test_kernels_for_another_machine_are_found_there(tmp_path, monkeypatch) -> None:
    """Under the name that the other machine looks for, and with its code."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels.Kernels, "library", kernels.Kernels.library)  # restored afterwards
    monkeypatch.setenv("KINETREE_ALSO_FOR", "aarch64-unknown-linux-gnu|generic||2")
    on_request()
    robot = kt.zoo.double_pendulum()
    algorithm = robot.gravity_forces.algorithm
    made = kernels.Kernels(algorithm, variants_of(algorithm, robot.mechanism, ()))
    monkeypatch.setattr(kernels, "_made", lambda *_: made)
    robot.gravity_forces(np.zeros(2))
    with machine_code.use(ARM):
        metadata = made._stored()
    found = compile_queue.stored(cache.key(*made._name(1), ARM))
    assert found is not None
    assert metadata == found[0] == made.metadata
    for code in found[1]:
        assert code[:4] == b"\x7fELF"
        assert int.from_bytes(code[18:20], "little") == 183  # EM_AARCH64


def test_the_emulated_python_says_its_version(tmp_path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    link = tmp_path / "usr/bin/python3"
    link.symlink_to("python3.11")
    assert aarch64.python_version(tmp_path) == "3.11"
    link.unlink()
    link.symlink_to("elsewhere")
    with pytest.raises(aarch64.CheckFailed, match="'elsewhere', which says no version"):
        aarch64.python_version(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        (
            ["--stages", "bits,lwas"],
            (),
            "unknown stages ['lwas']; there are c, record, kernels, bits",
        ),
        ([], ("apt-get",), "needs apt-get: run it on Debian"),
    ],
)
def test_what_cannot_run_says_so(arguments, missing, message, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["aarch64", *arguments])
    monkeypatch.setattr(aarch64.shutil, "which", lambda name: None if name in missing else f"/usr/bin/{name}")
    with pytest.raises(SystemExit):
        aarch64.main()
    assert message in capsys.readouterr().err


def test_a_failed_command_is_shown() -> None:
    with pytest.raises(aarch64.CheckFailed, match="(?s)-c.*\nno good"):
        aarch64.run(sys.executable, "-c", "import sys; sys.exit('no good')")
