"""Each quantity has one text: rigid robots and robots with other nodes run the same, in one view or the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinetree as kt
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.model.dynamics import DERIVATIVES, FUNCTIONS
from kinetree.model.stepping import DiscretizeFunction, StepFunction
from kinetree.runtime.function import FrameFunction
from tests.mechanisms import gripper

SOURCES = Path(kt.__file__).parent
#: Has rigid bodies only, and long chains, which prefer the common frame; has coupled joints.
RIGID, GENERAL = kt.zoo.chain(30), gripper()
TASKS = (
    "inverse_inertia",
    "inertia",
    "dynamics",
    "jacobian",
    "response",
    "jacobian_dot_v",
    "acceleration",
    "control_law",
    "residual",
    "grasp_sharing",
)
#: Those that are made by a method, with its arguments.
MADE: dict[str, tuple[Any, ...]] = {
    "control_step": ("sine", True),
    "differential_step": ("rotation_vector",),
    "residual_by": ("log6",),
    "support_sharing": (True,),
}


def texts(function: Any) -> Iterator[Algorithm]:
    """The recursions of a function."""
    if isinstance(function, FrameFunction):
        yield from function._algorithms.values()
        yield from function._classical.values()
    elif isinstance(function, (StepFunction, DiscretizeFunction)):
        yield from function.whole.values()
        for parts in function.parts.values():
            yield from parts
    else:
        yield function.algorithm


def same(one: Algorithm, other: Algorithm) -> bool:
    return in_common_frame(other) is one or other is one


@pytest.mark.parametrize("name", [*FUNCTIONS, *DERIVATIVES])
def test_functions(name: str) -> None:
    for one, other in zip(texts(RIGID._function(name)), texts(GENERAL._function(name)), strict=True):
        assert same(one, other), (one.name, other.name)


@pytest.mark.parametrize("name", [*TASKS, *MADE])
def test_functions_of_tasks(name: str) -> None:
    of = [robot.tasks([robot.bodies[-1].name], method="pv_osim") for robot in (RIGID, GENERAL)]
    found = [getattr(tasks.core.recursions, name) for tasks in of]
    rigid, general = ((one(*MADE[name]) if name in MADE else one).algorithm for one in found)
    assert same(rigid, general), (rigid.name, general.name)


def test_no_module_is_the_twin_of_another() -> None:
    """A second text for other nodes, or for another frame, would be named after what it is for."""
    names = [path.relative_to(SOURCES).as_posix() for path in (SOURCES / "algorithms").rglob("*.py")]
    assert names
    assert not [name for name in names if "by_weights" in name or "tree_frame" in name or "any_node" in name]
