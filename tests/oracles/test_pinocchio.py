"""Every function and derivative against Pinocchio, on random trees of every joint kind and on real robots.

Pinocchio's formulas take joint maps as constant in body coordinates, which its universal joint's is not: its
derivatives of trees with such joints are wrong. The oracle for them are complex steps, in `tests/laws`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.oracles.pinocchio_twin import REFERENCES, Twin, mirrored, pin, robots, upright
from tests.tolerance import Array, assert_close, bound, condition, peak
from tests.trees import KINDS, mixed, random_mechanism

SAMPLES = 3


@dataclass(frozen=True)
class Pair:
    """One robot in both libraries, with a few random states."""

    robot: kt.Model
    twin: Twin

    @cached_property
    def data(self) -> Any:
        return self.twin.model.createData()

    @cached_property
    def states(self) -> tuple[Array, Array, Array]:
        return robots.state_pool(self.robot, SAMPLES, seed=3)

    @property
    def frames(self) -> list[str]:
        return list(self.twin.frames)

    @cached_property
    def q(self) -> Array:
        return self.twin.order.to_q(self.states[0])

    @cached_property
    def v(self) -> Array:
        return self.twin.order.to_v(self.states[1])

    @cached_property
    def x(self) -> Array:
        return self.twin.order.to_v(self.states[2])

    def each(self, function: Callable[[int], Array]) -> Array:
        """Results of the oracle, sample by sample."""
        return np.stack([np.array(function(i)) for i in range(SAMPLES)])

    @property
    def tolerance(self) -> float:
        return bound(self.robot.nv)

    @cached_property
    def solving_tolerance(self) -> float:
        return bound(self.robot.nv, condition(self.robot.mass_matrix(self.states[0])))


def random_pair(joints: list[str], seed: int, **options: float) -> Pair:
    mechanism = upright(random_mechanism(f"random {seed}", joints, seed, **options))
    robot = mechanism.kinetree()
    return Pair(robot, Twin.of(mechanism, robot))


def real_pair(name: str) -> Pair:
    robot = robots.load(name)
    return Pair(robot.model, Twin(robot.pinocchio, robot.order, dict(robot.frames)))


PAIRS: dict[str, Callable[[], Pair]] = {
    **{
        f"chain of {kind}": lambda kind=kind, i=i: random_pair([kind] * 3, i, branching=0.0)
        for i, kind in enumerate(KINDS)
    },
    **{f"every kind {seed}": lambda seed=seed: random_pair(mixed(12, seed), seed) for seed in (28, 29, 30)},
    "every kind, armature": lambda: random_pair(mixed(10, 23), 23, armature=1.0),
    "forest": lambda: random_pair(mixed(15, 151), 151, roots=3),
    "long": lambda: random_pair(["revolute"] * 60, 25, branching=0.1),
    **{name: lambda name=name: real_pair(name) for name in robots.NAMES},
}


@cache
def make(name: str) -> Pair:
    return PAIRS[name]()


@pytest.fixture(params=list(PAIRS))
def pair(request: pytest.FixtureRequest) -> Pair:
    return make(request.param)


def test_inverse_dynamics(pair: Pair) -> None:
    expected = pair.each(lambda i: pin.rnea(pair.twin.model, pair.data, pair.q[i], pair.v[i], pair.x[i]))
    actual = pair.robot.inverse_dynamics(*pair.states)
    assert_close(actual, pair.twin.order.from_v(expected), pair.tolerance)


def test_forward_dynamics(pair: Pair) -> None:
    expected = pair.each(lambda i: pin.aba(pair.twin.model, pair.data, pair.q[i], pair.v[i], pair.x[i]))
    actual = pair.robot.forward_dynamics(*pair.states)
    assert_close(actual, pair.twin.order.from_v(expected), pair.solving_tolerance)


def test_external_forces(pair: Pair) -> None:
    rng = np.random.default_rng(0)
    wrenches = {frame: rng.uniform(-3.0, 3.0, 6) for frame in (pair.frames[0], pair.frames[-1])}
    forces = pair.twin.forces(wrenches)
    model, data, order = pair.twin.model, pair.data, pair.twin.order
    inverse = pair.each(lambda i: pin.rnea(model, data, pair.q[i], pair.v[i], pair.x[i], forces))
    forward = pair.each(lambda i: pin.aba(model, data, pair.q[i], pair.v[i], pair.x[i], forces))
    actual = pair.robot.inverse_dynamics(*pair.states, f_ext=wrenches)
    assert_close(actual, order.from_v(inverse), pair.tolerance)
    assert_close(
        pair.robot.forward_dynamics(*pair.states, f_ext=wrenches), order.from_v(forward), pair.solving_tolerance
    )


def test_mass_matrix(pair: Pair) -> None:
    expected = pair.each(
        lambda i: pair.twin.order.from_matrix(mirrored(pin.crba(pair.twin.model, pair.data, pair.q[i])))
    )
    assert_close(pair.robot.mass_matrix(pair.states[0]), expected, pair.tolerance)


def test_mass_matrix_inverse(pair: Pair) -> None:
    expected = pair.each(
        lambda i: pair.twin.order.from_matrix(mirrored(pin.computeMinverse(pair.twin.model, pair.data, pair.q[i])))
    )
    assert_close(pair.robot.mass_matrix_inverse(pair.states[0]), expected, pair.solving_tolerance)
    actual = pair.robot.mass_matrix_solve(pair.states[0], pair.states[2])
    assert_close(
        actual, np.einsum("...ij,...j->...i", expected, pair.states[2]), pair.solving_tolerance, peak(expected)
    )


def test_log_determinant(pair: Pair) -> None:
    def log_determinant(i: int) -> Array:
        pin.crba(pair.twin.model, pair.data, pair.q[i])
        pin.cholesky.decompose(pair.twin.model, pair.data)
        return np.sum(np.log(pair.data.D))

    actual = pair.robot.mass_matrix_log_determinant(pair.states[0])
    assert_close(actual, pair.each(log_determinant), pair.solving_tolerance)


def test_bias_and_gravity(pair: Pair) -> None:
    q, v, _ = pair.states
    model, order = pair.twin.model, pair.twin.order
    bias = pair.each(lambda i: pin.nonLinearEffects(model, pair.data, pair.q[i], pair.v[i]))
    gravity = pair.each(lambda i: pin.computeGeneralizedGravity(model, pair.data, pair.q[i]))
    assert_close(pair.robot.bias_forces(q, v), order.from_v(bias), pair.tolerance)
    assert_close(pair.robot.gravity_forces(q), order.from_v(gravity), pair.tolerance)


def test_coriolis_forces(pair: Pair) -> None:
    """C v is what velocity adds to the bias; Pinocchio's own C misses a term where joints turn their axes."""
    q, v, _ = pair.states
    model, data = pair.twin.model, pair.data
    bias = pair.each(lambda i: pin.nonLinearEffects(model, data, pair.q[i], pair.v[i]))
    gravity = pair.each(lambda i: pin.computeGeneralizedGravity(model, data, pair.q[i]))
    C = pair.robot.coriolis_matrix(q, v)
    scale = peak(bias, gravity, np.einsum("...ij,...j->...i", np.abs(C), np.abs(v)))
    actual = np.einsum("...ij,...j->...i", C, v)
    assert_close(actual, pair.twin.order.from_v(bias - gravity), pair.tolerance, scale)


