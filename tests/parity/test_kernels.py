"""Every dense kernel of the package keeps the rules, and has the same bits by whatever runs it."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import kernels
from kinetree.compiler import interpreter
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.programs import is_own, lowered
from kinetree.compiler.trace import trace
from kinetree.compiler.verify import verify
from kinetree.kernels.language import Kernel
from kinetree.kernels.riccati import riccati
from kinetree.language.mechanism import Sizes
from kinetree.language.setup import Variants
from tests.parity.functions import assert_same_bits
from tests.parity.test_c99 import STRICT, checked
from tests.tolerance import assert_close, bound

Array = np.ndarray[Any, np.dtype[Any]]
NO_TREE = Variants((), ())


def _kernels() -> dict[str, Kernel]:
    found = {}
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        for name, member in vars(importlib.import_module(module.name)).items():
            members = member.items() if isinstance(member, dict) else [(name, member)]
            found.update({one.name: one for _, one in members if isinstance(one, Kernel)})
    return found


KERNELS = _kernels()


def sizes_of(kernel: Kernel) -> dict[str, Any]:
    """Odd sizes, so that blocks leave something over; rows of contacts, which come in threes, belong to two bodies."""
    sizes: dict[str, Any] = {name: 2 if name == "T" else 7 + i for i, name in enumerate(kernel.sizes_named)}
    if re.search("contact|admm", kernel.name):
        sizes |= {name: 9 for name in sizes if name == "r"}
    if kernel.lists_given:
        sizes |= {"n": 12, "contacts": [(0, 6), (3, 0), (6, 6)]}
    return sizes


def samples(kernel: Kernel, count: int) -> list[Array]:
    """Inputs around one, square ones symmetric and positive definite."""
    rng, sizes = np.random.default_rng(0), Sizes.of(kt.compiled(kernel, **sizes_of(kernel)).mechanism)
    found = []
    for argument in kernel.inputs:
        shape = argument.lengths(sizes)
        given = rng.uniform(0.2, 1.0, (count, *shape))
        if len(shape) > 1 and shape[-1] == shape[-2]:
            given = given + np.swapaxes(given, -1, -2) + 2.0 * shape[-1] * np.eye(shape[-1])
        found.append(given)
    return found


def each(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_there_are_kernels() -> None:
    assert {"riccati", "solve_symmetric", "eliminate", "projections"} <= set(KERNELS)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_every_kernel_keeps_the_rules_and_every_stage_the_form(name: str) -> None:
    """The pipeline traces the package's own kernels without the checks that are made here."""
    kernel = KERNELS[name]
    assert is_own(kernel, NO_TREE)
    verify(trace(kernel, NO_TREE, checked=True))
    made = lowered(kernel, NO_TREE)
    verify(made.program)
    restored = pickle.loads(pickle.dumps(made))
    assert emit(restored, 2, 2) == emit(made, 2, 2)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_bits_alone_in_lanes_on_threads_and_interpreted(name: str) -> None:
    kernel = KERNELS[name]
    f, given, before = kt.compiled(kernel, **sizes_of(kernel)), samples(kernel, 11), kt.get_threads()
    batch = each(f(*given))
    for i in (0, 10):
        assert_same_bits(each(f(*(one[i] for one in given))), tuple(one[i] for one in batch))
    assert_same_bits(
        interpreter.run(kernel, f.mechanism, (), [one[0] for one in given]), tuple(one[0] for one in batch)
    )
    times = 60
    try:
        kt.set_threads(3)
        many = each(f(*(np.concatenate([one] * times) for one in given)))
    finally:
        kt.set_threads(before)
    assert_same_bits(many, tuple(np.concatenate([one] * times) for one in batch))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_reference_engine_agrees(name: str) -> None:
    """Up to rounding: it does not fuse. Inputs are well conditioned."""
    kernel = KERNELS[name]
    f, given = kt.compiled(kernel, **sizes_of(kernel)), [one[0] for one in samples(kernel, 1)]
    for one, other in zip(each(f.engine("reference")(*given)), each(f(*given)), strict=True):
        finite = np.isfinite(other)
        np.testing.assert_array_equal(np.isfinite(one), finite)
        assert_close(one[finite], other[finite], bound(50, 1e3))


@pytest.mark.parametrize("scalar", ["float64", "float32"])
def test_exported_c_has_the_same_bits(tmp_path: Path, scalar: str) -> None:
    f = kt.compiled(riccati, scalar, **sizes_of(riccati))
    header, source = f.export_c(tmp_path, *(one[0] for one in samples(riccati, 1)))
    assert "void riccati_run(const " in header.read_text()
    lines = checked(source, "gcc", "-O2", "-std=c99", *STRICT)
    assert len(lines) == 3
    assert all(re.search(r" 0 of \d+ numbers differ$", line) for line in lines)


def test_exported_c_takes_one_sample(tmp_path: Path) -> None:
    f = kt.compiled(riccati, **sizes_of(riccati))
    with pytest.raises(kt.errors.InputError, match=r"riccati.export_c: A is one sample, .*; got \(2, "):
        f.export_c(tmp_path, *samples(riccati, 2))
