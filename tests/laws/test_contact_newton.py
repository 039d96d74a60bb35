"""Newton's method for contacts: against searches by brute force, symmetries, forces that are known, limits, jams.

Problems are stated by dense matrices of bodies, as G, g and μ. What is solved is checked by `tests.fuzz.contacts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.kernels.contact_newton import FACES, POINTS, Law
from kinetree.simulation.contacts import Solver
from tests.fuzz.contacts import violation
from tests.laws.test_contact import CORNERS, MU, START, world
from tests.laws.test_contact_solver import newton
from tests.tolerance import Array, assert_near, peak

GRAVITY = 9.81


def solved(G: Array, g: Array, mu: Any, law: Law = FACES, rounds: int = 31) -> tuple[Array, Array, Array]:
    """Impulses and velocities, (…, k, 3), and the report, for problems (…, 3 k)."""
    count = g.shape[-1] // 3
    bounds = np.zeros((*g.shape, 3))
    bounds[..., 0] = np.repeat(np.broadcast_to(mu, (*g.shape[:-1], count)), 3, axis=-1)
    p, u, report = newton(count, 0, rounds)(G, g, bounds, np.array(law))
    return p.reshape(*p.shape[:-1], count, 3), u.reshape(*u.shape[:-1], count, 3), report


def rows(at: Any) -> Array:
    """Velocities of points, along x, y and z, per twist of the body that they are on, angular part first."""
    x, y, z = np.moveaxis(np.asarray(at, dtype=float), -1, 0)
    zero, one = np.zeros_like(x), np.ones_like(x)
    lines = [(zero, z, -y, one, zero, zero), (-z, zero, x, zero, one, zero), (y, -x, zero, zero, zero, one)]
    J = np.stack([np.stack(line, axis=-1) for line in lines], axis=-2)
    return J.reshape(*J.shape[:-3], -1, 6)


def body(mass: float, inertia: Any) -> Array:
    """The inverse of a mass matrix."""
    return np.linalg.inv(np.block([[np.diag(inertia), np.zeros((3, 3))], [np.zeros((3, 3)), mass * np.eye(3)]]))


def plate(mass: float, half: tuple[float, float, float]) -> tuple[Array, Array]:
    """The inverse mass matrix of a box, and its four lower corners."""
    x, y, z = half
    inertia = mass / 3.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    return body(mass, inertia), np.array([(a * x, b * y, -z) for a in (-1, 1) for b in (-1, 1)])


def known(G: Array, g: Array, mu: float) -> list[Array]:
    """All solutions of one contact, by a search over all directions of sliding."""
    if g[2] >= 0.0:
        return [np.zeros(3)]
    found, stuck = [], -np.linalg.solve(G, g)
    if np.hypot(*stuck[:2]) <= mu * stuck[2]:
        found.append(stuck)

    def slides(angle: Any) -> tuple[Any, Any]:
        t = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=-1)
        push = mu * t + np.array([0.0, 0.0, 1.0])
        below = push @ G[2]
        normal = -g[2] / np.where(np.abs(below) > 1e-12, below, 1e-12)
        impulse = normal[..., None] * push
        u = impulse @ G + g
        return impulse, np.cross(t, u)[..., 2]

    angles = np.linspace(0.0, 2.0 * np.pi, 20001)
    impulse, turn = slides(angles)
    for i in np.flatnonzero(turn[:-1] * turn[1:] <= 0.0):
        low, high = angles[i], angles[i + 1]
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slides(middle)[1] * slides(low)[1] > 0.0 else (low, middle)
        impulse, turn = slides(0.5 * (low + high))
        against = (impulse @ G + g)[:2] @ impulse[:2]
        if impulse[2] > 0.0 and against <= 0.0 and abs(turn) < 1e-6 * np.linalg.norm(g):
            found.append(impulse)
    return found


@pytest.mark.parametrize("needle", [1.0, 1e-3])
@pytest.mark.parametrize("law", [POINTS, FACES])
def test_one_contact_is_one_of_all_its_solutions(law: Law, needle: float) -> None:
    """Also of needles, and with friction up to 10; whatever the number of rounds."""
    rng = np.random.default_rng(1)
    several = 0
    for _ in range(60):
        J = rows(rng.uniform(-0.5, 0.5, 3))
        G = J @ body(1.0, np.array([1.0, 1.0 - 0.5 * needle, needle]) * 0.05) @ J.T
        g, mu = rng.standard_normal(3), 10.0 ** rng.uniform(-1.0, 1.0)
        p, _, report = solved(G, g, mu, law)
        choices = known(G, g, mu)
        several += len(choices) > 1
        assert min(peak(p[0] - choice) for choice in choices) < 1e-5 * (1e-3 + peak(choices[0])), (g, mu)
        assert report[0] < 1e-10
        np.testing.assert_allclose(solved(G, g, mu, law, 40)[0], p, rtol=1e-12)
    assert several < 10


def quadrupeds(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """Feet on legs of a trunk: each has a mobility of its own, and that of the trunk."""
    at = np.array([(x, y, -0.5) for x in (-0.3, 0.3) for y in (-0.2, 0.2)]) + 0.1 * rng.standard_normal((count, 4, 3))
    J = rows(at)
    G = J @ body(20.0, (0.5, 1.0, 1.2)) @ np.swapaxes(J, -1, -2)
    legs = np.linalg.qr(rng.standard_normal((count, 4, 3, 3)))[0] * 10.0 ** rng.uniform(-1.5, 0.0, (count, 4, 1, 3))
    for i in range(4):
        own = slice(3 * i, 3 * i + 3)
        G[:, own, own] += legs[:, i] @ np.swapaxes(legs[:, i], -1, -2)
    g = rng.standard_normal((count, 12)) * 10.0 ** rng.uniform(-2.0, 0.0, (count, 1))
    return G, g, rng.uniform(0.3, 2.0, (count, 1))


def boxes(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """On four corners, pushed at and around the limit of friction, spinning, and tilted a little."""
    Gs, gs = [], []
    mu = rng.uniform(0.1, 1.0, count)
    for friction in mu:
        inverse, corners = plate(10.0 ** rng.uniform(-1.0, 2.0), tuple(rng.uniform(0.05, 0.3, 3)))
        J = rows(corners)
        off = 10.0 ** rng.uniform(-8.0, -0.5) * rng.choice([-1.0, 1.0])
        angle = rng.uniform(-np.pi, np.pi)
        push = GRAVITY * 1e-3 * friction * (1.0 + off)
        twist = np.array([0.0, 0.0, 0.0, push * np.cos(angle), push * np.sin(angle), -GRAVITY * 1e-3])
        twist[:3] = rng.choice([0.0, 1e-3]) * rng.standard_normal(3)
        Gs.append(J @ inverse @ J.T)
        gs.append(J @ twist + rng.choice([0.0, 1e-4]) * np.tile([0.0, 0.0, 1.0], 4) * rng.random(12))
    return np.array(Gs), np.array(gs), mu[:, None]


def rods(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """Slim ones that hit the ground with both ends."""
    tilt = rng.uniform(-0.05, 0.05, count)
    along = np.stack([np.cos(tilt), 0.0 * tilt, np.sin(tilt)], axis=-1)
    J = rows(np.stack([-0.5 * along, 0.5 * along], axis=1))
    G = J @ body(1.0, (1e-3, 0.083, 0.083)) @ np.swapaxes(J, -1, -2)
    twist = rng.standard_normal((count, 6)) * [1.0, 1.0, 1.0, 1.0, 1.0, 0.3] - [0, 0, 0, 0, 0, 1.0]
    return G, (J @ twist[..., None])[..., 0], rng.uniform(0.1, 2.0, (count, 1))


def stack(masses: list[float]) -> tuple[Array, Array]:
    """G and g of boxes on each other, on the ground, each with four corners; from below."""
    inverses, contacts = [], []
    for i, mass in enumerate(masses):
        inverse, corners = plate(mass, (0.1, 0.1, 0.05))
        inverses.append(inverse)
        J = np.zeros((12, 6 * len(masses)))
        J[:, 6 * i : 6 * i + 6] = rows(corners)
        if i:
            J[:, 6 * i - 6 : 6 * i] -= rows(corners + np.array([0.0, 0.0, 0.1]))
        contacts.append(J)
    J = np.concatenate(contacts)
    Minv = np.zeros((J.shape[1],) * 2)
    for i, inverse in enumerate(inverses):
        Minv[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = inverse
    falling = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, -GRAVITY * 1e-3], len(masses))
    return J @ Minv @ J.T, J @ falling


FAMILIES: dict[str, tuple[Any, Law, float, float]] = {
    "quadrupeds": (quadrupeds, POINTS, 1.0, 1.0),
    "quadrupeds as faces": (quadrupeds, FACES, 1.0, 0.998),
    "boxes": (boxes, FACES, 1.0, 0.95),
    "rods": (rods, FACES, 1.0, 0.98),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_share_of_problems_that_are_solved(name: str) -> None:
    """To 1e-10 of the law with compliance, and of the rigid law by a check of its own; none of them jams."""
    made, law, share, rigid = FAMILIES[name]
    G, g, mu = made(np.random.default_rng(7), 1000)
    p, u, report = solved(G, g, mu, law)
    assert float(np.mean(report[:, 0] <= 1e-10)) >= share
    assert float(np.mean(report[:, 1] <= 1e-10)) >= rigid
    assert not report[:, 2].any()
    count = g.shape[1] // 3
    m = np.einsum("bii->bi", G).reshape(-1, count, 3).mean(axis=-1)
    up = np.broadcast_to([0.0, 0.0, 1.0], p.shape)
    off, size = violation(p, u, g.reshape(p.shape), up, np.broadcast_to(mu, m.shape), m)
    found = off.max(axis=1) / np.maximum(size.max(axis=1), 1e-300)
    np.testing.assert_allclose(report[:, 1], found, rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(
        u.reshape(g.shape), np.einsum("bij,bj->bi", G, p.reshape(g.shape)) + g, rtol=1e-9, atol=1e-9
    )


def test_joints_that_rub_and_stop_and_press_limbs_against_the_ground() -> None:
    """Newton's steps alone cycle on some of these: they are solved by proximal steps."""
    rng, contacts, joints, count = np.random.default_rng(3), 6, 10, 1000
    n = 6 + joints
    roots = 0.3 * np.tril(rng.standard_normal((count, n, n)), -1)
    roots += 10.0 ** rng.uniform(-0.5, 1.0, (count, n, 1)) * np.eye(n)
    J = rng.standard_normal((count, contacts, 3, n))
    J[:, 3:] = J[:, :3] + 0.1 * rng.standard_normal((count, 3, 3, n))  # neighbours on the same limb
    A = np.concatenate([J.reshape(count, -1, n), np.tile(np.eye(n)[6:], (count, 1, 1))], axis=1)
    G = A @ roots @ np.swapaxes(A @ roots, -1, -2)
    v = rng.standard_normal((count, n, 1)) * 10.0 ** rng.uniform(-2.0, 0.0, (count, 1, 1))
    g = (A @ v)[..., 0]
    g[:, 2:18:3] -= rng.uniform(0.0, 0.1, (count, 1))
    mobility = np.einsum("bii->bi", G)[:, 18:]
    dry = rng.choice([0.01, 0.1, 1.0], (count, joints)) * np.abs(v[:, 6:, 0]).max(axis=1, keepdims=True) / mobility
    near = np.where(rng.random((count, joints)) < 0.4, 0.01 * rng.random((count, joints)), np.inf)
    bounds = np.zeros((count, len(g[0]), 3))
    bounds[:, :18, 0] = rng.uniform(0.3, 1.2, (count, 1))
    bounds[:, 18:] = np.stack([dry, -near, near], axis=-1)
    function, law = Solver().bound(False, contacts, joints)
    report = function.bound()(G, g, bounds, law)[2]
    assert float(np.mean(report[:, 0] <= 1e-10)) >= 0.999
    assert float(np.mean(report[:, 1] <= 1e-4)) >= 0.996


