"""Identification recovers what generated the data, in any number of blocks, and what it finds is physical."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, UnknownNameError
from kinetree.identification import FRICTION, InertialFit, Regression, fit_inertial_parameters
from kinetree.identification.fit import pseudo_inertia
from tests.oracle import oracle
from tests.tolerance import assert_close, refused

oracle("clarabel")

SAMPLES = 300


@pytest.fixture(scope="module")
def truth() -> kt.Model:
    """An arm of five joints, with rotors."""
    arm = kt.zoo.humanoid24().subtree("left_shoulder_pitch_link")
    return arm.with_armature(np.linspace(0.01, 0.05, arm.nv))


@pytest.fixture(scope="module")
def guess(truth: kt.Model) -> kt.Model:
    """What is known of it: masses are wrong by up to 30 %, centres of mass by centimetres."""
    rng = np.random.default_rng(5)
    robot = truth
    for body in truth.bodies:
        robot = robot.with_inertia(
            body.name, mass=body.mass * rng.uniform(0.7, 1.3), com=body.com + rng.normal(0, 0.01, 3)
        )
    return robot


TERMS = {"viscous": 0.3, "coulomb": 0.2, "offset": -0.1}


def motion(robot: kt.Model, samples: int = SAMPLES, noise: float = 0.0, friction: bool = False) -> tuple[Any, ...]:
    rng = np.random.default_rng(11)
    q = robot.random_configuration(rng, (samples,))
    v, a = rng.uniform(-3.0, 3.0, (2, samples, robot.nv))
    tau = robot.inverse_dynamics(q, v, a) + noise * rng.standard_normal(v.shape)
    if friction:
        tau = tau + TERMS["viscous"] * v + TERMS["coulomb"] * np.sign(v) + TERMS["offset"]
    return q, v, a, tau


def full(fit: InertialFit) -> np.ndarray:
    """The parameters that base parameters are combinations of, without friction."""
    return fit.parameters[[body.mass > 0.0 for body in fit.robot.bodies]].ravel()


@pytest.mark.parametrize("consistent", [False, True])
def test_predictions_without_noise_are_exact(truth: kt.Model, guess: kt.Model, consistent: bool) -> None:
    fit = fit_inertial_parameters(guess, *motion(truth), consistent=consistent)
    rng = np.random.default_rng(0)
    q, (v, a) = truth.random_configuration(rng, (20,)), rng.uniform(-5.0, 5.0, (2, 20, truth.nv))
    expected = truth.inverse_dynamics(q, v, a)
    tolerance = 1e-6 if consistent else 1e-10
    assert_close(fit.predict(q, v, a), expected, tolerance)
    assert fit.residual < tolerance
    assert fit.samples == SAMPLES
    if consistent:
        assert_close(fit.model.inverse_dynamics(q, v, a), expected, tolerance)


def test_base_parameters_are_those_of_the_truth(truth: kt.Model, guess: kt.Model) -> None:
    fit = fit_inertial_parameters(guess, *motion(truth), consistent=False)
    base = fit.base
    assert len(base.names) == len(base.values) == base.matrix.shape[0] < base.matrix.shape[1]
    assert_close(base.values, base.matrix @ truth.inertial_parameters.ravel(), 1e-9)
    assert_close(base.values, base.matrix @ full(fit), 1e-9)
    # the first joint turns about one axis: only the moment about it and the moments of gravity matter
    first = truth.bodies[0].name
    assert f"{first}.m" in base.unidentifiable
    joined = " ".join(base.names)
    assert f"{truth.bodies[-1].name}.mx" in joined or f"{truth.bodies[-1].name}.my" in joined
    # the rank is that of the regressor
    q, v, a, _ = motion(truth)
    Y = truth.regressor(q, v, a).reshape(-1, 10 * len(truth.bodies))
    assert len(base.names) == np.linalg.matrix_rank(Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-9), 1e-7)


def test_what_the_data_do_not_determine_is_kept(truth: kt.Model, guess: kt.Model) -> None:
    fit = fit_inertial_parameters(guess, *motion(truth), consistent=False)
    lost = [name.rsplit(".", 1)[0] for name in fit.base.unidentifiable if name.endswith(".m")]
    assert lost
    for body in lost:
        row = [one.name for one in truth.bodies].index(body)
        assert_close(fit.parameters[row, 0], guess.inertial_parameters[row, 0], 1e-9)
    exact = fit_inertial_parameters(truth, *motion(truth), consistent=False)
    assert_close(exact.parameters, truth.inertial_parameters, 1e-9)


@pytest.mark.parametrize("consistent", [False, True])
def test_friction(truth: kt.Model, guess: kt.Model, consistent: bool) -> None:
    unknown = guess.with_armature(0.0)
    fit = fit_inertial_parameters(unknown, *motion(truth, friction=True), friction=FRICTION, consistent=consistent)
    for term, value in TERMS.items():
        assert_close(fit.friction[term], np.full(truth.nv, value), 1e-5 if consistent else 1e-9)
    if consistent:
        model = fit.model
        assert_close([float(joint.damping[0]) for joint in model.joints], np.full(truth.nv, 0.3), 1e-5)
        assert_close([float(joint.friction[0]) for joint in model.joints], np.full(truth.nv, 0.2), 1e-5)


def test_noisy_data_give_a_physical_robot(truth: kt.Model, guess: kt.Model) -> None:
    data = motion(truth, samples=40, noise=1.0)
    free = fit_inertial_parameters(guess, *data, consistent=False)
    with pytest.raises(ModelError, match="negative|positive definite|triangle|first moment"):
        free.model  # noqa: B018 (least squares alone finds bodies that cannot exist)
    fit = fit_inertial_parameters(guess, *data)
    assert (np.linalg.eigvalsh(pseudo_inertia(fit.parameters)) > 0.0).all()
    assert fit.model.mass > 0.0
    assert free.residual <= fit.residual
    assert 0.7 < fit.residual < 1.3
    # with a prior, the estimate stays near it
    tight = fit_inertial_parameters(guess, *data, prior_deviation=1e-3)
    assert_close(tight.parameters, guess.inertial_parameters, 2e-2)


def test_pseudo_inertia_is_the_second_moment_of_the_mass() -> None:
    rng = np.random.default_rng(2)
    points, masses = rng.standard_normal((9, 3)), rng.uniform(0.1, 1.0, 9)
    inertia = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points))
    theta = np.array([masses.sum(), *(masses @ points), *inertia[np.triu_indices(3)]])
    ones = np.column_stack([points, np.ones(9)])
    assert_close(pseudo_inertia(theta), ones.T @ (masses[:, None] * ones), 1e-13)


def test_deviations_are_those_of_repeated_experiments(truth: kt.Model, guess: kt.Model) -> None:
    q, v, a, tau = motion(truth, samples=60)
    rng = np.random.default_rng(3)
    fits = [
        fit_inertial_parameters(truth, q, v, a, tau + 0.1 * rng.standard_normal(tau.shape), consistent=False)
        for _ in range(100)
    ]
    errors = np.array(
        [(f.base.values - f.base.matrix @ truth.inertial_parameters.ravel()) / f.base.deviations for f in fits]
    )
    spread = np.sqrt((errors**2).mean(axis=0))
    assert (spread > 0.7).all()
    assert (spread < 1.4).all()


def triangle(regression: Regression) -> np.ndarray:
    """The factor, without the signs of its rows, which are arbitrary."""
    R = regression.R
    return R * np.where(np.diag(R) < 0.0, -1.0, 1.0)[:, None]


def test_blocks_are_as_good_as_the_whole(truth: kt.Model, guess: kt.Model) -> None:
    data = motion(truth, noise=0.1)
    whole = Regression(guess, friction=["viscous"]).add(*data)
    parts = Regression(guess, friction=["viscous"])
    for part in np.array_split(np.arange(SAMPLES), 7):
        parts.add(*(array[part] for array in data))
    halves = [
        Regression(guess, friction=["viscous"]).add(*(x[s] for x in data)) for s in (slice(150), slice(150, None))
    ]
    merged = pickle.loads(pickle.dumps(halves[0])).merge(halves[1])
    one, *others = (fit_inertial_parameters(each, consistent=False) for each in (whole, parts, merged))
    for other in others:
        assert other.base.names == one.base.names
        assert other.samples == one.samples == SAMPLES
        assert_close(other.base.values, one.base.values, 1e-9)
        assert_close(other.residual, one.residual, 1e-10)
    assert_close(triangle(parts).T @ triangle(parts), triangle(whole).T @ triangle(whole), 1e-12)


def test_dask_arrays_are_reduced_block_by_block(truth: kt.Model, guess: kt.Model) -> None:
    da = oracle("dask.array")
    data = motion(truth, noise=0.1)
    lazy = [da.from_array(array, chunks=(chunk, 2)) for array, chunk in zip(data, (50, 70, 300, 50))]
    fits = [
        fit_inertial_parameters(guess, *arrays, consistent=False) for arrays in (data, lazy, (*lazy[:2], *data[2:]))
    ]
    refused("predict: v is a Dask array, which would be loaded as a whole", fits[0].predict, data[0], lazy[1], data[2])
    for fit in fits[1:]:
        assert fit.samples == SAMPLES
        assert_close(fit.base.values, fits[0].base.values, 1e-9)
    with pytest.raises(InputError, match=r"Regression: v has shape \(300, 9\), expected"):
        fit_inertial_parameters(guess, lazy[0], da.zeros((300, 9)), *data[2:])
    with pytest.raises(InputError, match="numbers of samples differ: q 300, v 9"):
        fit_inertial_parameters(guess, lazy[0], da.zeros((9, 5)), *data[2:])
    refused("Dask arrays have one batch axis", fit_inertial_parameters, guess, lazy[0][None], *lazy[1:])
    with pytest.raises(InputError, match="sample 299 has NaN"):
        fit_inertial_parameters(
            guess,
            *lazy[:3],
            da.from_array(np.where(np.arange(300) < 299, 1.0, np.nan)[:, None].repeat(5, 1), chunks=50),
        )


def test_bodies_that_are_not_identified_keep_their_parameters(truth: kt.Model, guess: kt.Model) -> None:
    last = truth.bodies[-1].name
    rows = [body.name for body in truth.bodies].index(last)
    known = truth.with_inertia(last, mass=0.3)
    fit = fit_inertial_parameters(known, *motion(truth), bodies=[last], consistent=False)
    np.testing.assert_array_equal(np.delete(fit.parameters, rows, 0), np.delete(truth.inertial_parameters, rows, 0))
    assert fit.residual < 1e-10
    assert_close(fit.parameters[rows, 0], truth.bodies[-1].mass, 1e-8)


def test_refusals(truth: kt.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    q, v, a, tau = motion(truth, 20)
    regression, fit = Regression(truth), fit_inertial_parameters

    refused("needs q, v, a and tau, or a Regression", fit, truth, q, v)
    refused("a Regression has its own samples, bodies, friction and noise", fit, regression, q, v, a, tau)
    refused("a Regression has its own samples, bodies, friction and noise", fit, regression, noise=np.ones(5))
    refused("the samples excite no parameter", fit, regression)
    refused("identification needs a kinetree.Model, got str", fit, "robot", q, v, a, tau)
    refused("no friction term is called 'dry'", fit, truth, q, v, a, tau, friction=["dry"], error=UnknownNameError)
    refused("no body is called 'nose'", fit, truth, q, v, a, tau, bodies=["nose"], error=UnknownNameError)
    refused("are sequences of names", fit, truth, q, v, a, tau, friction="viscous")
    refused("noise is a positive number, or one for each of the 5 joints", fit, truth, q, v, a, tau, noise=0.0)
    refused("noise is a positive number, or one for each", fit, truth, q, v, a, tau, noise=[1.0, 2.0])
    refused("tolerance is a fraction", fit, truth, q, v, a, tau, tolerance=2.0)
    refused("prior_deviation is a positive number", fit, truth, q, v, a, tau, prior_deviation=0.0)
    refused(r"Regression: q has shape \(20, 3\), expected", fit, truth, q[:, :3], v, a, tau)
    refused("numbers of samples differ: q 20, v 20, a 20, tau 7", fit, truth, q, v, a, tau[:7])
    tau[13, 2] = np.nan
    refused("sample 13 has NaN or infinite numbers in q, v, a or tau", fit, truth, q, v, a, tau)
    refused("has no body with mass", fit, kt.Builder().add_body("a").build(), q, v, a, tau)
    refused("the same robot and the same unknowns", regression.merge, Regression(truth, friction=["offset"]))
    monkeypatch.setitem(__import__("sys").modules, "clarabel", None)
    refused(r"needs Clarabel and SciPy .*'kinetree\[identification\]'", fit, truth, *motion(truth, 20))
