"""The solver of contacts on feet, boxes, soles and stacks: the share that it solves, and its cost in sweeps.

A sweep is one of projected Gauss–Seidel through the same compiler, the least that a solver can do with G; calls are not
counted. Part of `make bench`; alone: `python -m benchmarks.contact_solver`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.rollouts import HALF_X, HALF_Y, SOLES, stance
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.kernels.branchless import larger, less
from kinetree.kernels.contact_newton import FACES, FIXED, POINTS, Law, contact_newton
from kinetree.kernels.contact_problem import RECOVERY
from kinetree.runtime.threads import set_threads
from kinetree.spatial.scalar import sqrt

STEP, BATCH, SINGLES, GRAVITY = 1e-3, 512, 64, 9.81
FEW, MANY = 10, 50

Array = np.ndarray[Any, np.dtype[np.float64]]
#: G, g and μ of each contact.
Problems = tuple[Array, Array, Array]


@kt.kernel(
    G=("r", "r"), free=("r",), bounds=("r", 3), impulse=("r",), outputs=("impulse",), sparse=("impulse",),
    lists={"contacts": {"r": 3}}, rounds=("sweeps",),
)  # fmt: skip
def gauss_seidel(k: Any, G: Any, free: Any, bounds: Any, impulse: Any) -> None:
    """Impulses after sweeps of projected Gauss–Seidel, normal first."""
    u, over = k.copy(free, "r"), k.array("r")
    for x, y, n in k.contacts:
        over[x], over[n] = 2.0 / (G[x, x] + G[y, y]), 1.0 / G[n, n]
    for _ in k.sweeps:
        for x, y, n in k.contacts:
            pressed = larger(impulse[n] - over[n] * u[n], 0.0)
            down = pressed - impulse[n]
            ahead, aside = (impulse[t] - over[x] * (u[t] + G[t, n] * down) for t in (x, y))
            size, most = sqrt(ahead * ahead + aside * aside), bounds[n][0] * pressed
            share = less(most, size, most / (size + 1e-300), 1.0)
            dx, dy = share * ahead - impulse[x], share * aside - impulse[y]
            impulse[x], impulse[y], impulse[n] = share * ahead, share * aside, pressed
            for j in k.r:
                u[j] = u[j] + G[n, j] * down + G[x, j] * dx + G[y, j] * dy


def feet(rng: np.random.Generator) -> Problems:
    """ANYmal lands on its feet, and is pushed."""
    robot = robots.load("ANYmal").model
    bent = {"HAA": (0.0, 0.0), "HFE": (0.7, -0.7), "KFE": (-1.4, 1.4)}
    legs = [(side + end, end == "H") for end in "FH" for side in "LR"]
    rest = robot.q_from_dict({f"{leg}_{joint}": by[hind] for leg, hind in legs for joint, by in bent.items()})
    return _simulated(robot, {f"{leg}_FOOT BODY": [(0.0, 0.0, 0.0)] for leg, _ in legs}, rest, 0.05, rng)


def soles(rng: np.random.Generator) -> Problems:
    """Talos lands on the corners of its soles, and is pushed."""
    robot = robots.load("Talos").model
    corners = [(x, y, 0.0) for x in (-HALF_X, HALF_X) for y in (-HALF_Y, HALF_Y)]
    return _simulated(robot, dict.fromkeys(SOLES, corners), stance(robot)[0], 0.01, rng)


def boxes(rng: np.random.Generator) -> Problems:
    """On four corners, pushed as far as friction holds, and by 1e-8 to 0.3 of that less or more."""
    mu = rng.uniform(0.1, 1.0, (BATCH, 1))
    Gs, gs = [], []
    for friction in mu[:, 0]:
        G, J = _stacked([(10.0 ** rng.uniform(-1.0, 2.0), rng.uniform(0.05, 0.3, 3))])
        push = friction * (1.0 + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-8.0, -0.5))
        angle = rng.uniform(-np.pi, np.pi)
        twist = np.r_[
            rng.choice([0.0, 1e-3], 3) * rng.standard_normal(3), push * np.cos(angle), push * np.sin(angle), -1.0
        ]
        Gs.append(G)
        gs.append(J @ (twist * np.r_[np.ones(3), np.full(3, GRAVITY * STEP)]))
    return np.array(Gs), np.array(gs), np.broadcast_to(mu, (BATCH, 4))


def stacks(rng: np.random.Generator) -> Problems:
    """Three boxes on each other, a tenth to ten times as heavy as the one below, pushed aside."""
    Gs, gs = [], []
    for _ in range(BATCH):
        masses = np.cumprod([1.0, *10.0 ** rng.uniform(-1.0, 1.0, 2)])
        G, J = _stacked([(mass, np.array([0.1, 0.1, 0.05])) for mass in masses])
        twist = np.zeros(18)
        twist[5::6] = -GRAVITY * STEP
        twist[15:17] = rng.uniform(-0.7, 0.7, 2) * GRAVITY * STEP
        Gs.append(G)
        gs.append(J @ twist)
    return np.array(Gs), np.array(gs), np.full((BATCH, 12), 0.5)


def _simulated(
    robot: kt.Model, points: dict[str, list[tuple[float, float, float]]], rest: Array, drop: float,
    rng: np.random.Generator,
) -> Problems:  # fmt: skip
    """The problems of robots that land with springs in their joints, every fourth step."""
    many = 16
    stiffness, damping = (np.r_[np.zeros(6), np.full(robot.nv - 6, x)] for x in (1500.0, 20.0))
    frames = list(points)
    positions = np.array(list(points.values()))
    low = robot.pose(rest, frames)[:, 2, 3].min()
    q = np.tile(rest, (many, 1))
    q[:, 2] += drop * rng.random(many) - low
    v = np.zeros((many, robot.nv))
    v[:, :6] = rng.standard_normal((many, 6)) * np.linspace(0.0, 1.0, many)[:, None]
    world = simulation.Simulator(
        robot, dt=STEP, method="semi_implicit_euler", contacts=[simulation.Points(*each) for each in points.items()],
        ground=simulation.Plane(friction=0.7), stiffness=stiffness, damping=damping, rest=rest,
    )  # fmt: skip
    states = []
    for step in range(4 * BATCH // many):
        push = np.zeros((many, robot.nv))
        push[:, :6] = 50.0 * rng.standard_normal((many, 6))
        if step % 4 == 3:
            states.append((q, v, push - damping * v - stiffness * robot.difference(rest, q)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            q, v, _ = world.step(q, v, push)
    q, v, tau = (np.concatenate(each) for each in zip(*states, strict=True))
    T = robot.pose(q, frames)
    arms = np.einsum("bfij,fpj->bfpi", T[..., :3, :3], positions)
    at = arms + T[..., None, :3, 3]
    J = robot.jacobian(q, frames, "local_world_aligned")[:, :, None]
    cross = np.einsum("bfpi,ijk->bfpkj", arms, _LEVI_CIVITA)
    J = (J[..., 3:, :] + cross @ J[..., :3, :]).reshape(BATCH, -1, robot.nv)
    g = np.einsum("bij,bj->bi", J, v + STEP * robot.forward_dynamics(q, v, tau))
    heights = at[..., 2].reshape(BATCH, -1)
    g[:, 2::3] += np.where(heights > 0.0, heights, RECOVERY * heights) / STEP
    G = J @ np.linalg.solve(robot.mass_matrix(q), np.swapaxes(J, -1, -2))
    return G, g, np.full(heights.shape, 0.7)


_LEVI_CIVITA = np.zeros((3, 3, 3))
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _LEVI_CIVITA[_i, _j, _k], _LEVI_CIVITA[_i, _k, _j] = 1.0, -1.0


def _stacked(parts: list[tuple[float, Array]]) -> tuple[Array, Array]:
    """G, and velocities of the contacts per twist of each box, (mass, half edges), from below."""
    J, inverse, count = [], [], 6 * len(parts)
    for i, (mass, half) in enumerate(parts):
        x, y, z = half
        inverse += [*(3.0 / mass / np.array([y * y + z * z, x * x + z * z, x * x + y * y])), *[1.0 / mass] * 3]
        for a, b in ((-x, -y), (-x, y), (x, -y), (x, y)):
            rows = np.zeros((3, count))
            rows[:, 6 * i : 6 * i + 6] = _rows(np.array([a, b, -z]))
            if i:
                rows[:, 6 * i - 6 : 6 * i] -= _rows(np.array([a, b, parts[i - 1][1][2]]))
            J.append(rows)
    found = np.concatenate(J)
    return found @ (np.array(inverse)[:, None] * found.T), found


def _rows(arm: Array) -> Array:
    return np.hstack([np.einsum("i,ijk->kj", arm, _LEVI_CIVITA), np.eye(3)])


FAMILIES: dict[str, tuple[Callable[[np.random.Generator], Problems], Law, int]] = {
    "feet of ANYmal": (feet, POINTS, 13),
    "boxes near the limit of friction": (boxes, FACES, 31),
    "soles of Talos": (soles, FACES, 31),
    "three boxes on each other": (stacks, FACES, 31),
}


def table(seconds: float) -> Table:
    """All families.

    Args:
        seconds: How long to go on for each contender.
    """
    columns = ["512 problems", "contacts", "solved to 1e-10", "rigid to 1e-10", "to 1e-4", "single", "in sweeps"]
    found = Table("solver of contacts, and its cost in sweeps of Gauss–Seidel", [*columns, f"of {BATCH}", "in sweeps "])
    for name, (made, law, rounds) in FAMILIES.items():
        G, g, mu = made(np.random.default_rng(0))
        count = mu.shape[1]
        bounds = np.zeros((*g.shape, 3))
        bounds[..., 0] = np.repeat(mu, 3, axis=-1)
        lists = {"contacts": [(3 * i,) for i in range(count)]}
        solve = kt.compiled(contact_newton, r=3 * count, rounds=rounds, joints=[], **FIXED, **lists)
        sweeps = {n: kt.compiled(gauss_seidel, r=3 * count, sweeps=n, **lists) for n in (FEW, MANY)}
        given = (G, g, bounds)
        _, _, report = solve(*given, np.array(law))
        cells = [
            f"{100 * np.mean(part):.1f} %"
            for part in (report[:, 0] <= 1e-10, report[:, 1] <= 1e-10, report[:, 1] <= 1e-4)
        ]
        for pool, samples in (
            ([tuple(x[i] for x in given) for i in range(0, BATCH, BATCH // SINGLES)], 1),
            ([given], BATCH),
        ):
            contenders: dict[str, Any] = {str(n): (f, pool) for n, f in sweeps.items()}
            contenders["solver"] = solve, [(*each, np.array(law)) for each in pool]
            times = race(contenders, seconds)
            sweep = (times[str(MANY)] - times[str(FEW)]) / (MANY - FEW)
            call = times[str(FEW)] - FEW * sweep
            cells += [f"{times['solver'] / samples * 1e6:.3g} µs", f"{(times['solver'] - call) / sweep:.0f}"]
        found.add(name, str(count), *cells)
    return found


if __name__ == "__main__":
    pin_to_one_core()
    set_threads(1)
    Console(width=140).print(table(1.0).rich())