def test_feet_between_the_ground_and_a_wall() -> None:
    """A quadruped walks into a stair: what holds a foot from two sides lets steps cycle on a few of these."""
    rng, count, turn = np.random.default_rng(0), 20000, np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    at = np.array([(x, y, -0.5) for x in (-0.3, 0.3) for y in (-0.2, 0.2)]) + 0.1 * rng.standard_normal((count, 4, 3))
    at = np.concatenate([at, at[:, 3:] + [0.03, 0.0, 0.03]], axis=1)
    legs = np.linalg.qr(rng.standard_normal((count, 4, 3, 3)))[0] * 10.0 ** rng.uniform(-1.5, 0.0, (count, 4, 1, 3))
    J = np.zeros((count, 5, 3, 18))
    J[..., :6] = rows(at).reshape(count, 5, 3, 6)
    for i in range(4):
        J[:, i, :, 6 + 3 * i : 9 + 3 * i] = legs[:, i]
    ankle = 0.1 * rng.standard_normal((count, 3, 3)) * np.abs(legs[:, 3]).max(axis=(1, 2))[:, None, None]
    J[:, 4, :, 15:] = legs[:, 3] + ankle
    J[:, 4] = turn @ J[:, 4]
    J = J.reshape(count, 15, 18)
    v = rng.standard_normal((count, 18)) * 10.0 ** rng.uniform(-2.0, 0.0, (count, 1))
    v[:, 5] -= 0.3 * np.abs(v).max(axis=1)
    v[:, 3] += 0.5 * np.abs(v).max(axis=1)
    half = np.concatenate([J[..., :6] @ np.linalg.cholesky(body(20.0, (0.5, 1.0, 1.2))), J[..., 6:]], axis=-1)
    mu = rng.uniform(0.7, 1.0, (count, 1))
    _, _, report = solved(half @ np.swapaxes(half, -1, -2), (J @ v[..., None])[..., 0], mu)
    assert np.sum(report[:, 0] > 1e-10) <= 1
    assert np.sum(report[:, 1] > 1e-4) <= 10


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_drawn_otherwise_has_the_same_forces(name: str) -> None:
    """Contacts in another order, mirrored, with turned tangents, in other units, and with a slot that is far away."""
    made, law, *_ = FAMILIES[name]
    G, g, mu = made(np.random.default_rng(8), 100)
    count = g.shape[1] // 3
    mu = np.broadcast_to(mu, (100, count))
    p, u, report = solved(G, g, mu, law)

    def same(forces: Array, velocities: Array, other: Array, many: int = 0) -> None:
        sure = np.maximum(report[:, 1], other[:, 1]) <= 1e-9
        assert sure.sum() > 90
        close = np.abs(forces - p).max(axis=(1, 2)) <= 1e-6 * np.abs(p).max(axis=(1, 2)) + 1e-12
        near = np.abs(velocities - u).max(axis=(1, 2)) <= 1e-8 * np.abs(g).max(axis=1)
        assert (~close & sure).sum() <= many
        assert (~near & sure).sum() <= many

    order = np.random.default_rng(2).permutation(count)
    at = (3 * order[:, None] + np.arange(3)).ravel()
    moved, moving, other = solved(G[:, at][:, :, at], g[:, at], mu[:, order], law)
    same(moved[:, np.argsort(order)], moving[:, np.argsort(order)], other, 1)  # rods may have several solutions

    for turn in (np.diag([-1.0, 1.0, 1.0]), np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])):
        R = np.kron(np.eye(count), turn)
        moved, moving, other = solved(R @ G @ R.T, g @ R.T, mu, law)
        same(moved @ turn, moving @ turn, other, 1)

    moved, moving, other = solved(1e3 * G, 20.0 * g, mu, law)
    same(50.0 * moved, moving / 20.0, other)

    wide = np.zeros((100, G.shape[1] + 3, G.shape[1] + 3))
    wide[:, :-3, :-3], wide[:, -3:, -3:] = G, G[:, :3, :3]
    far = np.concatenate([g, np.tile([0.1, 0.2, 300.0], (100, 1))], axis=1)
    moved, moving, other = solved(wide, far, np.concatenate([mu, mu[:, :1]], axis=1), law)
    assert not moved[:, -1].any()
    same(moved[:, :-1], moving[:, :-1], other)