def test_energy(pair: Pair) -> None:
    """Pinocchio's kinetic energy forgets the rotors of some joint kinds; its mass matrix does not."""
    kinetic, potential = pair.robot.energy(*pair.states[:2])
    model = pair.twin.model
    if np.any(model.armature):
        halves = pair.each(lambda i: pair.v[i] @ mirrored(pin.crba(model, pair.data, pair.q[i])) @ pair.v[i] / 2)
    else:
        halves = pair.each(lambda i: pin.computeKineticEnergy(model, pair.data, pair.q[i], pair.v[i]))
    assert_close(kinetic, halves, pair.tolerance)
    expected = pair.each(lambda i: pin.computePotentialEnergy(model, pair.data, pair.q[i]))
    weights = sum(body.mass for body in pair.robot.bodies) * 10 * peak(pair.robot.center_of_mass(pair.states[0]))
    assert_close(potential, expected, pair.tolerance, max(peak(expected), weights))


def test_centre_of_mass(pair: Pair) -> None:
    q = pair.states[0]
    model, data, order = pair.twin.model, pair.data, pair.twin.order
    centre = pair.each(lambda i: pin.centerOfMass(model, data, pair.q[i]))
    assert_close(pair.robot.center_of_mass(q), centre, pair.tolerance)
    jacobian = pair.each(lambda i: order.from_v(pin.jacobianCenterOfMass(model, data, pair.q[i])))
    assert_close(pair.robot.center_of_mass_jacobian(q), jacobian, pair.tolerance)


