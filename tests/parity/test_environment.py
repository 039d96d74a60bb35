"""The floating-point environment of a thread changes no result, and calls leave it as they find it."""

from __future__ import annotations

import ctypes
import pickle
import platform
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime import threads
from tests.parity.functions import assert_same_bits

FLUSH = {"x86_64": 0x8040, "aarch64": 1 << 24}  # FTZ and DAZ of MXCSR; FZ of FPCR
UPWARD = {"x86_64": 0x4000, "aarch64": 1 << 22}  # rounding modes

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in FLUSH, reason="fenv_t is known for glibc only"
)


def read() -> bytes:
    environment = ctypes.create_string_buffer(32)
    assert ctypes.CDLL("libm.so.6").fegetenv(environment) == 0
    return environment.raw


def settings(environment: bytes) -> int:
    """MXCSR without its flags, or FPCR."""
    if platform.machine() == "x86_64":
        return struct.unpack_from("I", environment, 28)[0] & ~0x3F
    return struct.unpack_from("I", environment, 0)[0]


@contextmanager
def environment(setting: str) -> Iterator[None]:
    """A thread that flushes subnormal numbers, or rounds upwards, or traps on invalid operations."""
    before = read()
    changed = bytearray(before)
    place = 28 if platform.machine() == "x86_64" else 0
    word = struct.unpack_from("I", changed, place)[0]
    if setting == "trap":
        word = word & ~0x80 if platform.machine() == "x86_64" else word | 0x100
    else:
        word |= (FLUSH if setting == "flush" else UPWARD)[platform.machine()]
    struct.pack_into("I", changed, place, word)
    libm = ctypes.CDLL("libm.so.6")
    try:
        libm.fesetenv(bytes(changed))
        yield
    finally:
        libm.fesetenv(before)


def tiny(count: int) -> tuple[kt.Model, np.ndarray, np.ndarray]:
    """A robot with configurations, and joint forces so small that accelerations are subnormal numbers."""
    model = kt.zoo.double_pendulum()
    q = model.random_configuration(0, count)
    return model, q, 1e-309 * np.random.default_rng(0).uniform(-1.0, 1.0, q.shape)


@pytest.mark.parametrize("setting", ["flush", "upward"])
def test_a_thread_with_another_environment_gets_the_same_bits(setting: str) -> None:
    model, q, x = tiny(50)
    calls = [
        (model.mass_matrix_solve, (q, x)),
        (model.mass_matrix, (q,)),
        (model.mass_matrix_determinant, (q,)),
        (model.mass_matrix_log_determinant, (q,)),
    ]
    expected = [function(*arrays) for function, arrays in calls]
    assert 0 < np.abs(expected[0]).max() < np.finfo(float).tiny
    with environment(setting):
        during = settings(read())
        alone = [np.stack([function(*one) for one in zip(*arrays, strict=True)]) for function, arrays in calls]
        together = [function(*arrays) for function, arrays in calls]
        assert settings(read()) == during
    assert_same_bits(tuple(alone), tuple(expected))
    assert_same_bits(tuple(together), tuple(expected))


@pytest.mark.parametrize("setting", ["flush", "upward"])
def test_nodes_are_assembled_with_the_same_bits(setting: str) -> None:
    """Models assemble their nodes when a function first needs them, whatever the thread's settings are then."""
    early, late = (pickle.loads(pickle.dumps(kt.zoo.humanoid24())) for _ in range(2))
    expected = *early.mechanism.parameters, *(site.placement for site in early.sites)
    with environment(setting):
        found = *late.mechanism.parameters, *(site.placement for site in late.sites)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("setting", ["flush", "upward"])
def test_threads_of_one_batch_agree(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calling thread takes a part of the batch; the others never heard of its settings."""
    model, q, x = tiny(1000)
    expected = model.mass_matrix_solve(q, x)
    monkeypatch.setattr("kinetree.runtime.threads.NUMBERS_PER_THREAD", 1 << 8)
    threads.set_threads(3)
    try:
        with environment(setting):
            result = model.mass_matrix_solve.general(q, x)  # batches this small need no threads otherwise
    finally:
        threads.set_threads(None)
    assert_same_bits((result,), (expected,))


def survive() -> None:
    """Call functions with numbers that are not finite, while invalid operations end the process."""
    model, q, x = tiny(5)
    q[2] = x[2] = np.inf
    for function, arrays in ((model.mass_matrix_solve, (q, x)), (model.inverse_dynamics, (q, x, x))):
        expected = function(*arrays)
        assert np.isnan(expected[2]).all()
        with environment("trap"):
            together, alone = function(*arrays), function(*(array[2] for array in arrays))
        assert_same_bits((together, alone), (expected, expected[2]))


def test_a_thread_that_traps_invalid_operations_is_not_killed() -> None:
    """In a process of its own, which a trap would kill."""
    code = f"from {__name__} import survive; survive()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_torch_that_flushes_denormals() -> None:
    torch = pytest.importorskip("torch")
    model, q, x = tiny(5)
    expected = model.mass_matrix_solve(q, x)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        results = model.mass_matrix_solve(q, x), np.stack([model.mass_matrix_solve(*one) for one in zip(q, x)])
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(results, (expected, expected))