def test_points_of_a_plate_share_as_least_squares_say() -> None:
    """With more points than a body has degrees of freedom: the smallest forces, in the scale of each contact."""
    rng = np.random.default_rng(3)
    inverse = body(2.0, (0.02, 0.03, 0.05))
    at = np.concatenate([rng.uniform(-0.3, 0.3, (7, 2)), np.zeros((7, 1))], axis=1)
    J = rows(at)
    G = J @ inverse @ J.T
    twist = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -GRAVITY * 1e-3])
    p, u, report = solved(G, J @ twist, 50.0)
    assert report[1] < 1e-10
    assert peak(u) < 1e-11
    scale = np.repeat(np.sqrt(3.0 / np.diag(G).reshape(7, 3).sum(axis=1)), 3)
    wrench = -np.linalg.solve(inverse, twist)
    expected = scale * np.linalg.lstsq((J.T * scale), wrench, rcond=None)[0]
    assert expected.reshape(7, 3)[:, 2].min() > 0.0
    np.testing.assert_allclose(p.ravel(), expected, rtol=1e-6, atol=1e-9)
    assert p[:, 2].sum() == pytest.approx(2.0 * GRAVITY * 1e-3, rel=1e-9)


@pytest.mark.parametrize("masses", [[1.0, 1.0, 1.0], [1.0, 1.0, 10.0], [100.0, 10.0, 1.0], [1.0, 30.0]])
def test_stacks_carry_what_is_above(masses: list[float]) -> None:
    """Each corner a quarter of it, and nothing moves."""
    G, g = stack(masses)
    p, u, report = solved(G, g, 0.5)
    weight = GRAVITY * 1e-3 * np.cumsum(masses[::-1])[::-1]
    np.testing.assert_allclose(p[:, 2].reshape(-1, 4), np.tile(weight[:, None] / 4.0, 4), rtol=1e-6)
    assert peak(u) < 1e-9
    assert report[1] < 1e-6
    assert report[2] == 0.0


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 5, 6, 7])
def test_a_box_at_the_limit_of_friction(digits: int) -> None:
    """A push that is too weak by so many digits does not move it, one too strong does, with what is left of it."""
    floor = world(method="semi_implicit_euler")
    limit, share = MU * GRAVITY, 10.0**-digits
    for angle in (0.0, 0.4, 1.0):
        push = np.array([0.0, 0.0, 0.0, np.cos(angle), np.sin(angle), 0.0])
        held = floor.step(START, np.zeros(6), limit * (1.0 - share) * push)
        assert peak(held[1]) < 1e-3 * share * limit * 1e-3 + 1e-13
        slid = floor.step(START, np.zeros(6), limit * (1.0 + share) * push)
        expected = share * limit * 1e-3 * push
        assert_near(slid[1], expected, 1e-3 * share * limit * 1e-3 + 1e-12)
        assert max(held[2].residual, slid[2].residual) < 1e-9


