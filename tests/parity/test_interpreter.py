"""The interpreter of lowered programs has the bits of machine code."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS, poses
from kinetree.algorithms.methods import inertia, inverse_inertia
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler import interpreter, machine
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.runtime.kernels import bind
from tests.parity.functions import assert_same_bits
from tests.trees import mixed, random_mechanism

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
