"""Random contact states: what a step calls converged must obey the laws of contact, and no step may add energy.

    python -m tests.fuzz.contacts --states 1000000

Trees of all joints, masses over six decades, friction up to 10, one to eight points, gaps and penetrations. The check
knows nothing of the solver: dense Jacobians and mass matrices, forces and velocities that a step returns.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ConvergenceWarning
from kinetree.simulation.step_results import CONVERGED
from tests.tolerance import EPS
from tests.trees import KINDS, random_inertia, random_rotation, unit

Array = np.ndarray[Any, np.dtype[Any]]

DT = 1e-3
#: Part of a penetration that a step corrects.
RECOVERY = 0.2
#: Largest residual of a sample that says it converged; twice what is promised, for rounding of dense matrices.
ALLOWED = 2.0 * CONVERGED
#: Rounding of residuals.
EXACT = 2e-6
#: What may not happen.
FAULTS = ("unreported", "misreported", "outside of the cone", "forces from nothing", "gains of energy")


class Somewhere(simulation.Shape):
    """Ground of any height and slope below each point of each sample."""

    def __init__(self, friction: float) -> None:
        self.friction = friction
        self.heights, self.normals = np.zeros(0), np.zeros((0, 3))

    def gap(self, points: Any) -> tuple[Array, Array]:
        return self.heights, self.normals


def robot(rng: np.random.Generator, bodies: int) -> kt.Model:
    """A tree of random joints, half of them on a floating base."""
    builder = kt.Builder("fuzz")
    for i in range(bodies):
        kind = "floating" if i == 0 and rng.random() < 0.5 else str(rng.choice(list(KINDS)))
        own: dict[str, Any] = {}
        if kind in ("revolute", "prismatic", "helical", "cylindrical", "planar"):
            own["axis"] = unit(rng)
        if kind == "universal":
            own["axes"] = np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]
        if kind == "helical":
            own["pitch"] = float(rng.uniform(-0.3, 0.3))
        mass = float(10.0 ** rng.uniform(-3.0, 3.0))
        parent = "world" if i == 0 else f"b{rng.integers(i)}"
        placement = random_rotation(rng), rng.uniform(-0.3, 0.3, 3)
        inertia = random_inertia(rng, mass) * 10.0 ** rng.uniform(-2.0, 0.0)
        builder.add_body(f"b{i}", parent=parent, joint=kind, placement=placement, mass=mass, inertia=inertia, **own)
    return builder.build()


def checked(rng: np.random.Generator, states: int, **options: Any) -> dict[str, Any]:
    """Steps of one random robot, with options of the `Simulator`.

    Returns what was counted, with the largest residual called converged, and the largest relative gain of energy.
    """
    model = robot(rng, int(rng.integers(1, 5)))
    count = int(rng.integers(1, 9))
    frames = [f"b{i}" for i in rng.integers(len(model.bodies), size=count)]
    at = rng.uniform(-0.3, 0.3, (count, 3))
    ground = Somewhere(float(rng.choice([0.0, *10.0 ** rng.uniform(-2.0, 1.0, 9)])))
    points = [simulation.Points(frame, p) for frame, p in zip(frames, at, strict=True)]
    world = simulation.Simulator(model, dt=DT, method="semi_implicit_euler", contacts=points, ground=ground, **options)
    q = model.random_configuration(rng, (states,))
    v = rng.standard_normal((states, model.nv)) * 10.0 ** rng.uniform(-2.0, 0.5, (states, 1))
    scale = rng.choice([0.0, -1e-5, -1e-3, 1e-4, 1e-3, 0.1], size=(states, count))
    ground.heights = scale * rng.random((states, count))
    tilted = np.array([0.0, 0.0, 1.0]) + 0.3 * rng.standard_normal((states, count, 3)) * (rng.random() < 0.5)
    ground.normals = n = tilted / np.linalg.norm(tilted, axis=-1, keepdims=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, after, info = world.step(q, v)
    told = [w.message for w in caught if isinstance(w.message, ConvergenceWarning)]
    reported = told[0].samples if told else 0

    # the laws, from dense matrices
    tasks = [kt.Task(frame, "position", tuple(p)) for frame, p in zip(frames, at.tolist(), strict=True)]
    J = model.tasks(tasks, reference="local_world_aligned").jacobian(q).reshape(states, count, 3, model.nv)
    M = model.mass_matrix(q)
    free = v + DT * model.forward_dynamics(q, v, np.zeros(model.nv))
    response = np.linalg.solve(M[:, None], np.swapaxes(J, -1, -2))
    along = np.einsum("bki,bkij,bkjl,bkl->bk", n, J, response, n)
    total = np.einsum("bkij,bkji->bk", J, response)
    least = np.maximum(along, 1e-6 * (total - along))
    m = np.minimum(total, np.maximum(100.0 * along**2 / np.maximum(total, 1e-300), least)) / 3.0
    c = np.where(ground.heights > 0.0, 1.0, RECOVERY) * ground.heights / DT
    u, g = ((J @ rate[:, None, :, None])[..., 0] + c[..., None] * n for rate in (after, free))
    force = info.contact_forces * DT
    off, size = violation(force, u, g, n, ground.friction, m)
    residual = off.max(axis=1) / np.maximum(size.max(axis=1), 1e-300)
    excess = residual / ALLOWED
    # impulses of problems without solution are huge and cancel, which leaves rounding of their size
    huge = (np.linalg.norm(force, axis=-1) * np.sqrt(m)).max(axis=1)
    rounding = 100.0 * count * EPS * huge * np.sqrt(m.max(axis=1) / m.min(axis=1).clip(1e-300))
    told_wrong = np.abs(info.residual - residual) > 1e-4 * residual + EXACT + rounding / size.max(axis=1).clip(1e-300)
    kinetic = [0.5 * np.einsum("bi,bij,bj->b", rate, M, rate) for rate in (free, after)]
    given = np.maximum(-c * (force * n).sum(axis=-1), 0.0).sum(axis=1)
    gained = (kinetic[1] - kinetic[0] - given) / (1e-9 * (kinetic[0] + given) + rounding * huge + 1e-300)
    assert reported == int((~info.converged).sum())
    assert np.isfinite(info.residual).all()
    assert np.isfinite(after).all()
    along = (force * n).sum(axis=-1)
    across = np.linalg.norm(force - along[..., None] * n, axis=-1) - 1e-12 * np.linalg.norm(force, axis=-1)
    nothing = (g * n).sum(axis=-1).min(axis=1) >= 0.0
    return {
        "states": states,
        "contact": int((~nothing).sum()),
        "solved": int((info.converged & ~nothing).sum()),
        "jammed": int((info.jammed & ~info.converged).sum()),
        "unreported": int((info.converged & (excess > 1.0)).sum()),
        "misreported": int(told_wrong.sum()),
        "outside of the cone": int((across > ground.friction * along * (1.0 + 1e-9)).any(axis=1).sum()),
        "forces from nothing": int((np.abs(force[nothing]).max(axis=(1, 2), initial=0.0) > 0.0).sum()),
        "gains of energy": int((gained > 1.0).sum()),
        "largest": float(np.where(info.converged, excess, 0.0).max()) * ALLOWED,
        "largest gain": float(gained.max()) * 1e-9,
    }


def violation(force: Array, u: Array, g: Array, n: Array, mu: Any, m: Array) -> tuple[Array, Array]:
    """By how much contacts miss Signorini's and Coulomb's laws, and the size of it, in roots of energies, (b, k)."""
    p, u, g = force * np.sqrt(m)[..., None], u / np.sqrt(m)[..., None], g / np.sqrt(m)[..., None]
    slip = u - (u * n).sum(axis=-1, keepdims=True) * n
    z = p - u - np.asarray(mu)[..., None] * np.linalg.norm(slip, axis=-1, keepdims=True) * n
    along = (z * n).sum(axis=-1)
    across = z - along[..., None] * n
    t = np.linalg.norm(across, axis=-1)
    edge = np.maximum((mu * t + along) / (1.0 + mu * mu), 0.0)
    onto = edge[..., None] * (n + np.asarray(mu)[..., None] * across / np.maximum(t, 1e-300)[..., None])
    projected = np.where(((t <= mu * along) & (along >= 0.0))[..., None], z, onto)
    off = np.linalg.norm(p - projected, axis=-1)
    size = np.maximum(-(g * n).sum(axis=-1), 1e-6 * np.linalg.norm(g, axis=-1))
    return off, size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=2_000, help="states of each robot")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=None)
    given = parser.parse_args()
    total: dict[str, Any] = {}
    started = time.perf_counter()
    for i in range(-(-given.states // given.each)):
        found = checked(np.random.default_rng([given.seed, i]), given.each, rounds=given.rounds)
        for name, value in found.items():
            total[name] = max(total.get(name, 0.0), value) if "largest" in name else total.get(name, 0) + value
        if any(found[name] for name in FAULTS):
            print(f"seed {[given.seed, i]}: {found}")
    print(total, f"{time.perf_counter() - started:.0f} s")
    return int(any(total[name] for name in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
