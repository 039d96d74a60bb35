"""Derivatives of steps under noise: means of exact ones, which optimisers can follow past kinks.

A push below the limit of friction moves nothing, and so does one that is a little larger: the exact derivative is zero,
and of no use to an optimiser. With noise, some pushes are beyond the limit. Since steps are continuous,

    ∂ E[step(x + σ ε)] = E[∂ step(x + σ ε)]          ε Gaussian                                     (1)

the mean of exact derivatives is the exact derivative of the mean [S22]. It is another function's derivative, and is
computed only where it is asked for. Noise comes in pairs ±ε, which halves what is odd in it, and is the same for all
samples of a batch.

[S22] H. Suh et al., "Do differentiable simulators give better policy gradients?", ICML 2022.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError
from kinetree.runtime import arguments
from kinetree.spatial.value import Array


class Smoothed(NamedTuple):
    """Means of derivatives of a step under noise.

    Attributes:
        A: With respect to x = (q, v), (…, 2 nv, 2 nv).
        B: With respect to joint forces, (…, 2 nv, nv).
        sure: Share of the noisy states whose modes are certain and whose derivatives are unique, (…).
    """

    A: Array
    B: Array
    sure: Array


def smoothed(
    sim: Any, q: Any, v: Any, tau: Any = None, *, q_noise: Any = 0.0, v_noise: Any = 0.0, tau_noise: Any = 0.0,
    pairs: int = 32, seed: int = 0,
) -> Smoothed:  # fmt: skip
    """The mean of `sim.discretize` under Gaussian noise, (1).

    Args:
        sim: The simulator.
        q: Configuration, (…, nq).
        v: Joint velocities, (…, nv).
        tau: Joint forces, (…, nv); zero by default.
        q_noise: Standard deviations of the tangent of q, one or (nv,).
        v_noise: Of v.
        tau_noise: Of tau.
        pairs: Number of pairs ±ε.
        seed: Of the noise, which is the same in every call.

    Raises:
        InputError: Negative deviations, none at all, or no pairs.
    """
    robot, n = sim.robot, sim.robot.nv
    q, v, tau = sim._state("smoothed", q, v, np.zeros(n) if tau is None else tau)
    given = {"q_noise": q_noise, "v_noise": v_noise, "tau_noise": tau_noise}
    sizes = {name: np.asarray(arguments.numbers("smoothed", name, x), dtype=np.float64) for name, x in given.items()}
    for name, size in sizes.items():
        if size.shape not in ((), (n,)) or not (np.isfinite(size) & (size >= 0.0)).all():
            raise InputError(f"smoothed: {name} takes one number or {n} of them, none negative; got {given[name]!r}")
    if not any(size.any() for size in sizes.values()):
        raise InputError("smoothed: there is no noise; give q_noise, v_noise or tau_noise, or call sim.discretize")
    if isinstance(pairs, bool) or not isinstance(pairs, (int, np.integer)) or pairs < 1:
        raise InputError(f"smoothed: pairs={pairs!r} is not a positive integer")
    half = np.random.default_rng(seed).standard_normal((int(pairs), 3, n)) * np.stack(
        [np.broadcast_to(size, (n,)) for size in sizes.values()]
    )
    noise = np.stack([half, -half], axis=1).reshape(-1, 3, n)
    A, B, sure = np.zeros((*v.shape[:-1], 2 * n, 2 * n)), np.zeros((*v.shape[:-1], 2 * n, n)), np.zeros(v.shape[:-1])
    for first in range(0, len(noise), _AT_ONCE):  # sums in a fixed order, whatever the batch
        some = noise[first : first + _AT_ONCE].reshape(-1, 3, *[1] * (v.ndim - 1), n)
        states = robot.integrate(q, some[:, 0]), v + some[:, 1], tau + some[:, 2]
        found = sim.discretize(*states)
        certain = (found.modes.certain & found.modes.unique).astype(np.float64)
        for i in range(len(some)):
            A, B, sure = A + found.A[i], B + found.B[i], sure + certain[i]
    return Smoothed(A / len(noise), B / len(noise), sure / len(noise))


#: Noisy states that are linearised at once.
_AT_ONCE = 64