def test_centroidal_momentum_matrix(pair: Pair) -> None:
    def matrix(i: int) -> Array:
        pin.computeCentroidalMap(pair.twin.model, pair.data, pair.q[i])
        return pair.twin.order.from_jacobian(pair.data.Ag)

    assert_close(pair.robot.centroidal_momentum_matrix(pair.states[0]), pair.each(matrix), pair.tolerance)


def test_poses(pair: Pair) -> None:
    def poses(i: int) -> Array:
        pin.framesForwardKinematics(pair.twin.model, pair.data, pair.q[i])
        return np.stack([pair.data.oMf[number].homogeneous for number in pair.twin.frames.values()])

    assert_close(pair.robot.pose(pair.states[0], pair.frames), pair.each(poses), pair.tolerance)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_velocities(pair: Pair, reference: str) -> None:
    def velocities(i: int) -> Array:
        pin.forwardKinematics(pair.twin.model, pair.data, pair.q[i], pair.v[i])
        pin.updateFramePlacements(pair.twin.model, pair.data)
        found = [
            pin.getFrameVelocity(pair.twin.model, pair.data, number, REFERENCES[reference])
            for number in pair.twin.frames.values()
        ]
        return np.stack([np.concatenate([twist.angular, twist.linear]) for twist in found])

    q, v, _ = pair.states
    actual = pair.robot.velocity(q, v, pair.frames, reference=reference)
    assert_close(actual, pair.each(velocities), pair.tolerance)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_jacobians(pair: Pair, reference: str) -> None:
    for frame in (pair.frames[0], pair.frames[len(pair.frames) // 2], pair.frames[-1]):

        def jacobian(i: int, number: int = pair.twin.frames[frame]) -> Array:
            pin.computeJointJacobians(pair.twin.model, pair.data, pair.q[i])
            pin.updateFramePlacements(pair.twin.model, pair.data)
            return pair.twin.order.from_jacobian(
                pin.getFrameJacobian(pair.twin.model, pair.data, number, REFERENCES[reference])
            )

        actual = pair.robot.jacobian(pair.states[0], frame, reference=reference)
        assert_close(actual, pair.each(jacobian), pair.tolerance)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_classical_accelerations(pair: Pair, reference: str) -> None:
    q, v, a = pair.states
    model, data = pair.twin.model, pair.data
    for frame in (pair.frames[0], pair.frames[-1]):

        def acceleration(i: int, number: int = pair.twin.frames[frame]) -> Array:
            pin.forwardKinematics(model, data, pair.q[i], pair.v[i], pair.x[i])
            pin.updateFramePlacements(model, data)
            found = pin.getFrameClassicalAcceleration(model, data, number, REFERENCES[reference])
            return np.concatenate([found.angular, found.linear])

        expected = pair.each(acceleration)
        speed = peak(pair.robot.velocity(q, v, reference=reference))
        actual = pair.robot.acceleration(q, v, a, frame, reference, classical=True)
        assert_close(actual, expected, pair.tolerance, max(peak(expected), speed**2))


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_jacobian_rates(pair: Pair, reference: str) -> None:
    """J̇v is the frame's acceleration at rest of the joints: spatial, or classical if only the axes are the world's.

    Pinocchio's own J̇ misses a term where joints turn their axes; its accelerations do not.
    """
    q, v, _ = pair.states
    model, data = pair.twin.model, pair.data
    classical = reference == "local_world_aligned"
    acceleration = pin.getFrameClassicalAcceleration if classical else pin.getFrameAcceleration
    for frame in (pair.frames[0], pair.frames[-1]):

        def product(i: int, number: int = pair.twin.frames[frame]) -> Array:
            pin.forwardKinematics(model, data, pair.q[i], pair.v[i], np.zeros(model.nv))
            pin.updateFramePlacements(model, data)
            found = acceleration(model, data, number, REFERENCES[reference])
            return np.concatenate([found.angular, found.linear])

        expected = pair.each(product)
        speed = peak(pair.robot.velocity(q, v, reference=reference))
        actual = pair.robot.jacobian_dot_v(q, v, frame, reference=reference)
        assert_close(actual, expected, pair.tolerance, max(peak(expected), speed**2))


#: How exact derivatives are on real robots, whatever the condition of the mass matrix.
EXACT = 1e-9

CONSTANT = tuple(kind for kind in KINDS if kind != "universal")
DIFFERENTIATED: dict[str, Callable[[], Pair]] = {
    "mixed": lambda: random_pair(mixed(12, 20, *CONSTANT), 20),
    "mixed, armature": lambda: random_pair(mixed(10, 23, *CONSTANT), 23, armature=1.0),
    "forest": lambda: random_pair(mixed(15, 24, *CONSTANT), 24, roots=3),
    "long": lambda: make("long"),
    **{name: lambda name=name: make(name) for name in robots.NAMES},
}


@pytest.fixture(params=list(DIFFERENTIATED), scope="module")
def smooth(request: pytest.FixtureRequest) -> Pair:
    return DIFFERENTIATED[request.param]()


def wrenches(smooth: Pair) -> dict[str, np.ndarray]:
    """On a few frames, another one in each sample."""
    rng = np.random.default_rng(4)
    return {
        frame: rng.uniform(-20.0, 20.0, (SAMPLES, 6)) for frame in smooth.frames[:: max(1, len(smooth.frames) // 3)]
    }


def theirs(smooth: Pair, kind: str, forces: dict[str, np.ndarray]) -> np.ndarray:
    """Pinocchio's three matrices of each sample."""
    compute = pin.computeRNEADerivatives if kind == "a" else pin.computeABADerivatives

    def each(i: int) -> np.ndarray:
        more = [smooth.twin.forces({frame: wrench[i] for frame, wrench in forces.items()})] if forces else []
        results = compute(smooth.twin.model, smooth.data, smooth.q[i], smooth.v[i], smooth.x[i], *more)
        return np.stack([smooth.twin.order.from_matrix(np.array(part)) for part in results])

    return np.moveaxis(smooth.each(each), 1, 0)


def tolerance_of(smooth: Pair, kind: str) -> float:
    return min(smooth.tolerance if kind == "a" else smooth.solving_tolerance, EXACT)


@pytest.mark.parametrize("kind", ["a", "tau"])
def test_matrices(smooth: Pair, kind: str) -> None:
    q, v, x = smooth.states
    for part, expected in zip(smooth.robot.linearize(q, v, **{kind: x}), theirs(smooth, kind, {}), strict=True):
        assert_close(part, expected, tolerance_of(smooth, kind))


@pytest.mark.parametrize("kind", ["a", "tau"])
@pytest.mark.parametrize("name", robots.NAMES)
def test_with_wrenches(name: str, kind: str) -> None:
    """The matrices, and in O(n) the first column and the first row of each."""
    smooth = make(name)
    forces, tolerance = wrenches(smooth), tolerance_of(smooth, kind)
    matrices = theirs(smooth, kind, forces)
    q, v, x = smooth.states
    for part, expected in zip(smooth.robot.linearize(q, v, **{kind: x}, f_ext=forces), matrices, strict=True):
        assert_close(part, expected, tolerance)
    function = smooth.robot.inverse_dynamics if kind == "a" else smooth.robot.forward_dynamics
    unit = np.eye(smooth.robot.nv)[0]
    gradients = function.vjp(q, v, x, unit, f_ext=forces)
    for place, expected in enumerate(matrices):
        step = [unit if place == i else 0.0 * unit for i in range(3)]
        scale = float(np.max(np.abs(expected)))
        assert_close(function.jvp(q, v, x, *step, f_ext=forces), expected[..., 0], tolerance, scale)
        assert_close(gradients[place], expected[..., 0, :], tolerance, scale)
