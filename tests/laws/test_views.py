"""One text in two views, own coordinates and the common frame: the same values, and a choice by the tree alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp, inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import forward_dynamics_vjp, inverse_dynamics_vjp
from kinetree.algorithms.dynamics.centroid import center_of_mass
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.dynamics.regressor import regressor
from kinetree.algorithms.kinematics.frame_kinematics import (
    ACCELERATIONS,
    CLASSICAL_ACCELERATIONS,
    JACOBIAN_RATES,
    JACOBIANS,
    JACOBIANS_DOT_V,
    VELOCITIES,
    VELOCITY_DERIVATIVES,
)
from kinetree.compiler.count import count
from kinetree.errors import ContractError, UnsupportedError
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.forward_mode import directional_derivative
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import run
from tests.mechanisms import gripper
from tests.tolerance import assert_close, bound, condition
from tests.trees import mixed, random_mechanism

FRAMES = (
    *(VELOCITIES, ACCELERATIONS, CLASSICAL_ACCELERATIONS, JACOBIANS_DOT_V),
    *(JACOBIANS, JACOBIAN_RATES, VELOCITY_DERIVATIVES),
)
#: Every text that runs in both views, by name; those of frames for each reference.
TEXTS: dict[str, Algorithm] = {
    text.name: text
    for text in (
        mass_matrix,
        mass_matrix_inverse,
        coriolis_matrix,
        *(inverse_dynamics_derivatives, forward_dynamics_derivatives),
        *(inverse_dynamics_jvp, inverse_dynamics_vjp, forward_dynamics_jvp, forward_dynamics_vjp),
        regressor,
        *(text for by_reference in FRAMES for text in by_reference.values()),
    )
}


def chain(bodies: int, branches: int = 1) -> kt.Model:
    """Branches of revolute joints."""
    builder = kt.Builder("chain")
    for b in range(branches):
        for i in range(bodies):
            parent = f"{b} {i - 1}" if i else "world"
            builder.add_body(
                f"{b} {i}", parent=parent, joint="revolute", axis=(0.0, 1.0, 0.0), mass=1.0, com=(0.0, 0.0, 0.1)
            )
    return builder.build()


def given(text: Algorithm, of: kt.Model, seed: int, *batch: int) -> tuple[Any, list[Any]]:
    """Frames and random arguments of a text."""
    rng = np.random.default_rng(seed)
    frames = any("frames" in a.dimensions for a in (*text.inputs, *text.outputs))
    sites = tuple(of.site(of.bodies[i].name) for i in (-1, 3)) if frames else ()
    sizes = text.sizes(of.mechanism, sites)
    arguments = [
        of.random_configuration(rng, *batch) if a.name == "q" else rng.uniform(-1.0, 1.0, (*batch, *a.shape(sizes)))
        for a in text.inputs
    ]
    return sites, arguments


def compare(found: Any, expected: Any, of: kt.Model, q: Any) -> None:
    tolerance = bound(of.nv, condition(of.mass_matrix(q)))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, tolerance, float(np.abs(other).max(initial=1.0)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TEXTS)
def test_views_agree(name: str, seed: int) -> None:
    of, text = random_mechanism("rigid", mixed(9, seed), seed, armature=0.5).kinetree(), TEXTS[name]
    sites, arguments = given(text, of, seed)
    own, common = (run(view, of.mechanism, sites, arguments) for view in (text, in_common_frame(text)))
    compare(common, own, of, arguments[0])


@pytest.mark.parametrize("name", TEXTS)
def test_compiled_views(name: str) -> None:
    """Values, and bits alone and in batches, also where functions of this robot use the other view."""
    of, text = random_mechanism("rigid", mixed(9, 1), 1, armature=0.5).kinetree(), TEXTS[name]
    sites, arguments = given(text, of, 1, 11)
    for view in (text, in_common_frame(text)):
        function = bind(view, of.mechanism, sites, view.name, False, tuple)
        batch = _several(function(*arguments))
        for i in range(len(arguments[0])):
            for one, all_of_them in zip(_several(function(*(x[i] for x in arguments))), batch, strict=True):
                np.testing.assert_array_equal(one, all_of_them[i])
        first = [x[0] for x in arguments]
        compare([x[0] for x in batch], run(text, of.mechanism, sites, first), of, first[0])


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("name", ["mass_matrix", "coriolis_matrix", "inverse_dynamics_derivatives"])
def test_the_choice_depends_on_the_tree(name: str) -> None:
    own = TEXTS[name]
    common = in_common_frame(own)
    cases = {chain(7): own, chain(16): own, chain(30): common, chain(2, 30): own, kt.zoo.humanoid24(): own}
    for of, expected in cases.items():
        assert getattr(of, name).algorithm is expected, of


def test_functions_of_general_nodes_run_in_own_coordinates() -> None:
    of = gripper()
    for name in ("mass_matrix", "jacobian", "velocity_derivative", "regressor"):
        assert not getattr(of, name).algorithm.rigid


def test_operations() -> None:
    """In own coordinates, the pose of a floating base costs nothing; in the common frame, columns do not travel."""
    of = kt.zoo.humanoid24()
    own, common = (count(view, of.mechanism, ()).total for view in (mass_matrix, in_common_frame(mass_matrix)))
    assert (own, common) == (4953, 7479)


# What texts may not do in the common frame

ROBOT = random_mechanism("rigid", mixed(5, 2), 2).kinetree()
ENGINES = {
    "reference": lambda text: run(text, ROBOT.mechanism, (), [ROBOT.neutral()]),
    "native": lambda text: count(text, ROBOT.mechanism, ()),
}


def _text(body: Any) -> Algorithm:
    return algorithm(q=("q",), tau=("v",), outputs=("tau",))(body)


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_that_travel_change_by_weights_only(engine: str) -> None:
    @_text
    def turned_around(tree: Any, q: Any, tau: Any) -> None:
        S = tree.travelling("v")
        for k, parent in tree.scatter():
            X = k.weight(q[k])
            for c, unit in zip(k.columns(), np.eye(len(k.armature)), strict=True):
                S[k, c] = k.H @ unit
            for c in tree.ancestors(k):
                S[k, c] = X @ -S[parent, c]
            tau[k] = np.zeros(len(k.armature))

    with pytest.raises(ContractError, match=r"test_views\.py:\d+: an entry of tree\.travelling changes by the node's"):
        ENGINES[engine](in_common_frame(turned_around))


@pytest.mark.parametrize("engine", ENGINES)
def test_motions_are_known_once_the_node_is_placed(engine: str) -> None:
    @_text
    def not_placed(tree: Any, q: Any, tau: Any) -> None:
        for k, _ in tree.scatter():
            tau[k] = k.H.T @ (k.M @ (k.H @ q[k][: len(k.armature)]))

    with pytest.raises(ContractError, match=r"call k\.weight\(q\[k\]\) before reading it"):
        ENGINES[engine](in_common_frame(not_placed))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_parent_does_not_reveal_its_motions(engine: str) -> None:
    @_text
    def of_parent(tree: Any, q: Any, tau: Any) -> None:
        for k, parent in tree.scatter():
            k.X = k.weight(q[k])
            tau[k] = parent.H.T @ (k.M @ (k.H @ q[k][: len(k.armature)]))

    with pytest.raises(ContractError, match="available only from a loop's own node k"):
        ENGINES[engine](in_common_frame(of_parent))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_gathered_on_the_world_is_not_read(engine: str) -> None:
    with pytest.raises(ContractError, match=r"(centroid|inertias)\.py:\d+: `world\.R` is read"):
        ENGINES[engine](in_common_frame(center_of_mass))


@pytest.mark.parametrize("of_view", [True, False])
def test_derivatives_by_dual_numbers_have_no_view(of_view: bool) -> None:
    def rate(text: Algorithm) -> Algorithm:
        return directional_derivative(text, "rate", "dq", {}, ("rate",))

    view = rate(in_common_frame(mass_matrix)) if of_view else in_common_frame(rate(mass_matrix))
    with pytest.raises(ContractError, match="runs in own coordinates"):
        run(view, ROBOT.mechanism, (), [ROBOT.neutral(), np.ones(ROBOT.nv)])


def test_the_derivative_of_a_text_with_inward_entries() -> None:
    rate = directional_derivative(mass_matrix, "rate", "dq", {}, ("rate",))
    q, dq, step = ROBOT.random_configuration(1), np.linspace(-1.0, 1.0, ROBOT.nv), 1e-6
    difference = ROBOT.mass_matrix(ROBOT.integrate(q, dq * step)) - ROBOT.mass_matrix(ROBOT.integrate(q, -dq * step))
    (found,) = run(rate, ROBOT.mechanism, (), [q, dq])
    np.testing.assert_allclose(found, difference / (2.0 * step), rtol=0.0, atol=1e-7)


def test_general_nodes_have_own_coordinates_only() -> None:
    with pytest.raises(UnsupportedError, match="rigid bodies only"):
        in_common_frame(mass_matrix).require(gripper().mechanism)
