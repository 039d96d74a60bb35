"""Nodes whose coordinates are not plain numbers: manifolds of users, their laws, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.model.joints import KINDS
from tests.general_nodes import Circle, Shears, Swarm, Telescope
from tests.laws.cases import H
from tests.tolerance import assert_close

SOLID = {"mass": 0.8, "com": (0.1, -0.05, 0.2), "inertia": np.diag([0.02, 0.03, 0.04])}
EXACT = 1e-13


class Turns(kt.Manifold):
    """Rotations, by the formulas of a ball joint; its derivatives are found without."""

    nq, nv = 4, 3

    def neutral(self) -> Any:
        return KINDS["spherical"].neutral()

    def integrate(self, q: Any, step: Any) -> Any:
        return KINDS["spherical"].integrate(q, step)

    def difference(self, q0: Any, q1: Any) -> Any:
        return KINDS["spherical"].difference(q0, q1)

    def normalize(self, q: Any) -> Any:
        return KINDS["spherical"].normalize(q)


def test_derivatives_follow_from_the_formulas() -> None:
    """Those of rotations are the closed forms of ball joints."""
    turns, ball, rng = Turns(), KINDS["spherical"], np.random.default_rng(0)
    q, x, y = turns.random(rng), rng.normal(size=3), rng.normal(size=3)
    for name in ("transport", "right_jacobian", "inverse_right_jacobian", "bracket"):
        assert_close(getattr(turns, name)(x), getattr(ball, name)(x), EXACT)
    assert_close(turns.rates(q, y), ball.rates(q, y), EXACT)
    assert_close(turns.tangent_map(q), ball.tangent_map(q), EXACT)
    assert_close(turns.room(q, turns.integrate(q, x / 2.0)), x / 2.0, EXACT)


@pytest.mark.parametrize(("x", "y"), [(1.0, 0.3), (-1.0, 0.3), (-1.0, -0.3), (1.0, -0.3), (0.0, 2.0), (-1.0, 0.0)])
def test_angles(x: float, y: float) -> None:
    assert kt.Manifold.angle(y, x) == pytest.approx(np.arctan2(y, x), rel=1e-15)


def mounted(node: kt.Node) -> kt.Model:
    builder = kt.Builder().add_body("arm", axis=(0, 1, 0), **SOLID)
    return builder.add_node("n", node, parent="arm", placement=(np.eye(3), (0.1, 0.2, 0.3))).build()


def test_a_telescope_is_a_ball_joint_and_a_slide() -> None:
    robot = mounted(Telescope(**SOLID))
    builder = kt.Builder().add_body("arm", axis=(0, 1, 0), **SOLID)
    builder.add_body("ball", parent="arm", joint="spherical", placement=(np.eye(3), (0.1, 0.2, 0.3)))
    twin = builder.add_body("end", parent="ball", joint="prismatic", axis=(0, 0, 1), **SOLID).build()
    rng = np.random.default_rng(1)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    assert (robot.nq, robot.nv) == (6, 5)
    assert robot.joint("n").type.neutral().tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert robot.mass == pytest.approx(1.6)
    for name in ("inverse_dynamics", "mass_matrix", "energy", "integrate", "tangent_map"):
        given = {"inverse_dynamics": (q, v, a), "energy": (q, v), "integrate": (q, v, 0.1)}.get(name, (q,))
        found, wanted = (getattr(each, name).engine("reference")(*given) for each in (robot, twin))
        assert_close(np.array(found), np.array(wanted), EXACT)


def test_energy_is_kept() -> None:
    """Its rate is the power of the joint forces; the node has springs, and its parent moves."""
    robot = mounted(Swarm(0.5, 0.3, stiffness=20.0))
    rng = np.random.default_rng(2)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    moved = robot.integrate.engine("reference")(q.astype(complex), 1j * H * v)
    rate = sum(np.imag(part) / H for part in robot.energy.engine("reference")(moved, v + 1j * H * a))
    assert_close(rate, v @ robot.inverse_dynamics.engine("reference")(q, v, a), EXACT)


def test_configurations() -> None:
    """Compiled, in batches and pickled, with the same bits; their derivatives are those of complex steps."""
    robot = mounted(Swarm(0.5, 0.3))
    rng = np.random.default_rng(3)
    q, v = robot.random_configuration(rng, (2, 3)), rng.uniform(-1.0, 1.0, (2, 3, robot.nv))
    assert q.shape == (2, 3, 6)
    end = robot.integrate(q, v, 0.7)
    assert np.array_equal(end[1, 2], pickle.loads(pickle.dumps(robot)).integrate(q[1, 2], v[1, 2], 0.7))
    assert_close(robot.difference(q, end), 0.7 * v, EXACT)
    assert_close(robot.normalize(1.5 * q)[..., 1:3], q[..., 1:3], EXACT)
    one, x = q[0, 0], v[0, 0]
    by_q, by_v = robot.dintegrate(one, x, 0.7)
    reference, turns = robot.integrate.engine("reference"), 1j * H * np.eye(robot.nv)
    T = robot.tangent_map(reference(one, x, 0.7))
    assert_close(by_v, T @ np.imag(reference(one.astype(complex), x + turns, 0.7)).T / H, EXACT)
    assert_close(by_q, T @ np.imag(reference(reference(one.astype(complex), turns), x, 0.7)).T / H, EXACT)
    back, forth = robot.ddifference(one, end[0, 0])
    assert_close(forth @ by_v, 0.7 * np.eye(robot.nv), EXACT)
    assert_close(back, -forth @ by_q, EXACT)
    assert robot.q_to_dict(one)["n"].tolist() == one[1:].tolist()
    assert robot.count("integrate").total < 60


class NotBack(Circle):
    def difference(self, q0: Any, q1: Any) -> Any:
        return 1.1 * super().difference(q0, q1)


class NotThere(Shears):
    def difference(self, q0: Any, q1: Any) -> Any:
        return q1 - q0


class Drifting(Circle):
    def normalize(self, q: Any) -> Any:
        return super().normalize(q + np.array([0.0, 0.1]))


class NeverNormal(Circle):
    def normalize(self, q: Any) -> Any:
        return 0.9 * q


class Faster(Circle):
    def rates(self, q: Any, v: Any) -> Any:
        return 2.0 * super().rates(q, v)


class Skewed(Shears):
    def tangent_map(self, q: Any) -> Any:
        return np.eye(3) + 0.0 * q[0]


class Retracted(Shears):
    """Undone by its difference, but not at constant velocity."""

    def integrate(self, q: Any, step: Any) -> Any:
        u, v, w = step
        return np.array([q[0] + u, q[1] + v, q[2] + w + q[0] * v + u * u * v])

    def difference(self, q0: Any, q1: Any) -> Any:
        u, v = q1[0] - q0[0], q1[1] - q0[1]
        return np.array([u, v, q1[2] - q0[2] - q0[0] * v - u * u * v])


class Uneven(kt.Manifold):
    """A flow at constant velocity whose brackets depend on where it is: no group."""

    nq, nv = 2, 2

    def neutral(self) -> Any:
        return np.zeros(2)

    def integrate(self, q: Any, step: Any) -> Any:
        u, v = step
        return np.array([q[0] + u, q[1] + v * (q[0] * q[0] + q[0] * u + u * u / 3.0 + 1.0)])

    def difference(self, q0: Any, q1: Any) -> Any:
        x, u = q0[0], q1[0] - q0[0]
        return np.array([u, (q1[1] - q0[1]) / (x * x + x * u + u * u / 3.0 + 1.0)])


class Rough(Shears):
    def integrate(self, q: Any, step: Any) -> Any:
        return super().integrate(q, step) + 0.0 * np.sqrt(step[0] * step[0])


class Short(Circle):
    def random(self, rng: Any) -> Any:
        return np.ones(3)


class On(kt.Node):
    """Flywheels in a mass, whatever their coordinates."""

    def __init__(self, manifold: kt.Manifold) -> None:
        self.coordinates, self.nv = (manifold,), manifold.nv

    def inertia(self, c: Any, q: Any) -> Any:
        return np.diag([0.0] * 3 + [2.0] * 3 + [1.0] * self.nv) + 0.0 * q[0]


@pytest.mark.parametrize(
    ("manifold", "message"),
    [
        (NotBack(), "breaks the law of difference"),
        (NotThere(), "breaks the law of difference"),
        (Drifting(), "breaks the law of normal form"),
        (NeverNormal(), "breaks the law of normal form"),
        (Faster(), "breaks the law of tangent"),
        (Skewed(), "breaks the law of tangent"),
        (Retracted(), "breaks the law of velocity"),
        (Uneven(), "breaks the law of group"),
        (Rough(), "`rates`, or a derivative in it, has NaN .* a step of zero"),
        (Short(), r"`random` gives an array of shape \(3,\), must be \(2,\)"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, kt.Manifold) else "",
)
def test_broken_laws_are_named(manifold: kt.Manifold, message: str) -> None:
    with pytest.raises(kt.errors.ModelError, match=message):
        kt.check_node(On(manifold))
    with pytest.raises(kt.errors.ModelError, match=rf"node 'n': .*{message}.* check=False"):
        kt.Builder().add_node("n", On(manifold))


def test_laws_hold() -> None:
    for node in (Telescope(**SOLID, stiffness=3.0), Swarm(0.5, 0.3, 2.0), On(Turns())):
        worst = kt.check_node(node)
        assert max(worst.values()) < EXACT
    assert {"difference", "normal form", "tangent", "velocity", "group"} <= set(worst)


class Torqueless(Swarm):
    """A swarm for which Lagrange's equations are used, though its velocities do not commute."""

    def gyroscopic(self, c: Any, q: Any, v: Any, V: Any) -> Any:
        b = super().gyroscopic(c, q, v, V)
        p = (self.inertia(c, q) @ V)[6:]
        turned = np.zeros(4) * V[0]
        turned[1], turned[2] = v[2] * p[3], -v[1] * p[3]
        return np.concatenate([b[:6], b[6:] - turned])


