"""The floating-point formats that kernels compute in.

An algorithm does not know its format. It is chosen when the lowered program is printed: the width of elements, the
number of lanes in a vector register, the constants of sine and cosine, and the type of NumPy's arrays all follow from
it. The model's mechanism names its format (`Mechanism.scalar`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from struct import pack
from typing import Any

import numpy as np

from kinetree.compiler.elementary import DOUBLE, SINGLE, Precision
from kinetree.errors import InputError, UnsupportedError
from kinetree.language.mechanism import Mechanism
from kinetree.spatial.scalar import Constant


@dataclass(frozen=True)
class Format:
    """A floating-point format."""

    name: str  # of NumPy
    bytes: int  # size of a number
    llvm: str  # its name in LLVM and C
    number: int  # NumPy's number of the type in its C interface
    precision: Precision  # constants of sine and cosine

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """NumPy's type."""
        return _DTYPES[self.name]

    @property
    def note(self) -> str:
        """What the log adds to the name of code in another format than the default one."""
        return "" if self.bytes == 8 else f", {self.name}"

    @property
    def integer(self) -> str:
        """LLVM's integer of the same size."""
        return f"i{8 * self.bytes}"

    def vector(self, lanes: int) -> str:
        """LLVM's type of several numbers, or of one."""
        return self.llvm if lanes == 1 else f"<{lanes} x {self.llvm}>"

    def suffix(self, lanes: int) -> str:
        """The same type in names of intrinsics."""
        return ("" if lanes == 1 else f"v{lanes}") + f"f{8 * self.bytes}"

    def value(self, number: float) -> float:
        """A number of a program in this format."""
        if isinstance(number, Constant):
            return float(number) if self.bytes == 8 else number.single
        with np.errstate(all="ignore"):
            return float(self.dtype.type(number))

    def require(self, number: float) -> None:
        """Raise if this format has no number like one of an algorithm."""
        value = self.value(number)
        if math.isinf(value) > math.isinf(number) or (value == 0.0) > (number == 0.0):
            raise UnsupportedError(
                f"the number {number:g} of an algorithm is out of the range of {self.name}; use numbers that every "
                "format has, or robot.astype('float64')"
            )

    def constant(self, value: float, lanes: int = 1) -> str:
        """A number in all lanes, rounded to this format. LLVM writes numbers of all formats in the bits of a double."""
        text = "0x" + pack(">d", self.value(value)).hex().upper()
        return text if lanes == 1 else "<" + ", ".join([f"{self.llvm} {text}"] * lanes) + ">"


FLOAT64 = Format("float64", 8, "double", 12, DOUBLE)
FLOAT32 = Format("float32", 4, "float", 11, SINGLE)
FORMATS = {one.name: one for one in (FLOAT64, FLOAT32)}

_DTYPES: dict[str, np.dtype[np.floating]] = {name: np.dtype(name) for name in FORMATS}


def format_of(mechanism: Mechanism) -> Format:
    """The format in which functions of a mechanism compute."""
    return FORMATS[mechanism.scalar]


def rounded(array: Any, dtype: np.dtype[Any]) -> Any:
    """An array in another type, without warnings: numbers beyond its range become infinite, or zero."""
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def format_named(dtype: Any) -> Format:
    """The format of a NumPy type, or of what NumPy takes for one; raises `InputError` if there is none."""
    if type(dtype) is str and dtype in FORMATS:
        return FORMATS[dtype]
    try:
        return FORMATS[np.dtype(dtype if dtype is not None else "none").name]
    except (TypeError, KeyError):
        choices = " or ".join(map(repr, FORMATS))
        raise InputError(f"functions compute in {choices}, not in {dtype!r}") from None


def require_double(mechanism: Mechanism, what: str) -> None:
    """Raise unless functions of a mechanism compute in float64, which `what` needs."""
    if mechanism.scalar != FLOAT64.name:
        raise UnsupportedError(
            f"{what} computes in float64 only, and this robot's functions compute in {mechanism.scalar}; "
            f"use robot.astype('float64')"
        )
