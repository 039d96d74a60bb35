"""Products and elementary functions that no machine computes differently."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kinetree.spatial import reproducible
from kinetree.spatial.logarithm import first_quadrant, logarithm
from tests.oracle import oracle

mpmath = oracle("mpmath")


def _ulps(actual: np.ndarray, exact: list[object]) -> float:
    with mpmath.workprec(200):
        errors = [
            abs(mpmath.mpf(float(x)) - y) / mpmath.mpf(float(np.spacing(abs(float(y))))) for x, y in zip(actual, exact)
        ]
    return float(max(errors))


def test_sine_and_cosine() -> None:
    rng = np.random.default_rng(0)
    angles = np.concatenate(
        [
            rng.uniform(-4.0, 4.0, 300),
            rng.uniform(-(2.0**46), 2.0**46, 100),
            10.0 ** rng.uniform(-300.0, 1.0, 100),
            np.arange(-20, 20) * np.pi / 4.0,
        ]
    )
    sin, cos = reproducible.sincos(angles)
    with mpmath.workprec(200):
        exact = [mpmath.mpf(float(x)) for x in angles]
        assert _ulps(sin[angles != 0.0], [mpmath.sin(x) for x in exact if x]) < 1.0
        assert _ulps(cos, [mpmath.cos(x) for x in exact]) < 1.0
    assert np.isnan(reproducible.sincos(np.array([np.inf, np.nan, 1e300]))).all()


def test_sine_and_cosine_of_one_angle_have_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    eighths = np.arange(-40, 41) * np.pi / 4.0
    angles = np.concatenate(
        [
            *(eighths, np.nextafter(eighths, 100.0), np.nextafter(eighths, -100.0), eighths.round(11)),
            rng.uniform(-(2.0**46), 2.0**46, 1000),
            10.0 ** rng.uniform(-323.0, 1.0, 1000) * rng.choice((-1.0, 1.0), 1000),
            [0.0, -0.0],
        ]
    )
    alone = np.array([reproducible.sincos_of_one(angle) for angle in angles.tolist()]).T
    np.testing.assert_array_equal(alone.view(np.int64), np.array(reproducible.sincos(angles)).view(np.int64))
    assert np.isnan([reproducible.sincos_of_one(angle) for angle in (np.inf, np.nan, 1e300)]).all()


def test_arctangent_of_the_first_quadrant() -> None:
    rng = np.random.default_rng(1)
    y, x = np.abs(rng.standard_normal((2, 400)))
    y[:100] *= 10.0 ** rng.uniform(-200.0, 0.0, 100)
    x[100:200] *= 10.0 ** rng.uniform(-200.0, 0.0, 100)
    with mpmath.workprec(200):
        exact = [mpmath.atan2(mpmath.mpf(float(b)), mpmath.mpf(float(a))) for a, b in zip(x, y)]
        assert _ulps(first_quadrant(y, x), exact) < 2.0
    assert first_quadrant(np.zeros(1), np.ones(1)) == 0.0
    assert first_quadrant(np.ones(1), np.zeros(1)) == np.pi / 2.0


def test_logarithm() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([10.0 ** rng.uniform(-300.0, 300.0, 300), 1.0 + 10.0 ** rng.uniform(-15.0, 0.0, 100), [5e-324]])
    with np.errstate(all="ignore"):
        found = logarithm(x)
        special = logarithm(np.array([0.0, -0.0, 1.0, -1.0, np.inf, np.nan]))
    with mpmath.workprec(200):
        assert _ulps(found, [mpmath.log(mpmath.mpf(float(t))) for t in x]) < 2.0
    np.testing.assert_array_equal(special, [-np.inf, -np.inf, 0, np.nan, np.inf, np.nan])


def test_products() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((4, 1, 5, 3)), rng.standard_normal((2, 3, 6))
    np.testing.assert_allclose(reproducible.product(a, b), a @ b, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(reproducible.apply(a, b[0, :, 0]), a @ b[0, :, 0], rtol=1e-14, atol=1e-15)
    assert reproducible.product(np.zeros((2, 0)), np.zeros((0, 3))).shape == (2, 3)


#: Everything on the way from a file or a builder to numbers, printed as bits.
PROGRAM = """
import hashlib, sys
import numpy as np
import kinetree as kt
panda = kt.load(sys.argv[1])
built = kt.zoo.random_tree(20, seed=4)
turned = (panda.joints[1].placement[:3, :3], (1, 2, 3))
models = [panda, built, built.attach("tip", kt.zoo.chain(3), turned, "x_")]
models.append(built.with_payload("tip", 1.3, (0.1, 0.2, 0.3), np.diag([0.1, 0.2, 0.25])))
models.append(built.reduced({j.name: built.random_configuration(3)[j.q_slice] for j in built.joints[:12]}))
def put(name, *arrays):
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()
    print(name, digest)
for m, robot in enumerate(models):
    rng = np.random.default_rng(m)
    q = robot.random_configuration(rng, 5)
    v, a = rng.standard_normal((2, 5, robot.nv))
    put(f"{m} constants", *robot.mechanism.parameters, *(site.placement for site in robot.sites))
    put(f"{m} inverse_dynamics", robot.inverse_dynamics(q, v, a))
    put(f"{m} pose", robot.pose(q))
    put(f"{m} integrate", robot.integrate(q, v, 0.1))
    put(f"{m} difference", robot.difference(q, q[::-1]))
    put(f"{m} dintegrate", *robot.dintegrate(q, v, 0.1), *robot.ddifference(q, q[::-1]))
    put(f"{m} tangents", robot.tangent_map(q), robot.bracket(v), robot.normalize(q))
    if m == 1:
        put(f"{m} determinant", robot.mass_matrix_log_determinant(q), robot.mass_matrix_determinant(q))
        put(f"{m} step", *robot.step(q, v, a, 1e-3, "rk4"))
        put(f"{m} discretize", *robot.discretize(q, v, a, 1e-3, "rk4"), *robot.discretize(q, v, a, 1e-3))
"""


@cache
def printed(core: str, without: str = "") -> list[str]:
    """What the program prints under a kernel of OpenBLAS, without some of NumPy's vector code."""
    prefix = next(parent for parent in Path(oracle("pinocchio").__file__).parents if parent.name == "cmeel.prefix")
    panda = prefix / "share/example-robot-data/robots/panda_description/urdf/panda.urdf"
    environment = dict(os.environ, OPENBLAS_CORETYPE=core, OPENBLAS_NUM_THREADS="1")
    if without:
        environment["NPY_DISABLE_CPU_FEATURES"] = without
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(panda)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()


@pytest.mark.parametrize("features", ["", "AVX2 FMA3 AVX512F AVX512_SKX"])
def test_bits_do_not_depend_on_the_blas_or_on_vector_units(features: str) -> None:
    """The same robots under two kernels of OpenBLAS, and with NumPy's vector code switched off."""
    seen = printed("Prescott", features)
    assert len(seen) > 30
    assert seen == printed("Haswell")


def test_sums_leave_their_terms() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(reproducible.summed(x, axis=-2), x.sum(axis=-2))
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(2, 3, 2))
    np.testing.assert_array_equal(reproducible.summed(np.zeros((0, 3)), axis=0), np.zeros(3))
