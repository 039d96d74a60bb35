"""Derivatives of robots with nodes that are no rigid bodies: laws, bits in batches, and how many operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime.fastcall_results import SMALLEST_BATCH
from tests.laws.test_tasks_with_loops import robot
from tests.mechanisms import gripper
from tests.tolerance import assert_close, bound, condition
from tests.unit.model.test_closed_loops import suspended
from tests.unit.model.test_general_nodes import with_a_bead

STEP = 1e-30


def cam() -> kt.Model:
    """A follower on a moving base, by a function that is differentiated inside the node's formulas."""
    builder = kt.Builder("cam").add_body("base", axis=(1.0, 0.0, 0.0), mass=1.0, inertia=0.1 * np.eye(3))
    solid = {"mass": 1.0, "com": (0.2, 0.02, 0.03), "inertia": np.diag([0.01, 0.02, 0.03])}
    builder.add_body("cam", parent="base", axis=(0.0, 1.0, 0.0), **solid)
    builder.add_body("rod", parent="cam", axis=(0.0, 0.0, 1.0), placement=(np.eye(3), (0.4, 0.0, 0.0)), **solid)
    return builder.couple("rod", to="cam", function=lambda y: 0.3 * np.sin(y) + 0.1 * y * y).build()


ROBOTS = {
    "gripper": gripper,
    "whip": lambda: robot("whip"),
    "bead": with_a_bead,
    "suspended": suspended,
    "cam": cam,
}


def state(of: kt.Model) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(4)
    return of.random_configuration(4), *rng.uniform(-1, 1, (3, of.nv))


@pytest.mark.parametrize("name", ROBOTS)
def test_the_rate_of_the_mass_matrix_less_twice_the_coriolis_matrix_is_skew(name: str) -> None:
    of = ROBOTS[name]()
    q, v, _, _ = state(of)
    C, M = of.coriolis_matrix(q, v), of.mass_matrix.engine("reference")
    quadratic, springs = of.with_gravity((0, 0, 0)).bias_forces, of.with_gravity((0, 0, 0)).gravity_forces
    # dampers are the part that is odd in v
    even = 0.5 * (quadratic(q, v) + quadratic(q, -v)) - springs(q)
    scale = float(np.abs(M(q)).max() + np.abs(C).max())
    assert_close(C @ v, even, 4.0 * bound(of.nv), scale)
    rate = np.imag(M(of.integrate.engine("reference")(q, 1j * STEP * v, 1.0))) / STEP
    assert_close(rate, C + C.T, 4.0 * bound(of.nv, condition(M(q))), scale)


@pytest.mark.parametrize("name", ROBOTS)
def test_functions_are_kernels_with_the_same_bits_in_batches(name: str) -> None:
    of = ROBOTS[name]()
    q, v, x, w = (np.stack([array] * SMALLEST_BATCH) for array in state(of))
    v += 0.5 * np.arange(SMALLEST_BATCH)[:, None]
    for function, given in (
        (of.coriolis_matrix, (q, v)),
        (of.inverse_dynamics_derivatives, (q, v, x)),
        (of.forward_dynamics_derivatives, (q, v, x)),
        (of.inverse_dynamics.vjp, (q, v, x, w)),
        (of.forward_dynamics.vjp, (q, v, x, w)),
    ):
        found = function(*given)
        alone = [function(*(array[i] for array in given)) for i in range(SMALLEST_BATCH)]
        parts = (found,) if isinstance(found, np.ndarray) else found
        for part, *each in zip(parts, *((one,) if isinstance(one, np.ndarray) else one for one in alone), strict=True):
            assert np.array_equal(part, np.stack(each))
        expected = function.engine("reference")(*(array[0] for array in given))
        expected = (expected,) if isinstance(expected, np.ndarray) else expected
        for part, want in zip(parts, expected, strict=True):
            assert_close(part[0], want, bound(of.nv, condition(of.mass_matrix(q))))


@pytest.mark.parametrize("name", ["whip", "gripper"])
def test_the_regressor_of_what_nodes_carry(name: str) -> None:
    """A change of a body's inertial parameters changes joint forces by Y times it."""
    of = ROBOTS[name]()
    q, v, a, _ = state(of)
    body = of.bodies[-1].name
    heavier = of.with_payload(body, 0.7, com=(0.1, 0.2, -0.1), inertia=np.diag([0.02, 0.03, 0.04]))
    before, after = (one.inverse_dynamics(q, v, a) for one in (of, heavier))
    com, J = np.array([0.1, 0.2, -0.1]), np.diag([0.02, 0.03, 0.04])
    about = J + 0.7 * (com @ com * np.eye(3) - np.outer(com, com))
    theta = np.concatenate([[0.7], 0.7 * com, about[np.triu_indices(3)]])
    assert_close(of.regressor(q, v, a, body) @ theta, after - before, bound(of.nv), float(np.abs(after).max()))


def test_one_recursion_for_all_columns() -> None:
    """Not one for each column: that would be 3 nv times the cost of a directional derivative."""
    of = ROBOTS["suspended"]()
    assert of.count("inverse_dynamics_derivatives").total < 0.2 * 3 * of.nv * of.count("inverse_dynamics.jvp").total
    assert of.count("inverse_dynamics.vjp").total < 2.5 * of.count("inverse_dynamics.jvp").total


@pytest.mark.parametrize("name", ["cam", "bead"])
def test_derivatives_of_differentiated_formulas(name: str) -> None:
    """First and second derivatives by complex steps, where the node's formulas contain derivatives themselves."""
    of = ROBOTS[name]()
    q, v, a, w = state(of)
    tau, gradients = of.inverse_dynamics.engine("reference"), of.inverse_dynamics.vjp.engine("reference")
    turns = 1j * STEP * np.eye(of.nv)
    by_q, by_v = (np.imag(values).T / STEP for values in (tau(q + turns, v, a), tau(q, v + turns, a)))
    linearized = of.inverse_dynamics_derivatives(q, v, a)
    assert_close(linearized.dq, by_q, bound(of.nv))
    assert_close(linearized.dv, by_v, bound(of.nv))
    dq, dv, da = np.random.default_rng(5).normal(size=(3, of.nv))
    step = 1j * STEP
    expected = gradients(q + step * dq, v + step * dv, a + step * da, w)
    for found, want in zip(of.inverse_dynamics.hvp(q, v, a, w, dq, dv, da), expected, strict=True):
        assert_close(found, np.imag(want) / STEP, 4.0 * bound(of.nv))
