"""A digest of a user's formulas. It identifies compiled code, so changed formulas never run old machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from kinetree.compiler.ir import Input, OutputEntry, Program, Store
from kinetree.compiler.trace import object_array
from kinetree.compiler.verify import canonical
from kinetree.errors import ContractError, ModelError
from kinetree.spatial.value import Array

#: A formula as a callable, and the shape of its result.
Formula = tuple[Callable[[], Any], tuple[int, ...]]


def digest(owner: str, sizes: Sequence[int], formulas: Callable[..., Mapping[str, Formula]]) -> str:
    """Sixteen hexadecimal digits that depend only on what formulas, of arguments of given sizes, compute.

    Raises:
        ModelError: If a formula returns an array of another shape, or cannot be traced; names the owner.
    """
    program = Program()
    arrays = [
        object_array([program.load(Input(number, ((0, i),))) for i in range(size)]) for number, size in enumerate(sizes)
    ]
    for number, (name, (formula, shape)) in enumerate(formulas(*arrays).items()):
        values = _traced(f"{owner}: {name}", formula, shape)
        for i, value in enumerate(values.reshape(-1)):
            program.current.items.append(Store(OutputEntry(number, ((0, i),)), program.lift(value)))
    return sha256(repr(canonical(program.top)).encode()).hexdigest()[:16]


def _traced(what: str, formula: Callable[[], Any], shape: tuple[int, ...]) -> Array:
    try:
        with np.errstate(all="ignore"):  # of constants; `check_node` tells what is no number
            values = np.asarray(formula())
    except ContractError as error:
        raise ModelError(f"{what} must be arithmetic that runs on symbols. {error}") from None
    except (TypeError, ValueError, NotImplementedError, ArithmeticError, LookupError, AttributeError) as error:
        raise ModelError(f"{what} must be arithmetic that runs on symbols: {type(error).__name__}: {error}") from error
    if values.shape != shape:
        raise ModelError(f"{what} gives an array of shape {values.shape}; it must be {shape}")
    return values
