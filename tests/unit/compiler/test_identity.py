"""The identity of algorithms in names of compiled code: edited code is never mistaken for what it was."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.energy import energy
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.kinematics.manifold import integrate
from kinetree.compiler.programs import identity, is_own, is_own_kind, variants_of
from kinetree.kernels.constraint_rows import formula_value
from kinetree.kernels.language import kernel
from kinetree.language.algorithm import Algorithm, algorithm, with_constants
from kinetree.language.forward_mode import coordinate_derivative, directional_derivative
from kinetree.model.joints.one_axis import Revolute
from kinetree.model.loops.coupling import FunctionFollower
from kinetree.model.nodes.rigid import JointedBody
from kinetree.operators.sweeps import algorithm_of
from tests.general_nodes import Cart

ROBOT = kt.zoo.arm7()
OPERATOR = ROBOT.operators(ROBOT.neutral()).mass_inverse._expression


@algorithm(q=("q",), y=("v",), outputs=("y",))
def mine(tree: Any, q: Any, y: Any) -> None:
    for k, _ in tree.scatter():
        y[k] = 2.0 * q[k]


def derivative(of: Algorithm, name: str = "d", outputs: tuple[str, ...] = ("dy",)) -> Algorithm:
    return directional_derivative(of, name, "dq", {}, outputs)


def with_default(run: Any) -> Any:
    """A function of the package, as far as its globals tell, with a user's in a default."""
    code, package = (lambda *_, run=None: run).__code__, vars(sys.modules["kinetree.language.algorithm"])
    made = FunctionType(code, package)
    made.__kwdefaults__ = {"run": run}
    return made


@kernel(x=("n",), y=("n",), outputs=("y",))
def doubled(w: Any, x: Any, y: Any) -> None:
    for i in w.n:
        y[i] = 2.0 * x[i]


WRAPPED = {
    "directional": derivative(mine),
    "second": derivative(derivative(mine), "dd", ("ddy",)),
    "coordinates": coordinate_derivative(mine, "c", {"dq": "q"}, ("dy",)),
    "constants": with_constants(mine),
    "constants of a derivative": with_constants(derivative(mine)),
    "renamed": replace(inverse_dynamics, run=functools.wraps(inverse_dynamics.run)(lambda *a: mine.run(*a))),
    "partial": replace(mine, run=functools.partial(mine.run)),
    "default": replace(inverse_dynamics, run=with_default(mine.run)),
    "kernel": doubled,
    "method": replace(inverse_dynamics, run=mine.__call__),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_what_wraps_a_users_algorithm_is_not_the_packages_own(name: str) -> None:
    one = WRAPPED[name]
    assert identity(one) is None
    assert not is_own(one, variants_of(one, ROBOT.mechanism, ()))


@pytest.mark.parametrize("one", [inverse_dynamics, with_constants(energy), algorithm_of(OPERATOR)])
def test_the_packages_own_are(one: Algorithm) -> None:
    assert is_own(one, variants_of(one, ROBOT.mechanism, ()))


def test_wrappers_of_the_same_name_are_told_apart() -> None:
    given = {"dv": "v", "da": "a"}
    outputs = ("x",)
    plain = directional_derivative(inverse_dynamics, "d", "dq", given, outputs)
    renamed = replace(forward_dynamics, inputs=inverse_dynamics.inputs, outputs=inverse_dynamics.outputs)
    others = [
        directional_derivative(inverse_dynamics, "e", "dq", given, outputs),
        directional_derivative(inverse_dynamics, "d", "dq", given, outputs, level=1),
        directional_derivative(inverse_dynamics, "d", "dq", {"dv": "a", "da": "v"}, outputs),
        directional_derivative(renamed, "d", "dq", given, outputs),
        with_constants(plain),
        replace(plain, name="d with constants"),
        coordinate_derivative(integrate, "d", {"dq": "q"}, ("x",)),
        coordinate_derivative(integrate, "d", {"dq": "v"}, ("x",)),
    ]
    found = [identity(one) for one in (plain, *others)]
    assert None not in found
    assert len(set(found)) == len(found)
    assert identity(directional_derivative(inverse_dynamics, "d", "dq", given, outputs)) == found[0]


def test_kinds_with_parts_of_a_user_are_not_own() -> None:
    class Mine(Revolute):
        """A joint from outside of the package."""

    assert is_own_kind(JointedBody(Revolute()))
    assert not is_own_kind(JointedBody(Mine()))


def test_users_formulas_are_identified_by_what_they_compute() -> None:
    cart = Cart(1.0, 1.0, (0.0, 0.0, 0.0), np.eye(3))
    moved = Cart(1.0, 1.0, (0.0, 0.0, 0.0), np.eye(3))
    moved.outlets = {}
    assert is_own_kind(cart.kind)
    assert cart.kind != moved.kind  # derivatives express changes of outlets in their own frames
    one, same, other = (
        identity(formula_value(FunctionFollower(f, 1, "f"), 1))
        for f in (lambda x: 2.0 * x, lambda y: 2.0 * y, lambda x: 3.0 * x)
    )
    assert one == same
    assert len({one, other, None}) == 3
    rows = [formula_value(FunctionFollower(f, 1, "f"), 1) for f in (lambda x: 2.0 * x, lambda x: 3.0 * x)]
    assert len({identity(replace(row, name="same")) for row in rows}) == 2


SCRIPT = """
import numpy as np
import kinetree as kt
from kinetree.runtime.kernels import bind
from kinetree.language.algorithm import algorithm, with_constants
from kinetree.language.forward_mode import directional_derivative

@algorithm(q=("q",), v=("v",), y=("v",), outputs=("y",))
def mine(tree, q, v, y):
    for k, _ in tree.scatter():
        y[k] = FACTOR * v[k]

arm = kt.zoo.arm7().mechanism
rate = directional_derivative(mine, "mine_rate", "dq", {"dv": "v"}, ("dy",))
x = np.ones(7)
print(bind(rate, arm, (), "rate")(x, x, x, x)[0])
print(bind(with_constants(mine), arm, (), "mine")(x, x, np.zeros(len(arm.total_parameters) + 3))[0])
"""


def test_edited_algorithms_run_as_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    for factor in ("2.0", "3.0"):
        (tmp_path / "script.py").write_text(SCRIPT.replace("FACTOR", factor))
        done = subprocess.run(
            [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, check=True, timeout=120
        )
        assert done.stdout.split() == [factor, factor]