@pytest.mark.parametrize("off", [-1e-3, 1e-3])
def test_a_second_on_a_slope_at_the_angle_of_friction(off: float) -> None:
    """It stays, or slides by what Euler's steps add up to, to all digits."""
    angle = np.arctan(MU) + off
    path = world(float(np.degrees(angle)), method="semi_implicit_euler").rollout(START, np.zeros(6), steps=1000)
    a = max(0.0, GRAVITY * (np.sin(angle) - MU * np.cos(angle)))
    assert float(path.v[-1, 3]) == pytest.approx(a, rel=1e-9, abs=1e-12)
    assert float(path.q[-1, 0]) == pytest.approx(a * 1e-3 * 1e-3 * 1000 * 1001 / 2.0, rel=1e-9, abs=1e-12)
    assert peak(path.residual) < 1e-9


@pytest.mark.parametrize("share", [0.9999, 1.0001, 95.0])
def test_a_rod_that_two_fingers_hold(share: float) -> None:
    """Fingers push its ends together, with a share of the force whose friction carries it. It stays level, or falls."""
    mu, mass, dt = 0.6, 0.5, 1e-3
    builder = kt.Builder("rod").add_body("rod", joint="floating", mass=mass, inertia=np.diag([1e-4, 4e-3, 4e-3]))
    ends = [(x, y, z) for x in (-0.15, 0.15) for y in (-0.01, 0.01) for z in (-0.01, 0.01)]
    J = rows(ends)
    robot, force = builder.build(), share * mass * GRAVITY / (2.0 * mu)
    M = robot.mass_matrix(robot.neutral())
    # pads at both ends are bodies that slide along x only
    pads = np.zeros((24, 2))
    pads[:12:3, 0] = pads[12::3, 1] = -1.0
    whole = np.concatenate([J, pads], axis=1)
    Minv = np.zeros((8, 8))
    Minv[:6, :6], Minv[6, 6], Minv[7, 7] = np.linalg.inv(M), 10.0, 10.0
    turn = np.concatenate(
        [np.tile([[0, 1, 0], [0, 0, 1], [1, 0, 0]], (4, 1, 1)), np.tile([[0, -1, 0], [0, 0, 1], [-1, 0, 0]], (4, 1, 1))]
    )
    R = np.zeros((24, 24))
    for i, each in enumerate(turn):
        R[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = each
    free = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -GRAVITY * dt, 10.0 * force * dt, -10.0 * force * dt])
    p, u, report = solved(R @ whole @ Minv @ whole.T @ R.T, R @ whole @ free, mu)
    after = free + Minv @ whole.T @ R.T @ p.ravel()
    falls = max(0.0, 1.0 - share) * GRAVITY * dt
    assert_near(after[:6], [0.0, 0.0, 0.0, 0.0, 0.0, -falls], 1e-9)
    assert report[1] < 1e-6
    if share > 1.0:
        lifted = (R.T @ p.ravel()).reshape(8, 3)[:, 2]
        np.testing.assert_allclose(lifted, mass * GRAVITY * dt / 8.0, rtol=1e-6)
        assert peak(u) < 1e-9


