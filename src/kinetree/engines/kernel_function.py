"""Kernels of `kinetree.kernels` as functions of arrays, for given sizes."""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kinetree.engines.c99.source import CSource, Exported
from kinetree.engines.formats import format_named
from kinetree.engines.function import Function
from kinetree.errors import InputError
from kinetree.kernels.language import Kernel
from kinetree.recursion.mechanism import Sizes


class KernelFunction(Function[..., Any]):
    """A kernel for given sizes. Leading axes of its inputs are batch axes, which broadcast as in NumPy.

    `f.engine("reference")` runs the text on NumPy's numbers, complex ones too; `f.count()` counts its operations.
    """

    def export_c(self, directory: Any, *sample: Any) -> tuple[Path, Path]:
        """Write a C99 header and source of the kernel for these sizes, with the same bits; returns both paths.

        Args:
            directory: The directory to write to, created if necessary.
            *sample: One array for each input. The source can check itself with them, and the results of this function.
        """
        bound = self.bound()
        inputs = [np.asarray(each, dtype=self.dtype) for each in sample]
        results = bound(*inputs)
        for operand, given in zip(bound.binding.inputs, inputs, strict=True):
            if given.shape != operand.shape:
                raise InputError(
                    f"{self.name}.export_c: {operand.name} is one sample, {operand.shape}; got {given.shape}"
                )
        text = " ".join((self.__doc__ or self.name).strip().split("\n\n")[0].split())
        outputs = results if isinstance(results, tuple) else (results,)
        run = Exported("run", self.algorithm, (), text, (inputs, outputs))
        told = [f"{self.name}: {text}", "", "Written by Kinetree. To change it, export it again."]
        return CSource(self.name, self.mechanism, [run], told, []).write(directory)

    def __reduce__(self) -> tuple[Any, ...]:
        module, name, kernel = self.algorithm.run.__module__, self.name, self.algorithm
        if getattr(sys.modules.get(module), name, None) is not kernel or not isinstance(kernel, Kernel):
            raise TypeError(f"{name} cannot be pickled: it is no attribute {name!r} of {module}")
        sizes, every = tuple(Sizes.of(self.mechanism).values()), Sizes.lists_of(self.mechanism)
        lists = tuple(tuple(every[one.key]) for one in kernel.lists if one.chosen is None)
        return _recalled, (module, name, self.mechanism.scalar, sizes, lists, self._engine)


def compiled(kernel: Kernel, dtype: Any = "float64", /, **sizes: Any) -> KernelFunction:
    """A function of arrays from a kernel. Nothing is compiled before it is called, and all sizes share the code.

    Args:
        kernel: The kernel.
        dtype: "float64" or "float32".
        **sizes: A number for each of the kernel's named sizes; the indices of its lists.

    Raises:
        InputError: If a size is missing, unknown, or no integer from zero on; if a list has indices that do not exist.
    """
    if not isinstance(kernel, Kernel):
        raise InputError(f"{kernel!r} is no kernel; declare it with @kinetree.kernel(…)")
    for name in kernel.lists_given:
        if name in sizes:
            sizes[name] = _entries(kernel, name, sizes[name])
    try:
        return _looked_up(kernel, dtype, **sizes)
    except TypeError:  # of what has no hash
        return _checked(kernel, dtype, sizes)


def _entries(kernel: Kernel, name: str, given: Any) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(map(tuple, given))
    except TypeError:
        raise InputError(f"compiled({kernel.name}, …): list {name!r} has tuples of indices, got {given!r}") from None


def _checked(kernel: Kernel, dtype: Any, sizes: dict[str, Any]) -> KernelFunction:
    names = *kernel.sizes_named, *kernel.lists_given
    if set(sizes) != set(names):
        wanted = ", ".join(f"{name}=…" for name in names) or "no sizes"
        given = ", ".join(f"{name}={size!r}" for name, size in sizes.items()) or "none"
        raise InputError(f"compiled({kernel.name}, …) takes {wanted}; got {given}")
    for name in kernel.sizes_named:
        size = sizes[name]
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
            raise InputError(f"compiled({kernel.name}, {name}={size!r}): a size is an integer from zero on")
    lists = tuple(sizes[name] for name in kernel.lists_given)
    return _made(kernel, format_named(dtype).name, tuple(int(sizes[name]) for name in kernel.sizes_named), lists)


@lru_cache(maxsize=1024, typed=True)
def _looked_up(kernel: Kernel, dtype: Any, **sizes: Any) -> KernelFunction:
    return _checked(kernel, dtype, sizes)


def _recalled(module: str, name: str, dtype: str, sizes: tuple[int, ...], lists: Any, engine: str) -> KernelFunction:
    """Restore a pickled function."""
    return _made(getattr(importlib.import_module(module), name), dtype, sizes, lists).engine(engine)


@lru_cache(maxsize=1024)
def _made(
    kernel: Kernel, dtype: str, sizes: tuple[int, ...], lists: tuple[tuple[tuple[int, ...], ...], ...]
) -> KernelFunction:
    given = dict(zip(kernel.lists_given, lists, strict=True))
    on = kernel.at(dict(zip(kernel.sizes_named, sizes, strict=True)), dtype, given)
    return KernelFunction(kernel.name, on, kernel, doc=kernel.run.__doc__)
