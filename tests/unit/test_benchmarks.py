"""The page that times every function leaves none out."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import kinetree as kt

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")

from benchmarks.functions.cases import MODELS, OTHERS, STATES, TASKS, Case
from benchmarks.functions.scene import Scene
from kinetree.runtime.lazy import lazy
from kinetree.runtime.quantity import Quantity

#: A function of `Tasks` that is another one, `at`, under the name of its caller; how `load` makes a `Model`.
_INTERNAL = {"state"}
#: Attributes of a model that are made when they are first read, and are no functions.
_VALUES = {"mechanism", "sites"}


def public_functions(owner: type) -> set[str]:
    """Names of what users call: methods, quantities, functions of tasks."""
    found = set()
    for name in dir(owner):
        member: Any = inspect.getattr_static(owner, name)
        called = inspect.isfunction(member) or isinstance(member, (Quantity, lazy, classmethod, staticmethod))
        if called and not name.startswith("_"):
            found.add(name)
    return found


def timed(*registries: Any) -> set[str]:
    """Names of functions with a row; a row's name may go on after a comma or a dot."""
    return {name.split(",")[0].split(".")[0] for registry in registries for name in registry}


def test_every_function_of_a_model_has_a_row() -> None:
    assert public_functions(kt.Model) - timed(STATES, MODELS) - _VALUES - _INTERNAL == set()


def test_every_function_of_tasks_has_a_row() -> None:
    assert public_functions(kt.tasks.Tasks) - timed(TASKS) - _INTERNAL == set()


def test_every_row_names_something_that_exists() -> None:
    assert timed(STATES, MODELS) <= set(dir(kt.Model))
    assert timed(TASKS) <= set(dir(kt.tasks.Tasks))


@pytest.mark.parametrize(("name", "case"), [*STATES.items(), *TASKS.items(), *OTHERS.items()])
def test_rows_can_be_called_single_and_in_batches(name: str, case: Case) -> None:
    scene = Scene("arm", _arm(), None)
    call, rest = case.call(scene), case.rest(scene)
    call(*scene.samples(case.arrays, 1)[0], *rest)
    if case.batch:
        arrays = scene.states(case.arrays, 3)
        result = call(*arrays, *rest)
        if case.out:
            call(*arrays, *rest, out=result)


@pytest.mark.parametrize(("name", "case"), MODELS.items())
def test_rows_of_models_can_be_called(name: str, case: Case) -> None:
    case.call(Scene("arm", _arm(), None))()


def _arm() -> kt.Model:
    return kt.zoo.chain(7)
