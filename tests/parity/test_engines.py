"""Every engine computes the same function: native, reference, the interpreter of lowered programs, in float32 too.

In float32, functions are as accurate as float32 allows, and have the same bits wherever a sample is computed. Every
dense kernel of the package keeps the rules, and has the same bits by whatever runs it.
"""

from __future__ import annotations

import importlib
import math
import pickle
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import kernels as dense_kernels
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS, poses
from kinetree.algorithms.methods import inertia, inverse_inertia
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler import interpreter, machine
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.programs import is_own, lowered
from kinetree.compiler.trace import trace
from kinetree.compiler.verify import verify
from kinetree.kernels.contact_discovery import CONTACT
from kinetree.kernels.language import Kernel
from kinetree.kernels.riccati import riccati
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import Sizes
from kinetree.language.setup import Variants
from kinetree.runtime import fastcall
from kinetree.runtime.kernels import bind
from tests.laws.cases import model
from tests.parity.functions import FUNCTIONS, Function, assert_same_bits, robot, states
from tests.parity.test_c99 import STRICT, checked
from tests.tolerance import Array, assert_close, bound, condition, refused
from tests.trees import mixed, random_mechanism

ROBOTS = ("one", "every kind", "every kind, armature", "forest", "10 km away", "legged", "humanoid24")
SOLVING = (
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_dynamics.jvp",
    "forward_dynamics.vjp",
    "mass_matrix_inverse",
    "mass_matrix_solve",
    "mass_matrix_determinant",
)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_native_agrees_with_reference(function: Function, name: str) -> None:
    robot = model(name)
    q, v, x = states(robot, (2,))
    kappa = condition(robot.mass_matrix(q)) if function.name in SOLVING else 1.0
    native = function(robot, q, v, x, engine="native")
    reference = function(robot, q, v, x, engine="reference")
    for one, other in zip(native, reference, strict=True):
        assert one.dtype == np.float64
        assert_close(one, other, bound(robot.nv, kappa))


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_native_is_the_default(function: Function) -> None:
    robot = model("every kind")
    arrays = states(robot, (3,))
    for one, other in zip(function(robot, *arrays), function(robot, *arrays, engine="native"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_reference_agrees_with_itself_in_longdouble(function: Function) -> None:
    """The same text in more digits: what float64 gives is right to float64's digits."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("longdouble is float64 here")
    robot = model("every kind")
    arrays = states(robot, ())
    kappa = condition(robot.mass_matrix(arrays[0])) if function.name in SOLVING else 1.0
    precise = function(robot, *(array.astype(np.longdouble) for array in arrays), engine="reference")
    for one, other in zip(function(robot, *arrays, engine="reference"), precise, strict=True):
        assert_close(np.asarray(one), np.asarray(other, dtype=np.float64), bound(robot.nv, kappa))


SINGLE = np.float32
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


EVERY_KIND = random_mechanism("every kind", mixed(10, 1), 1).kinetree()
BRANCHED = kt.zoo.random_tree(9, kinds=("revolute", "spherical"), seed=5)


def agree(algorithm: Algorithm, robot: kt.Model, sites: tuple[Any, ...] = ()) -> None:
    rng = np.random.default_rng(4)
    sizes = algorithm.sizes(robot.mechanism, sites)
    inputs = [
        robot.random_configuration(rng) if a.name == "q" else rng.uniform(-1.0, 1.0, a.shape(sizes))
        for a in algorithm.inputs
    ]
    given = [x for x, a in zip(inputs, algorithm.inputs, strict=True) if sites or "frames" not in a.dimensions]
    native = bind(algorithm, robot.mechanism, sites, algorithm.name)(*given)
    results = interpreter.run(algorithm, robot.mechanism, sites, inputs)
    assert_same_bits(results, native if isinstance(native, tuple) else (native,))


@pytest.mark.parametrize(
    "algorithm",
    [
        *(forward_dynamics, inverse_dynamics, mass_matrix, mass_matrix_inverse),
        *map(in_common_frame, (mass_matrix, mass_matrix_inverse)),
    ],
    ids=lambda a: a.name,
)
def test_every_kind_of_joint(algorithm: Algorithm) -> None:
    agree(algorithm, EVERY_KIND)


@pytest.mark.parametrize(
    "algorithm",
    [coriolis_matrix, inverse_dynamics_derivatives, in_common_frame(inverse_dynamics_derivatives)],
    ids=lambda a: a.name,
)
def test_loops_over_columns(algorithm: Algorithm) -> None:
    agree(algorithm, BRANCHED)


@pytest.mark.parametrize(
    "algorithm",
    [poses, JACOBIANS["world"], in_common_frame(JACOBIANS["world"]), forward_dynamics],
    ids=lambda a: a.name,
)
def test_functions_of_frames(algorithm: Algorithm) -> None:
    agree(algorithm, BRANCHED, tuple(BRANCHED.site(name) for name in ("body7", "world", "body3")))


def task_sites(parts: TaskKinds) -> tuple[Any, ...]:
    """Frames that are not asked for in the order in which their rows are numbered."""
    sites = [replace(BRANCHED.site(name), rows=(3, 4, 5)) for name in ("body7", "body3", "body5")]
    if parts.relative:
        sites += [replace(BRANCHED.site("body2"), part="near"), replace(BRANCHED.site("body8"), part="far")]
    return tuple(sites)


@pytest.mark.parametrize("method", ["chang_khatib", "rjk", "sparse_factorization", "efpa_segments"])
def test_rows_of_tasks(method: str) -> None:
    """Between them, these methods have all loops over rows."""
    agree(inverse_inertia(method, "local"), BRANCHED, task_sites(TaskKinds()))


def test_relative_tasks_and_groups() -> None:
    agree(inertia("pv_osim", "local", TaskKinds(relative=True)), BRANCHED, task_sites(TaskKinds(relative=True)))


def test_products_and_sums_are_rounded_once() -> None:
    rng = np.random.default_rng(0)
    for x, y in rng.uniform(-2.0, 2.0, (200, 2)):
        error = machine.fma(x, y, -(x * y))
        assert Fraction(x) * Fraction(y) == Fraction(x * y) + Fraction(error)
    assert machine.fma(1e200, 1e200, 0.0) == math.inf
    assert machine.fma(1e200, -1e200, 1.0) == -math.inf
    assert math.isnan(machine.fma(math.inf, 0.0, 1.0))
    assert math.copysign(1.0, machine.fma(-0.0, 1.0, -0.0)) == -1.0
    assert math.copysign(1.0, machine.fma(0.5, 2.0, -1.0)) == 1.0
    assert machine.fma(2.0**-600, 2.0**-474, 0.0) == 2.0**-1074


NO_TREE = Variants((), ())


def _kernels() -> dict[str, Kernel]:
    found = {}
    for module in pkgutil.walk_packages(dense_kernels.__path__, f"{dense_kernels.__name__}."):
        for name, member in vars(importlib.import_module(module.name)).items():
            members = member.items() if isinstance(member, dict) else [(name, member)]
            found.update({one.name: one for _, one in members if isinstance(one, Kernel)})
    return found


KERNELS = _kernels()


def sizes_of(kernel: Kernel) -> dict[str, Any]:
    """Odd sizes, so that blocks leave something over; rows of contacts, which come in threes, belong to two bodies."""
    sizes: dict[str, Any] = {name: 2 if name == "T" else 7 + i for i, name in enumerate(kernel.sizes_named)}
    if "contact" in kernel.name:
        sizes |= {name: 9 for name in sizes if name == "r"}
    if kernel.lists_given == ("threes", "sixes"):
        sizes |= {"nv": 11, "nb": 9, "threes": [(7, 0)], "sixes": [(1, 3)]}
    elif kernel.lists_given == ("moving", "rest"):
        sizes |= {"moving": [(1,)], "rest": [(5,), (6,)]}
    elif kernel.name == "contact_response":  # two contacts of two bodies, and three joints
        sizes |= {"t": 9, "r": 6, "n": 12, "c": 15, "g": 2, "v": 4, "once": 1}
        sizes |= {"contacts": [(0, 0, 6, 6, 1), (3, 3, 0, 0, 0)], "joints": [(6, 12, 3), (7, 13, 1), (8, 14, 0)]}
        sizes |= {"contacts_backwards": [(3,), (0,)], "joints_backwards": [(8,), (7,), (6,)]}
    elif kernel.name == "discovered_response":
        sizes |= {"t": 9, "s": 2, "m": 2, "n": 12, "c": 15, "v": 4, "once": 1, "bodies": [(0, 0, 0), (1, 6, 6)]}
        sizes |= {"contacts": [(0, 0), (3, 1)], "joints": [(6, 12, 3), (7, 13, 1), (8, 14, 0)]}
        sizes |= {"contacts_backwards": [(3,), (0,)], "joints_backwards": [(8,), (7,), (6,)]}
    elif kernel.name == "discovered_wrenches":
        sizes |= {"s": 2, "r": 6, "m": 2, "contacts": [(0, 0), (3, 1)]}
    elif kernel.name == "velocity_changes":
        bodies = [(i, i) for i in range(6)]
        sizes |= {"c": 9, "b": 6, "n": 11, "bodies": bodies, "moving": [(1,)], "rest": [(6,), (7,)]}
    elif kernel.lists_given == ("free",):
        sizes |= {"n": 14, "free": [(1,), (8,)]}
    elif kernel.name == "with_lift":
        sizes |= {"m": 14, "n": 7, "columns": [(i, i) for i in range(7)]}
    elif kernel.lists_given == ("probes",):
        candidate = kernel.name == "field_rates"
        sizes |= {"once": 1, "probes": [(i % 3, i, i)[: 2 + candidate] for i in range(sizes["f"])]}
    elif "joints" in kernel.lists_given:  # behind two contacts
        alone = kernel.name == "contact_newton"
        joint, contacts = ([(6,), (8,), (7,)], [(0,), (3,)]) if alone else ([(8, 0), (6, 6), (7, 1)], [(3, 0), (0, 6)])
        known = {name: value for name, value in (("t", 9), ("once", 1)) if name in sizes}
        sizes |= {"r": 9, "joints": joint, "contacts": contacts, **known}
    elif kernel.lists_given:
        sizes |= {"n": 12, "contacts": [(0, 6), (3, 0), (6, 6)]}
    return sizes


def samples(kernel: Kernel, count: int) -> list[Array]:
    """Inputs around one, square ones symmetric and positive definite; steps do not amplify."""
    rng, sizes = np.random.default_rng(0), Sizes.of(kt.compiled(kernel, **sizes_of(kernel)).mechanism)
    found = []
    for argument in kernel.inputs:
        shape = argument.lengths(sizes)
        given = rng.uniform(0.2, 1.0, (count, *shape))
        if len(shape) > 1 and shape[-1] == shape[-2]:
            given = given + np.swapaxes(given, -1, -2) + 2.0 * shape[-1] * np.eye(shape[-1])
        if argument.name == "number":  # of bodies, or of candidates
            given = np.broadcast_to(np.arange(float(shape[0])), given.shape)
        elif argument.name in ("contact", "contacts") and shape[-1] == CONTACT:
            given = given.copy()
            given[..., 8:10], given[..., 10], given[..., 11] = (0.0, 1.0), 1.0, np.arange(shape[0])
        found.append(given / (2.0 * shape[-1]) if argument.name in ("a_q", "a_v", "turn", "drift") else given)
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
    with machine_code.use(replace(machine_code.host(), optimizes=not machine_code.host().optimizes)):
        other_tier = bind(kernel, f.mechanism, (), name, False, tuple)
        assert_same_bits(each(other_tier(*given)), batch)
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
    refused(r"riccati.export_c: A is one sample, .*; got \(2, ", f.export_c, tmp_path, *samples(riccati, 2))
