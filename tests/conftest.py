"""What all tests share: one BLAS thread, and the way to ask for an oracle."""

from __future__ import annotations

import os

# Before NumPy is imported: test workers share the cores, and BLAS results must not depend on how many there are.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
