"""A digest of a user's formulas: names compiled code, so that changed formulas never meet old machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from kinetree.engines.checks import canonical
from kinetree.engines.ir import Input, Output, Program, Store
from kinetree.engines.symbolic import object_array
from kinetree.errors import ContractError, ModelError
from kinetree.spatial.value import Array

#: What computes a formula, and the shape of its result.
Formula = tuple[Callable[[], Any], tuple[int, ...]]


def digest(owner: str, sizes: Sequence[int], formulas: Callable[..., Mapping[str, Formula]]) -> str:
    """Sixteen hexadecimal digits that depend on what formulas compute, and on nothing else.

    Args:
        owner: Whose formulas they are, for messages.
        sizes: Length of each array that they take.
        formulas: Given these arrays, the formulas by name.

    Raises:
        ModelError: If a formula gives an array of another shape, or is no arithmetic that can be traced.
    """
    program = Program()
    arrays = [
        object_array([program.load(Input(number, ((0, i),))) for i in range(size)]) for number, size in enumerate(sizes)
    ]
    for number, (name, (formula, shape)) in enumerate(formulas(*arrays).items()):
        values = _traced(f"{owner}: {name}", formula, shape)
        for i, value in enumerate(values.reshape(-1)):
            program.current.items.append(Store(Output(number, ((0, i),)), program.lift(value)))
    return sha256(repr(canonical(program.top)).encode()).hexdigest()[:16]


def _traced(what: str, formula: Callable[[], Any], shape: tuple[int, ...]) -> Array:
    try:
        values = np.asarray(formula())
    except ContractError as error:
        raise ModelError(f"{what} must be arithmetic that runs on symbols. {error}") from None
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ModelError(f"{what} must be arithmetic that runs on symbols: {error}") from error
    if values.shape != shape:
        raise ModelError(f"{what} gives an array of shape {values.shape}; it must be {shape}")
    return values
