"""Functions in float32: as accurate as float32 allows, and with the same bits wherever a sample is computed."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code
from kinetree.runtime import fastcall, threads
from tests.laws.cases import model
from tests.parity.functions import FEW, FUNCTIONS, Function, assert_same_bits, robot, states
from tests.parity.test_bits import LAYOUTS, one_by_one
from tests.parity.test_engines import SOLVING
from tests.tolerance import assert_close, bound, condition

SINGLE = np.float32
#: Every remainder of every lane width.
SIZES = (*range(1, 34), 47, 49)


#: Functions that are also tried on a badly conditioned robot.
OFTEN_USED = ("inverse_dynamics", "inverse_dynamics_derivatives", "mass_matrix", *SOLVING)


@pytest.mark.parametrize(
    ("function", "name"),
    [(f, "every kind") for f in FUNCTIONS] + [(f, "humanoid24") for f in FUNCTIONS if f.name in OFTEN_USED],
    ids=str,
)
def test_as_accurate_as_its_digits_allow(function: Function, name: str) -> None:
    double = model(name)
    single = double.astype("float32")
    q, v, x = states(single, (40,))
    kappa = condition(double.mass_matrix(q)) if function.name in SOLVING else 1.0
    for one, other in zip(function(single, q, v, x), function(double, q, v, x), strict=True):
        assert one.dtype == SINGLE
        assert_close(one, other, bound(double.nv, kappa, SINGLE))


@pytest.mark.parametrize("method", ["semi_implicit_euler", "midpoint", "rk4"])
@pytest.mark.parametrize("name", ["every kind", "humanoid24"])
def test_steps_and_their_derivatives(name: str, method: str) -> None:
    double = model(name)
    single = double.astype("float32")
    q, v, tau = states(single, (20,))
    kappa = condition(double.mass_matrix(q))
    for function in ("step", "discretize"):
        found = getattr(single, function)(q, v, tau, 1e-3, method)
        exact = getattr(double, function)(q, v, tau, 1e-3, method)
        alone = [getattr(single, function)(*sample, 1e-3, method) for sample in zip(q, v, tau)]
        assert_same_bits(tuple(np.stack(parts) for parts in zip(*alone)), tuple(found))
        for one, other in zip(found, exact, strict=True):
            assert one.dtype == SINGLE
            assert_close(one, other, bound(double.nv, kappa, SINGLE))


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_bits_of_a_sample(function: Function) -> None:
    """Alone, in batches of every size, in every memory layout, with `out=`, and next to samples that are not finite."""
    single = robot("float32")
    q, v, x = states(single, (max(SIZES),))
    alone = one_by_one(function, single, q, v, x)
    for size in SIZES:
        assert_same_bits(function(single, q[:size], v[:size], x[:size]), tuple(part[:size] for part in alone))
    for change in LAYOUTS.values():
        assert_same_bits(function(single, *map(change, (q, v, x))), alone)
        assert_same_bits(function(single, *(change(a[:2])[0] for a in (q, v, x))), tuple(part[0] for part in alone))
    homes = tuple(np.full((*part.shape, 2), np.nan, SINGLE)[..., 0] for part in alone)
    function(single, q, v, x, out=homes if len(homes) > 1 else homes[0])
    assert_same_bits(homes, alone)
    with np.errstate(all="raise"):
        spoilt = {name: np.where(np.arange(len(q))[:, None] == 7, np.nan, a) for name, a in zip("qvx", (q, v, x))}
        others = np.arange(len(q)) != 7
        found = function(single, **spoilt)
    assert_same_bits(tuple(part[others] for part in found), tuple(part[others] for part in alone))


@pytest.mark.parametrize("function", FEW, ids=str)
def test_numbers_of_lanes_and_threads(function: Function) -> None:
    single = robot("float32")
    arrays = states(single, (10_007,))
    expected = function(single, *arrays)
    try:
        for count in (1, 2, 3):
            threads.set_threads(count)
            assert_same_bits(function(single, *arrays), expected)
    finally:
        threads.set_threads(None)
    for width in machine_code.WIDTHS:
        if width <= machine_code.host().width:
            with machine_code.use(machine_code.host().with_width(width)):
                other = pickle.loads(pickle.dumps(single))
                assert_same_bits(function(other, *(a[:37] for a in arrays)), tuple(part[:37] for part in expected))


def test_other_processors() -> None:
    single = robot("float32")
    arrays = states(single, (19,))
    expected = single.forward_dynamics(*arrays)
    for cpu in ("x86-64", "haswell", "skylake-avx512"):
        if machine_code.host().is_x86 and machine_code.named(cpu).width <= machine_code.host().width:
            with machine_code.use(machine_code.named(cpu)):
                other = pickle.loads(pickle.dumps(single))
                assert_same_bits((other.forward_dynamics(*arrays),), (expected,))


def test_twice_as_many_lanes() -> None:
    """A batch of float32 fills the same vector registers."""
    double, single = robot(), robot("float32")
    widths = [each.forward_dynamics.bound()._width for each in (double, single)]
    assert widths[1] == 2 * widths[0]


def test_single_samples_take_the_gate() -> None:
    single = robot("float32")
    q, v, x = states(single, ())
    single.forward_dynamics(q, v, x)
    assert single.forward_dynamics.is_open == fastcall.NATIVE
    assert_same_bits((single.integrate(q, v, 0.1),), (single.integrate(q, v, np.array(0.1)),))


def test_another_process_finds_the_same_bits_in_the_cache() -> None:
    """Code of both types is kept on disk under keys of its own."""
    program = (
        "import kinetree as kt, numpy as np\n"
        "double = kt.zoo.humanoid24()\n"
        "for robot in (double, double.astype('float32')):\n"
        "    ones = np.ones(robot.nv, robot.dtype)\n"
        "    print(robot.forward_dynamics(robot.random_configuration(0), ones, ones).tobytes().hex())\n"
    )
    found = [subprocess.check_output([sys.executable, "-c", program], text=True).split() for _ in range(2)]
    assert found[0] == found[1]
    here = []
    for each in (kt.zoo.humanoid24(), kt.zoo.humanoid24().astype("float32")):
        ones = np.ones(each.nv, each.dtype)
        here.append(each.forward_dynamics(each.random_configuration(0), ones, ones).tobytes().hex())
    assert found[0] == here
