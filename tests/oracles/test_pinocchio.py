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
from tests.laws.cases import times
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

    @property
    def order(self) -> kt.interop.PinocchioCounterpart:
        return self.twin.order

    def at(self, i: int, inputs: str) -> tuple[Any, ...]:
        """Arguments of Pinocchio's functions: model, data, and some of q, v and x of one sample."""
        return self.twin.model, self.data, *(getattr(self, letter)[i] for letter in inputs)

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


def _minverse(p: Pair, i: int) -> Array:
    return p.order.from_matrix(mirrored(pin.computeMinverse(*p.at(i, "q"))))


def _log_determinant(p: Pair, i: int) -> Array:
    pin.crba(*p.at(i, "q"))
    pin.cholesky.decompose(p.twin.model, p.data)
    return np.sum(np.log(p.data.D))


def _kinetic(p: Pair, i: int) -> Array:
    """Pinocchio's kinetic energy forgets the rotors of some joint kinds; its mass matrix does not."""
    if np.any(p.twin.model.armature):
        return p.v[i] @ mirrored(pin.crba(*p.at(i, "q"))) @ p.v[i] / 2
    return pin.computeKineticEnergy(*p.at(i, "qv"))


def _momentum_matrix(p: Pair, i: int) -> Array:
    pin.computeCentroidalMap(*p.at(i, "q"))
    return p.order.from_jacobian(p.data.Ag)


def _poses(p: Pair, i: int) -> Array:
    pin.framesForwardKinematics(*p.at(i, "q"))
    return np.stack([p.data.oMf[number].homogeneous for number in p.twin.frames.values()])


#: Functions of arrays, and Pinocchio's of one sample, in Kinetree's order.
FUNCTIONS: dict[str, tuple[str, Callable[[Pair, int], Array]]] = {
    "inverse_dynamics": ("qvx", lambda p, i: p.order.from_v(pin.rnea(*p.at(i, "qvx")))),
    "forward_dynamics": ("qvx", lambda p, i: p.order.from_v(pin.aba(*p.at(i, "qvx")))),
    "mass_matrix": ("q", lambda p, i: p.order.from_matrix(mirrored(pin.crba(*p.at(i, "q"))))),
    "mass_matrix_inverse": ("q", _minverse),
    "mass_matrix_solve": ("qx", lambda p, i: _minverse(p, i) @ p.states[2][i]),
    "mass_matrix_log_determinant": ("q", _log_determinant),
    "bias_forces": ("qv", lambda p, i: p.order.from_v(pin.nonLinearEffects(*p.at(i, "qv")))),
    "gravity_forces": ("q", lambda p, i: p.order.from_v(pin.computeGeneralizedGravity(*p.at(i, "q")))),
    "center_of_mass": ("q", lambda p, i: pin.centerOfMass(*p.at(i, "q"))),
    "center_of_mass_jacobian": ("q", lambda p, i: p.order.from_v(pin.jacobianCenterOfMass(*p.at(i, "q")))),
    "centroidal_momentum_matrix": ("q", _momentum_matrix),
}
SOLVING = ("forward_dynamics", "mass_matrix_inverse", "mass_matrix_solve", "mass_matrix_log_determinant")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(pair: Pair, name: str) -> None:
    inputs, theirs = FUNCTIONS[name]
    expected = pair.each(lambda i: theirs(pair, i))
    found = getattr(pair.robot, name)(*(dict(zip("qvx", pair.states))[letter] for letter in inputs))
    scale = peak(pair.each(lambda i: _minverse(pair, i))) if name == "mass_matrix_solve" else None
    assert_close(found, expected, pair.solving_tolerance if name in SOLVING else pair.tolerance, scale)


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


def test_coriolis_forces(pair: Pair) -> None:
    """C v is what velocity adds to the bias; Pinocchio's own C misses a term where joints turn their axes."""
    q, v, _ = pair.states
    bias, gravity = (
        pair.each(lambda i, f=name: FUNCTIONS[f][1](pair, i)) for name in ("bias_forces", "gravity_forces")
    )
    C = pair.robot.coriolis_matrix(q, v)
    scale = peak(bias, gravity, times(np.abs(C), np.abs(v)))
    assert_close(times(C, v), bias - gravity, pair.tolerance, scale)


def test_energy(pair: Pair) -> None:
    kinetic, potential = pair.robot.energy(*pair.states[:2])
    assert_close(kinetic, pair.each(lambda i: _kinetic(pair, i)), pair.tolerance)
    expected = pair.each(lambda i: pin.computePotentialEnergy(*pair.at(i, "q")))
    weights = sum(body.mass for body in pair.robot.bodies) * 10 * peak(pair.robot.center_of_mass(pair.states[0]))
    assert_close(potential, expected, pair.tolerance, max(peak(expected), weights))


def test_poses(pair: Pair) -> None:
    found = pair.robot.pose(pair.states[0], pair.frames)
    assert_close(found, pair.each(lambda i: _poses(pair, i)), pair.tolerance)


def seen(pair: Pair, get: Any, frames: list[str], reference: str, accelerations: Array) -> Array:
    """Twists or accelerations of frames by Pinocchio, angular part first."""

    def each(i: int) -> Array:
        pin.forwardKinematics(*pair.at(i, "qv"), accelerations[i])
        pin.updateFramePlacements(pair.twin.model, pair.data)
        numbers = [pair.twin.frames[frame] for frame in frames]
        found = [get(pair.twin.model, pair.data, number, REFERENCES[reference]) for number in numbers]
        return np.stack([np.concatenate([one.angular, one.linear]) for one in found])

    return pair.each(each)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_velocities(pair: Pair, reference: str) -> None:
    q, v, _ = pair.states
    actual = pair.robot.velocity(q, v, pair.frames, reference=reference)
    assert_close(actual, seen(pair, pin.getFrameVelocity, pair.frames, reference, pair.x), pair.tolerance)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_jacobians(pair: Pair, reference: str) -> None:
    for frame in (pair.frames[0], pair.frames[len(pair.frames) // 2], pair.frames[-1]):

        def jacobian(i: int, number: int = pair.twin.frames[frame]) -> Array:
            pin.computeJointJacobians(*pair.at(i, "q"))
            pin.updateFramePlacements(pair.twin.model, pair.data)
            return pair.order.from_jacobian(
                pin.getFrameJacobian(pair.twin.model, pair.data, number, REFERENCES[reference])
            )

        actual = pair.robot.jacobian(pair.states[0], frame, reference=reference)
        assert_close(actual, pair.each(jacobian), pair.tolerance)


@pytest.mark.parametrize("reference", list(REFERENCES))
def test_accelerations(pair: Pair, reference: str) -> None:
    """Classical ones; and J̇v, the acceleration at rest of the joints: classical if only the axes are the world's.

    Pinocchio's own J̇ misses a term where joints turn their axes; its accelerations do not.
    """
    (q, v, a), still = pair.states, np.zeros_like(pair.v)
    speed = peak(pair.robot.velocity(q, v, reference=reference))
    drift = pin.getFrameClassicalAcceleration if reference == "local_world_aligned" else pin.getFrameAcceleration
    for frame in (pair.frames[0], pair.frames[-1]):
        for actual, get, push in (
            (pair.robot.acceleration(q, v, a, frame, reference, True), pin.getFrameClassicalAcceleration, pair.x),
            (pair.robot.jacobian_dot_v(q, v, frame, reference=reference), drift, still),
        ):
            expected = seen(pair, get, [frame], reference, push)[:, 0]
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
