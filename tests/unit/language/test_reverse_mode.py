"""Tapes, and texts that are run backwards: what they follow, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import ContractError, IrreversibleError
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.reverse_mode import gradient
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from kinetree.spatial import scalar, screw
from kinetree.spatial.dual import Dual
from kinetree.spatial.tape import Tape, Taped
from tests.tolerance import assert_close, refused

FORMULAS = {
    "arithmetic": lambda x, y: (2.0 + x * y - y / x) / (3.0 - y) - (-x) * (1.0 / y) + (1.0 - x),
    "functions": lambda x, y: scalar.sincos(x * y)[0] * scalar.sincos(y)[1] + scalar.sqrt(x) * scalar.log(x + y),
    "choice": lambda x, y: scalar.select(x, y, x * x, y * y * y) + scalar.select(y, x, x, 5.0),
    "small angle": lambda x, y: screw.Angle.of(np.array([1e-9 * x, 1e-9 * y, 0.0])).half * x,
    "large angle": lambda x, y: screw.Angle.of(np.array([x, y, x])).A * screw.Angle.of(np.array([y, x, y])).cosine,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("at", [(0.7, 1.3), (1.9, 0.4)])
def test_tapes(name: str, at: tuple[float, float]) -> None:
    """Gradients are those of dual numbers; a replay at other leaves is the formula there."""
    formula, tape = FORMULAS[name], Tape()
    leaves = [tape.leaf(np.float64(x)) for x in at]
    found = formula(*leaves)
    assert isinstance(found, Taped)
    values = tape.replayed({leaf.number: np.float64(x) for leaf, x in zip(leaves, at, strict=True)})
    assert values[found.number] == found.value
    other = tape.replayed({leaf.number: np.float64(x + 0.01) for leaf, x in zip(leaves, at, strict=True)})
    if name != "choice":  # which may take another branch, as it should
        assert other[found.number] == formula(*(np.float64(x + 0.01) for x in at))
    adjoints = tape.adjoints(values, {found.number: 2.0})
    for i, leaf in enumerate(leaves):
        exact = formula(*(Dual(np.float64(x), float(i == k)) for k, x in enumerate(at)))
        assert_close(adjoints.get(leaf.number, 0.0), 2.0 * exact.rate, 1e-14)


def test_tapes_are_not_mixed() -> None:
    one, other = Tape().leaf(1.0), Tape().leaf(2.0)
    refused("outside of a loop", lambda: one * other, error=IrreversibleError)


@algorithm(q=("q",), v=("v",), total=(), each=("v",), outputs=("total", "each"))
def _text(tree: Any, q: Any, v: Any, total: Any, each: Any) -> None:
    """What the library's texts do not: columns as keys, a field read by its own node later, an input read twice."""
    tree.world.s, tree.world.t = np.ones(1), np.zeros(1)
    for k, parent in tree.scatter():
        k.s = parent.s * 1.5 + (v[k] @ v[k]) * np.ones(1)
        k.t = np.zeros(1)
    for k, parent in tree.gather():
        for c in k.columns():
            each[c] = k.s[0] * v[c] * v[c]
        k.u = k.s * k.t
        parent.t += k.s * k.s + 2.0 * k.u + v[k].sum() * np.ones(1)
    total[...] = tree.world.t[0] * tree.gravity.linear[2]


def _exact(v: np.ndarray, parents: tuple[int, ...], g: float) -> tuple[complex, np.ndarray]:
    s: dict[int, Any] = {-1: 1.0}
    t: dict[int, Any] = dict.fromkeys(range(-1, len(parents)), 0.0)
    for k, p in enumerate(parents):
        s[k] = 1.5 * s[p] + v[k] * v[k]
    each = np.array([s[k] * v[k] * v[k] for k in range(len(parents))])
    for k in reversed(range(len(parents))):
        t[parents[k]] = t[parents[k]] + s[k] * s[k] + 2.0 * s[k] * t[k] + v[k]
    return t[-1] * g, each


@pytest.mark.parametrize("native", [True, False])
def test_a_text_run_backwards(native: bool) -> None:
    robot = kt.zoo.humanoid24()
    mechanism, rng = robot.mechanism, np.random.default_rng(0)
    v, w = 0.3 * rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    text: Algorithm = gradient(_text, "text_vjp", ["q", "v", "gravity"], ["by_q", "by_v", "by_gravity"])
    given = (robot.neutral(), v, np.array(0.7), w)
    by_q, by_v, by_g = (
        bind(text, mechanism, (), "text")(*given) if native else reference.run(text, mechanism, (), given)
    )
    g = robot.gravity[2]
    exact = np.empty(robot.nv)
    for i in range(robot.nv):
        total, each = _exact(v + 1e-30j * np.eye(robot.nv)[i], mechanism.parents, g)
        exact[i] = (0.7 * total + w @ each).imag / 1e-30
    assert_close(by_v, exact, 1e-13)
    np.testing.assert_array_equal(by_q, 0.0)
    assert_close(by_g, np.array([0.0, 0.0, 0.7 * _exact(v, mechanism.parents, 1.0)[0].real]), 1e-13)


def test_what_cannot_be_run_backwards() -> None:
    robot = kt.zoo.arm7()
    given = (robot.neutral(), np.eye(7))
    text = gradient(robot.mass_matrix.algorithm, "M_vjp", ["q"], ["by_q"])
    refused("inward", reference.run, text, robot.mechanism, (), given, error=IrreversibleError)

    def refuses(message: str, body: Any, error: type[Exception] = IrreversibleError) -> None:
        @algorithm(q=("q",), total=("v",), outputs=("total",))
        def text(tree: Any, q: Any, total: Any) -> None:
            tree.world.s = np.zeros(1)
            for k, _ in tree.scatter():
                k.s = q[k] * q[k]
            body(tree, q, total)

        backwards = gradient(text, "text_vjp", ["q"], ["by_q"])
        refused(message, reference.run, backwards, robot.mechanism, (), (robot.neutral(), np.ones(7)), error=error)

    def twice(tree: Any, q: Any, total: Any) -> None:
        for k, parent in tree.gather():
            total[k] = k.s
            parent.s += q[k]
            parent.s += q[k]

    def again(tree: Any, q: Any, total: Any) -> None:
        for k, _ in tree.scatter():
            k.s = q[k]
            total[k] = k.s

    def late(tree: Any, q: Any, total: Any) -> None:
        for k, _ in tree.scatter():
            total[k] = k.s * k.s
        for k, parent in tree.gather():
            parent.s += q[k]

    refuses("twice in one loop body", twice, ContractError)
    refuses("set in two loops", again)
    refuses("after a loop has read it", late)
