"""What all tests share: one BLAS thread, and a garbage collector that is seldom needed."""

from __future__ import annotations

import gc
import os
import signal

# Before NumPy is imported: test workers share the cores, and BLAS results must not depend on how many there are.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Tests are about optimised code; those of drafts allow drafts.
os.environ.setdefault("KINETREE_NO_DRAFTS", "1")

# A run in the background of a shell ignores Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: the garbage collector need not traverse it again and again."""
    gc.collect()
    gc.freeze()
    # Programs are many objects without cycles: there is little to find.
    gc.set_threshold(10_000, 10, 10)
