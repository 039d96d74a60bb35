"""Optimised and unoptimised code have the same bits on nodes of every kind, whose parents move.

`test_bits` compares the tiers on joints of every kind for all public functions, `test_engines` for all dense kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinetree.compiler.llvm import machine_code
from tests.laws import test_general_nodes as nodes
from tests.parity.functions import FUNCTIONS, Function, assert_same_bits

NAMES = (*nodes.MOVING, *nodes.SLOW)
PLAIN = ("integrate", "inverse_dynamics", "forward_dynamics", "mass_matrix", "energy")
CASES = [(f, name) for f in FUNCTIONS for name in NAMES if f.name in PLAIN]
CASES += [(f, name) for f in FUNCTIONS for name in nodes.MOVING if f.name == "inverse_dynamics.vjp"]


@pytest.mark.parametrize(("function", "name"), CASES, ids=str)
def test_tiers_have_the_same_bits(function: Function, name: str) -> None:
    robot, (q, v, a, *_) = nodes.robot(name), nodes.state(name)
    arrays = [np.stack([part] * 5) for part in (q, v, a)]
    arrays[1] *= np.linspace(-1.0, 1.0, 5)[:, None]
    single = [array[1] for array in arrays]
    expected, alone = function(robot, *arrays), function(robot, *single)
    with machine_code.use(replace(machine_code.host(), optimizes=not machine_code.host().optimizes)):
        other = nodes.robot.__wrapped__(name)  # nothing is compiled for it yet
        assert_same_bits(function(other, *arrays), expected)
        assert_same_bits(function(other, *single), alone)
