"""What all tests share: one BLAS thread, XLA in a hurry, and a garbage collector that is seldom needed."""

from __future__ import annotations

import gc
import os
import signal

import pytest

# Before NumPy is imported: test workers share the cores, and BLAS results must not depend on how many there are.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Tests are about optimised code; those of tiered compilation allow two tiers.
os.environ.setdefault("KINETREE_NO_TIERS", "1")

# Machine code of XLA's own is not what is tested, and most of it runs once. What XLA does with programs stays the same.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# A run in the background of a shell ignores Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _settle() -> None:
    """What there is now stays to the end: the garbage collector need not traverse it again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Robots, programs and kernels of a module of tests are kept for others."""
    if nextitem is not None and nextitem.path != item.path:
        _settle()


def pytest_collection_finish() -> None:
    """Imported modules and collected tests."""
    _settle()
    # Programs are many objects without cycles: there is little to find.
    gc.set_threshold(10_000, 10, 10)
