"""Functions travel to other processes and copy as what they are: attributes of a frozen model."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from operator import attrgetter

import numpy as np
import pytest

import kinetree as kt
from kinetree.runtime.function import Function
from tests.parity.functions import FUNCTIONS, assert_same_bits, robot, states
from tests.parity.functions import Function as Case


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_functions_pickle_by_model_and_name(function: Case) -> None:
    model = robot()
    original = attrgetter(function.name)(model)
    for engine in ("native", "reference"):
        found = pickle.loads(pickle.dumps(original.engine(engine)))
        assert repr(found) == repr(original.engine(engine))
        assert found is not original
    found = pickle.loads(pickle.dumps(original))
    arrays = states(model, ())
    result = found(*function.arrays(*arrays), *function.rest(model), **dict(function.options))
    assert_same_bits(result if isinstance(result, tuple) else (result,), function(model, *arrays))


@pytest.mark.parametrize("path", ["gravity_forces", "jacobian", "forward_dynamics.jvp"])
def test_pickles_are_hardly_larger_than_the_models(path: str) -> None:
    model = robot()
    function = attrgetter(path)(model)
    function.compile()
    assert len(pickle.dumps(function)) < len(pickle.dumps(model)) + 300


def test_functions_of_one_model_still_share_it() -> None:
    model = kt.zoo.double_pendulum()
    mass, forces, again = pickle.loads(pickle.dumps((model.mass_matrix, model.forward_dynamics.jvp, model)))
    assert again.mass_matrix is mass
    assert again.forward_dynamics.jvp is forces


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_maps_them(method: str) -> None:
    model = kt.zoo.humanoid24()
    q = model.random_configuration(0, 6)
    with multiprocessing.get_context(method).Pool(2) as pool:
        mapped = pool.map(model.gravity_forces, list(q))
    np.testing.assert_array_equal(mapped, model.gravity_forces(q))


def test_copies_are_the_functions_themselves() -> None:
    model = kt.zoo.double_pendulum()
    for function in (model.mass_matrix, model.jacobian, model.inverse_dynamics.vjp, model.pose.engine("reference")):
        assert copy.copy(function) is function
        assert copy.deepcopy(function) is function


def test_a_function_without_a_model_says_so() -> None:
    model = kt.zoo.double_pendulum()
    alone = Function("mass_matrix", model.mechanism, model.mass_matrix.algorithm)
    with pytest.raises(TypeError, match="mass_matrix belongs to no model and cannot be pickled"):
        pickle.dumps(alone)