def between(gap: float, **options: Any) -> simulation.Simulator:
    """A box of 0.2 m between two walls."""
    corners = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.05, 0.05)]
    walls = [simulation.Plane((1.0, 0.0, 0.0), -0.5 * gap), simulation.Plane((-1.0, 0.0, 0.0), -0.5 * gap)]
    return simulation.Simulator(
        kt.zoo.box((0.2, 0.2, 0.1), 1.0), contacts=[simulation.Points("box", corners)], ground=walls, **options
    )


def test_a_slot_that_is_too_narrow_jams() -> None:
    """It is told, of these samples alone; the box stays in the middle; with room, it falls."""
    q = np.tile(START, (3, 1))
    with pytest.warns(ConvergenceWarning, match="step: contacts did not converge: residual 1"):
        _, v, info = between(0.19).step(START, np.zeros(6))
    assert info.jammed
    assert abs(v[3]) < 1e-9
    assert np.isfinite(info.contact_forces).all()
    wide = between(0.21).step(q, [[0, 0, 0, 0, 0, 0], [0, 0, 0, 30.0, 0, 0], [0, 0, 1.0, 0.5, 0, 0]])[2]
    assert not wide.jammed.any()
    assert peak(wide.residual) < 1e-4


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("friction", [0.2, 0.4, 0.6, 2.0])
def test_a_wedge_jams_above_the_slope_of_its_way(friction: float) -> None:
    """A point below the ground on a rail that leaves it at a slope of 0.5: friction above that presses it down."""
    builder = kt.Builder("rail", gravity=(0.0, 0.0, 0.0))
    builder.add_body("sled", joint="prismatic", axis=(1.0, 0.0, 0.5), mass=1.0, inertia=np.eye(3))
    ground = simulation.Plane(friction=friction)
    sled = simulation.Simulator(builder.build(), contacts=[simulation.Points("sled", (0.0, 0.0, -0.01))], ground=ground)
    _, v, info = sled.step([0.0], [0.0])
    assert bool(info.jammed) == (friction > 0.5)
    assert bool(info.converged) == (friction < 0.5)
    assert np.isfinite(v).all()
    assert not sled.step([0.1], [0.0])[2].jammed
    assert not sled.step([[0.1], [-0.1]], [[0.0], [5.0]])[2].jammed[0]