def test_brackets_are_part_of_the_equations_of_motion() -> None:
    with pytest.raises(kt.errors.ModelError, match="breaks the law of (power|Lagrange)"):
        kt.check_node(Torqueless(0.5, 0.3))


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        (("spherical", 2), "coordinates .* have 5 velocities, but nv is 4"),
        (("ball",), "coordinates are a list of kinds of joints .*spherical.* got 'ball'"),
        (("spherical", 1.0), r"got 1\.0"),
        ((-1,), "got -1"),
        ((type("Empty", (Circle,), {"nq": 0})(),), "nq and nv of Empty are numbers, 1 or more; got 0"),
    ],
)
def test_coordinates_that_cannot_be(coordinates: Any, message: str) -> None:
    made = type("Other", (Telescope,), {"coordinates": coordinates})
    with pytest.raises(kt.errors.ModelError, match=message):
        kt.Builder().add_node("n", made(**SOLID))


def test_what_such_nodes_do_not_take() -> None:
    with pytest.raises(kt.errors.ModelError, match="no position limits, because its coordinates are not plain"):
        kt.Builder().add_node("n", Telescope(**SOLID), limits=kt.Limits(lower=-1.0))
    with pytest.raises(kt.errors.ModelError, match=r"q has shape \(4,\), must be \(5,\)"):
        kt.check_node(Telescope(**SOLID), q=np.zeros(4))
    assert max(kt.check_node(Telescope(**SOLID), q=[0.8, 0.0, 0.6, 0.0, 0.3]).values()) < EXACT


def test_equal_formulas_share_code() -> None:
    assert Swarm(0.5, 0.3).kind == Swarm(0.7, 0.2).kind
    assert Telescope(**SOLID).kind.name.startswith("Telescope_")
    other = type(
        "Swarm",
        (Swarm,),
        {"coordinates": (type("Backwards", (Circle,), {"neutral": lambda _: [0.0, 1.0]})(), Shears())},
    )
    assert other(0.5, 0.3).kind != Swarm(0.5, 0.3).kind
