"""C code that CasADi generates from Kinetree's own recursions, one robot's zeros folded: the call alone, from C.

The reference engine runs on CasADi's symbols (`benchmarks.c_export`). Functions of matrices of long programs are left
out: their compilation alone takes minutes.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import Any

import kinetree as kt
from benchmarks.c_export import from_casadi

FUNCTIONS = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "bias_forces",
    "gravity_forces",
    "center_of_mass",
    "pose",
    "jacobian",
    "velocity",
    "jacobian_dot_v",
)


def generated(model: kt.Model, name: str, sample: tuple[Any, ...], rest: tuple[Any, ...]) -> float | None:
    """Time of a call [s], for functions that CasADi's code is compiled for."""
    if name not in FUNCTIONS or find_spec("casadi") is None or shutil.which("gcc") is None:
        return None
    return from_casadi(model, name, list(sample), *rest)[0] * 1e-6
