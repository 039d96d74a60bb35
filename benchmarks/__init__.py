"""Kinetree against its peers, in one process on one core."""

import os

# Before NumPy is imported: peers that call BLAS get the one core that all are measured on.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# What is timed is optimised code, but for first calls.
os.environ.setdefault("KINETREE_NO_TIERS", "1")
