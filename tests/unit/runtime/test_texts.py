"""Texts of several functions: recorded, and executed on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.kernels.products import opposing_force, total
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import executed, recorded
from tests.tolerance import assert_close, bound

INPUTS = [Operand("A", (2, 2)), Operand("x", (3,))]
OUTPUTS = [Operand("block", (2, 3)), Operand("long", (9,)), Operand("force", (2,)), Operand("one", (1,))]
CONSTANT = np.array([[5.0, 6.0], [6.0, 8.0]])  # its first axis is as long as the batch


def text(run: Any, A: Any, x: Any) -> list[Any]:
    """Elements taken, placed and joined, constants among them, and kernels on the results."""
    block = run.placed(run.taken(A, [[3, 1], [0, 2]]), [5, 1, 2, 3], (2, 3))
    both = run.taken(run.joined(CONSTANT, np.zeros((0, 2)), A), [1, 4])
    force = run(kt.compiled(opposing_force, r=2), CONSTANT, run.taken(x, [2, 0]))
    one = run.taken(x, 1)
    long = [run.joined(x, one), both, 7.0, force]
    return [block, long, run(kt.compiled(total, n=2), force, both), run.taken(run.joined(one), [0])]


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (0,)])
def test_one_text_recorded_and_executed(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    A, x = rng.normal(size=(*shape, 2, 2)), rng.normal(size=(*shape, 3))
    whole = recorded("text", INPUTS, OUTPUTS, text)(A, x)
    flat = A.reshape(*shape, 4)
    block = np.zeros((*shape, 2, 3))
    block[..., 1, 2], block[..., 0, 1], block[..., 0, 2], block[..., 1, 0] = np.moveaxis(flat[..., [3, 1, 0, 2]], -1, 0)
    both = np.stack(np.broadcast_arrays(CONSTANT[0, 1], flat[..., 0]), axis=-1)
    force = -np.einsum("ij,...j->...i", CONSTANT, x[..., [2, 0]])
    seven = np.full((*shape, 1), 7.0)
    long = np.concatenate([x, x[..., 1:2], both, seven, force], axis=-1)
    for engine in ("native", "reference"):
        found = executed(INPUTS, text, engine)(A, x)
        for result, same, expected in zip(found, whole, (block, long, force + both, x[..., 1:2]), strict=True):
            assert result.shape == expected.shape
            assert_close(result, expected, bound(2))
            if engine == "native":
                np.testing.assert_array_equal(result, same)


def test_inputs_broadcast() -> None:
    A, x = np.ones((2, 1, 2, 2)), np.ones(3)
    for result in executed(INPUTS, text)(A, x):
        assert result.shape[:2] == (2, 1)
