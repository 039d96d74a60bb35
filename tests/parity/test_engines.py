"""Every engine computes the same function."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.cases import model
from tests.parity.functions import FUNCTIONS, Function, states
from tests.tolerance import assert_close, bound, condition

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