@pytest.mark.parametrize("law", [POINTS, FACES])
def test_rails_jam_where_friction_exceeds_their_slope(law: Law) -> None:
    """Points below the ground that move along a line only: those, and no others, have no solution."""
    rng = np.random.default_rng(0)
    d = rng.standard_normal((200, 3))
    d[:, 2] = np.abs(d[:, 2])
    g, mu = np.zeros((200, 3)), rng.uniform(0.0, 3.0, (200, 1))
    g[:, 2] = -(10.0 ** rng.uniform(-3.0, 1.0, 200))
    p, u, report = solved(d[:, :, None] * d[:, None, :], g, mu, law)
    np.testing.assert_array_equal(report[:, 2] > 0.5, np.hypot(d[:, 0], d[:, 1]) * mu[:, 0] > d[:, 2])
    assert peak(report[:, 0]) < 1e-10
    assert np.isfinite(p).all()
    assert np.isfinite(u).all()


def test_what_a_centring_leaves_unsolved_goes_back() -> None:
    """Rounds that are too few for all centrings still solve what was there before; and what creeps is no jam."""
    G, g, mu = boxes(np.random.default_rng(7), 400)
    _, _, report = solved(G, g, mu, FACES, 10)
    assert float(np.mean(report[:, 0] <= 1e-10)) > 0.86
    assert float(np.mean(report[:, 1] <= 1e-6)) > 0.7
    rng = np.random.default_rng(1)
    stacks = [stack(list(10.0 ** rng.uniform(-2.0, 2.0, 3))) for _ in range(100)]
    g = np.array([each for _, each in stacks])
    g[:, 24::3] += 0.3 * GRAVITY * 1e-3
    _, _, report = solved(np.array([each for each, _ in stacks]), g, 0.5, FACES, 6)
    assert float(np.mean(report[:, 0] <= 1e-10)) > 0.99
    assert (report[:, 1] > 1e-2).sum() > 2
    assert not report[:, 2].any()


