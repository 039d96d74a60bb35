"""jvp and vjp of every function of a configuration, against complex steps, on nodes of every kind."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnsupportedError
from kinetree.runtime.function import FrameFunction
from tests.laws import test_general_nodes as general
from tests.laws.cases import REFERENCES, H
from tests.tolerance import Array, assert_close, peak, refused
from tests.trees import mixed, random_mechanism

NAMES = (
    "pose", "velocity", "acceleration", "jacobian", "jacobian_dot_v", "jacobian_rate", "velocity_derivative",
    "mass_matrix", "mass_matrix_solve", "mass_matrix_log_determinant", "bias_forces", "gravity_forces",
    "coriolis_matrix", "energy", "center_of_mass", "center_of_mass_jacobian", "centroidal_momentum_matrix",
    "reactions", "stacked_vectors", "regressor", "mass_matrix_inverse", "mass_matrix_determinant",
    "forward_dynamics_derivatives", "innovations", "innovation_forces", "tracking_regressor",
    "inverse_dynamics_derivatives", "acceleration_derivatives", "mass_matrix_log_determinant_gradient",
)  # fmt: skip


@cache
def robot(name: str) -> kt.Model:
    if name == "every kind":
        return random_mechanism("every kind", mixed(10, 1), 1, armature=0.5).kinetree()
    return general.robot(name)


def given(
    of: kt.Model, name: str, function: str, shape: tuple[int, ...]
) -> tuple[list[str], list[Any], list[Any], Any]:
    """Names of arrays, arrays, directions of them, and what else is chosen."""
    rng = np.random.default_rng(5)
    q = general.state(name).q if name in general.NAMES else of.random_configuration(rng, shape)
    called = getattr(of, function)
    names = list(called._arrays)
    arrays = [q if each == "q" else rng.uniform(-1.0, 1.0, (*shape, of.nv)) for each in names]
    directions = [rng.uniform(-1.0, 1.0, (*shape, of.nv)) for _ in names]
    frames = general.frames(name) if name in general.NAMES else [of.frames[-1], of.frames[3]]
    return names, arrays, directions, (frames,) if isinstance(called, FrameFunction) else ()


def several(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


#: On nodes that are not rigid bodies, where code takes longer to compile.
FEW = (
    "pose", "jacobian", "mass_matrix", "mass_matrix_inverse", "mass_matrix_log_determinant", "energy",
    "centroidal_momentum_matrix", "stacked_vectors",
)  # fmt: skip
EACH = [*(("every kind", function) for function in NAMES), *((n, f) for n in ("nodes", "couplings") for f in FEW)]


@pytest.mark.parametrize(("name", "function"), EACH)
def test_rates_and_gradients(name: str, function: str) -> None:
    """Rates are those of complex steps; gradients are their transposes."""
    of = robot(name)
    shape = (2,) if name == "every kind" else ()
    called = getattr(of, function)
    names, arrays, directions, rest = given(of, name, function, shape)
    moved = of.integrate.engine("reference")(arrays[0].astype(complex), 1j * H * directions[0])
    stepped = [moved, *(x + 1j * H * d for x, d in zip(arrays[1:], directions[1:], strict=True))]
    expected = [value.imag / H for value in several(called.engine("reference")(*stepped, *rest))]
    found = several(called.jvp(*arrays, *directions, *rest))
    size = peak(*(several(called(*arrays, *rest))), *expected)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-10, size)
    weights = tuple(np.random.default_rng(1).normal(size=rate.shape) for rate in found)
    gradients = several(called.vjp(*arrays, weights if len(weights) > 1 else weights[0], *rest))
    assert len(gradients) == len(names)
    along = sum(np.sum(g * d, axis=-1) for g, d in zip(gradients, directions, strict=True))
    weighted = sum((w * rate).reshape(*shape, -1).sum(-1) for w, rate in zip(weights, found, strict=True))
    terms = sum(np.abs(g * d).sum() for g, d in zip(gradients, directions, strict=True))
    assert_close(along, weighted, 1e-11, max(peak(weighted), float(terms)))


@pytest.mark.parametrize("reference", REFERENCES)
def test_choices_are_those_of_the_function(reference: str) -> None:
    of = robot("every kind")
    frame = of.frames[-1]
    _, (q, v, a), (dq, dv, da), _ = given(of, "every kind", "acceleration", (3,))
    for options in ({"reference": reference}, {"reference": reference, "classical": True}):
        moved = of.integrate.engine("reference")(q.astype(complex), 1j * H * dq)
        exact = of.acceleration.engine("reference")(moved, v + 1j * H * dv, a + 1j * H * da, frame, **options)
        found = of.acceleration.jvp(q, v, a, dq, dv, da, frame, **options)
        assert_close(found, exact.imag / H, 1e-12, peak(exact.imag / H))
        one = of.acceleration.jvp(q[1], v[1], a[1], dq[1], dv[1], da[1], frame, **options)
        np.testing.assert_array_equal(one, found[1])  # the same bits


def test_they_are_functions() -> None:
    of = robot("every kind")
    _, (q,), (dq,), _ = given(of, "every kind", "mass_matrix", ())
    rate = of.mass_matrix.jvp
    assert rate is of.mass_matrix.jvp
    out = np.empty((of.nv, of.nv))
    assert rate(q, dq, out=out) is out
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rate))(q, dq), out)
    assert_close(rate.engine("reference")(q, dq), out, 1e-13, peak(out))
    refused("has no derivative", lambda: rate.jvp, error=UnsupportedError)
    refused("use discretize", lambda: of.step.jvp, error=UnsupportedError)
    refused("has no derivative", lambda: of.bracket.jvp, error=UnsupportedError)
    refused("takes q", of.mass_matrix.vjp, q, error=InputError)
    refused("tuple of 2", of.energy.vjp, q, dq, 1.0, error=InputError)
    assert list(of.jacobian.jvp.__signature__.parameters) == ["q", "dq", "frames", "reference", "out"]


def test_rates_of_texts_that_read_their_results() -> None:
    """out=, wrenches, bits in batches, and pickles, as of all others."""
    of = robot("every kind")
    _, (q, v, tau), (dq, dv, dtau), _ = given(of, "every kind", "forward_dynamics_derivatives", (3,))
    rate, out = of.mass_matrix_inverse.jvp, np.empty((3, of.nv, of.nv))
    assert rate(q, dq, out=out) is out
    inverse = of.mass_matrix_inverse(q)
    exact = -inverse @ of.mass_matrix.jvp(q, dq) @ inverse
    assert_close(out, exact, 1e-10, peak(exact))
    np.testing.assert_array_equal(rate(q[1], dq[1]), out[1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rate))(q, dq), out)
    refused(r"shape \(2, ", rate, q, dq, out=np.empty((2, of.nv, of.nv)), error=InputError)
    load = {of.frames[-1]: np.arange(6.0)}
    derivatives = of.forward_dynamics_derivatives
    found = derivatives.jvp(q, v, tau, dq, dv, dtau, load)
    assert type(found) is type(derivatives(q, v, tau))
    e = 1e-6
    ahead, behind = (derivatives(of.integrate(q, s * dq), v + s * dv, tau + s * dtau, load).dq for s in (e, -e))
    expected = (ahead - behind) / (2 * e)
    assert_close(found.dq, expected, 1e-7, peak(expected))
    filled = tuple(np.empty((3, of.nv, of.nv)) for _ in range(3))
    derivatives.jvp(q, v, tau, dq, dv, dtau, load, out=filled)
    np.testing.assert_array_equal(filled[0], found.dq)


#: Functions of O(n), and how many operations of theirs a gradient takes at most.
LINEAR = {
    "pose": 3.0, "velocity": 3.5, "jacobian": 7.5, "jacobian_rate": 8.0, "velocity_derivative": 12.0,
    "acceleration_derivatives": 8.5, "center_of_mass": 2.5, "center_of_mass_jacobian": 5.5, "energy": 3.0,
    "centroidal_momentum_matrix": 9.5, "mass_matrix_solve": 3.0, "mass_matrix_log_determinant": 2.0,
    "mass_matrix_log_determinant_gradient": 3.0, "innovations": 3.0, "bias_forces": 3.0, "integrate": 2.0,
}  # fmt: skip


def test_gradients_cost_a_constant_number_of_operations_per_body() -> None:
    chains = [kt.zoo.chain(n) for n in (10, 100, 1000)]
    for function, most in LINEAR.items():
        totals: list[list[int]] = []
        for chain in chains:
            called = getattr(chain, function)
            frames = (chain.bodies[-1].name,) if isinstance(called, FrameFunction) else ()
            totals.append([called.count(*frames).total, called.vjp.count(*frames).total])
        for few, some, many in zip(*totals, strict=True):
            assert abs((many - some) / 900 - (some - few) / 90) < 0.01 * (some - few) / 90  # a straight line
        assert totals[-1][1] < most * totals[-1][0]


def test_gradients_of_matrices_are_functions() -> None:
    """Engines, out=, bits in batches, pickles, wrenches, references and single frames, as of all others."""
    of, rng = robot("every kind"), np.random.default_rng(3)
    frame = of.frames[-1]
    _, (q,), (dq,), _ = given(of, "every kind", "jacobian", (3,))
    gradient, W = of.jacobian.vjp, rng.normal(size=(3, 6, of.nv))
    for reference in REFERENCES:
        by_q = gradient(q, W, frame, reference)
        rate = of.jacobian.jvp(q, dq, frame, reference)
        assert_close((by_q * dq).sum(-1), (W * rate).sum((-1, -2)), 1e-12, np.abs(W * rate).sum((-1, -2)).max())
        np.testing.assert_array_equal(gradient(q[1], W[1], frame, reference), by_q[1])  # the same bits
        np.testing.assert_array_equal(gradient(q, W[:, None], [frame], reference=reference), by_q)
    assert_close(gradient.engine("reference")(q[1], W[1], frame, reference), by_q[1], 1e-12, peak(by_q))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gradient))(q, W, frame, reference), by_q)
    out = np.full((3, of.nv), np.nan)
    assert gradient(q, W, frame, reference, out=out) is out
    np.testing.assert_array_equal(out, by_q)
    gradient.compile(frame)
    one, two = (gradient.count(frames).total for frames in ([frame], [frame, of.frames[3]]))
    assert one < two < 3 * one
    refused("weights has shape", gradient, q, W[..., :-1], frame, error=InputError)
    refused(r"out has shape \(2", gradient, q, W, frame, out=np.empty((2, of.nv)), error=InputError)

    derivatives, load = of.inverse_dynamics_derivatives, {frame: rng.normal(size=(3, 6))}
    _, (q, v, a), directions, _ = given(of, "every kind", "inverse_dynamics_derivatives", (3,))
    weights = tuple(rng.normal(size=(3, 3, of.nv, of.nv)))
    rates = derivatives.jvp(q, v, a, *directions, load)
    found = derivatives.vjp(q, v, a, weights, load)
    along = sum((g * d).sum(-1) for g, d in zip(found, directions, strict=True))
    weighted = sum((w * rate).sum((-1, -2)) for w, rate in zip(weights, rates, strict=True))
    size = sum(np.abs(g * d).sum() for g, d in zip(found, directions, strict=True))
    assert_close(along, weighted, 1e-11, float(size))
    still = derivatives.vjp(q, v, a, weights)
    assert np.abs(found[0] - still[0]).max() > 1e-3  # wrenches matter
