"""Control by samples: roll-outs of noisy inputs, and a better mean of them. For costs without derivatives.

    MPPI   ū ← Σ w u,   w ∝ exp(−(J − min J) / temperature)                                                    [W17]
    CEM    ū, σ ← mean and deviation of the best samples                                                      [R99]

[W17] G. Williams, A. Aldrich, E. Theodorou, "Model predictive path integral control", Journal of Guidance, Control, and
      Dynamics 40, 2017.
[R99] R. Rubinstein, "The cross-entropy method for combinatorial and continuous optimization", 1999.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import ConvergenceError, InputError, UnknownNameError
from kinetree.runtime import arguments
from kinetree.spatial.value import Array

_METHODS = ("mppi", "cem")


class Sampled(NamedTuple):
    """Result of `sample`.

    Attributes:
        u: The new mean, (T, nv).
        noise: The deviation for the next call, (T, nv): given to MPPI, found by CEM.
        cost: The lowest cost among the samples.
        costs: Those of all samples of the last round, (samples,); NaN or infinite ones count for nothing.
    """

    u: Array
    noise: Array
    cost: float
    costs: Array


def sample(
    world: Any,
    cost: Callable[[Array, Array, Array], Any],
    q: Any,
    v: Any,
    u: Any,
    *,
    noise: Any,
    samples: int = 256,
    rounds: int = 1,
    method: str = "mppi",
    temperature: float = 1.0,
    elite: float = 0.1,
    limits: Any = None,
    rng: Any = None,
) -> Sampled:
    """Improve joint forces by simulating many noisy copies of them.

    Args:
        world: A `simulation.Simulator`, with contacts or without; its time step is that of the inputs.
        cost: From q (samples, T + 1, nq), v (samples, T + 1, nv) and u (samples, T, nv) to costs, (samples,).
        q: Configuration now, (nq,).
        v: Velocities now, (nv,).
        u: Joint forces to improve, (T, nv).
        noise: Standard deviation of the samples: a number, (nv,) or (T, nv); zero where there is no motor.
        samples: Number of samples of each round. The first one is the mean itself.
        rounds: How often to improve.
        method: "mppi" or "cem".
        temperature: Of MPPI, in units of the cost: what is worse than the best by more hardly counts.
        elite: Of CEM, the fraction of samples that counts.
        limits: Largest joint forces, a number or (nv,); `robot.effort_limits`, for example.
        rng: Seed or generator of the noise.

    Raises:
        InputError: Shapes that do not fit, or numbers that make no sense.
        ConvergenceError: No sample has a finite cost.
    """
    if method not in _METHODS:
        raise UnknownNameError("method", method, _METHODS)
    for name, value in (("samples", samples), ("rounds", rounds)):
        arguments.whole(f"sample: {name}", value)
    if not callable(getattr(world, "rollout", None)):
        raise InputError(f"sample: world is a simulation.Simulator(…), got {world!r}")
    nv, generator = world.robot.nv, np.random.default_rng(rng)
    mean = np.array(arguments.doubles("sample", "u", u, (nv,)))
    if mean.ndim != 2:
        raise InputError(f"sample: u has shape {mean.shape}, expected (T, {nv})")
    temperature = arguments.number("temperature", temperature, what="a positive number", above=0.0)
    count = max(1, round(arguments.number("elite", elite, what="a fraction up to 1", above=0.0) * samples))
    try:
        deviation = np.array(np.broadcast_to(np.asarray(noise, dtype=np.float64), mean.shape))
        most = np.inf if limits is None else np.broadcast_to(np.asarray(limits, dtype=np.float64), (nv,))
    except ValueError:
        raise InputError(f"sample: noise is a number, ({nv},) or {mean.shape}; limits a number or ({nv},)") from None
    least, costs = np.inf, np.zeros(samples)
    for _ in range(rounds):
        trial = mean + deviation * generator.standard_normal((samples, *mean.shape))
        trial[0] = mean
        trial = np.clip(trial, -most, most)
        path = world.rollout(q, v, trial)
        costs = np.asarray(cost(path.q, path.v, trial), dtype=np.float64)
        if costs.shape != (samples,):
            raise InputError(f"sample: cost returns shape {costs.shape}, expected ({samples},)")
        finite = np.isfinite(costs)
        if not finite.any():
            raise ConvergenceError("sample: no sample has a finite cost; less noise, or a shorter horizon")
        least = min(least, float(costs[finite].min()))
        if method == "mppi":
            weights = np.where(finite, np.exp(-(np.where(finite, costs, 0.0) - costs[finite].min()) / temperature), 0.0)
            mean = np.tensordot(weights / weights.sum(), trial, 1)
        else:
            best = trial[np.argsort(np.where(finite, costs, np.inf), kind="stable")[: min(count, int(finite.sum()))]]
            mean, deviation = best.mean(axis=0), best.std(axis=0)
    return Sampled(mean, deviation, least, costs)