@pytest.mark.parametrize("law", [POINTS, FACES])
def test_impulses_of_unsolved_boxes_add_no_energy(law: Law) -> None:
    G, g, mu = boxes(np.random.default_rng(5), 300)
    p, u, report = (x.reshape(300, -1) for x in solved(G, g, mu, law, 1))
    work, kept = (p * g).sum(axis=-1), (p * (u - g)).sum(axis=-1)
    assert (report[:, 0] > 1e-10).sum() > 100
    assert (kept <= -1.1 * work * (1.0 + 1e-9) + 1e-12).all()


def test_a_pivot_that_vanishes() -> None:
    """Friction that lifts exactly as much as the compliant contact presses: the first step divides by zero."""
    epsilon = 2.0**-13
    G, g, mu = np.array([[1.0, 0.0, -0.5], [0.0, 1.0, 0.0], [-0.5, 0.0, 1.0]]), np.array([-10.0, 0.0, -0.01]), 2.0
    p, _, report = solved(G, g, mu * (1.0 + epsilon), FACES._replace(epsilon=epsilon))
    assert_near(p[0], -np.linalg.solve(G, g), 1e-9)
    assert report[0] < 1e-10


def test_contacts_that_cannot_move_take_no_impulse() -> None:
    """Whatever they approach with; beside others, which do."""
    G, g = np.zeros((6, 6)), np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])
    G[3:, 3:] = np.eye(3)
    p, u, report = solved(G, g, 0.5)
    np.testing.assert_array_equal(p[0], 0.0)
    np.testing.assert_array_equal(u[0], g[:3])
    assert_near(p[1, 2], 0.3, 1e-9)
    assert report[0] < 1e-10


def test_what_is_beside_does_not_matter() -> None:
    """Boxes in a batch, one of which is NaN, one far away, some hard: the same bits alone, in any order."""
    floor = world(20.0)
    rng = np.random.default_rng(4)
    q, v = np.tile(START, (19, 1)), rng.standard_normal((19, 6)) * 10.0 ** rng.uniform(-6.0, 0.5, (19, 1))
    q[5], v[11], q[7, 2] = np.nan, np.nan, 3.0
    together = floor.step(q, v)
    order = rng.permutation(19)
    turned = floor.step(q[order], v[order])
    for field in ("contact_forces", "residual", "jammed", "penetration"):
        np.testing.assert_array_equal(getattr(turned[2], field), getattr(together[2], field)[order])
    for i in range(19):
        alone = floor.step(q[i], v[i])
        np.testing.assert_array_equal(alone[1], together[1][i])
        np.testing.assert_array_equal(alone[2].residual, together[2].residual[i])
    assert np.isnan(together[2].residual[[5, 11]]).all()
    assert np.isfinite(np.delete(together[1], [5, 11], axis=0)).all()


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
def test_centrings_take_creep_away() -> None:
    """Without, a box on a slope creeps by about a micrometre a second; with them, by none. Compliance scales it."""
    speeds = {}
    for name, options in {"none": {"centrings": 0}, "soft": {"centrings": 0, "compliance": 1e-3}, "six": {}}.items():
        floor = world(20.0, **options)
        v = floor.step(START, np.zeros(6))[1]
        speeds[name] = peak(v)
    assert speeds["six"] < 1e-13
    assert 1e-8 < speeds["none"] < 5e-6
    assert speeds["soft"] == pytest.approx(10.0 * speeds["none"], rel=0.01)


def test_each_corner_carries_a_quarter() -> None:
    """Whatever the box did before."""
    floor = world()
    for speed in (0.0, 1.0):
        q, v = START, np.array([0.0, 0.0, 0.0, speed, 0.0, 0.0])
        for _ in range(300):
            q, v, info = floor.step(q, v)
        assert peak(v) < 1e-11
        np.testing.assert_allclose(
            info.contact_forces, np.tile([0.0, 0.0, GRAVITY / 4.0], (4, 1)), rtol=1e-7, atol=1e-7
        )
    assert len(CORNERS) == 4
