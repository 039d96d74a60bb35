"""Speed of the derivatives of the dynamics, against Pinocchio and against the functions that they differentiate.

Part of `make bench`; alone: `python -m benchmarks.linearized`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pinocchio as pin
from rich.console import Console

from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.runtime.threads import set_threads

BATCH, PIECE, POOL = 1024, 32, 256

#: The argument of `linearize`, and Pinocchio's function.
BOTH_WAYS: dict[str, Callable[..., Any]] = {"a": pin.computeRNEADerivatives, "tau": pin.computeABADerivatives}


def matrices(seconds: float) -> Table:
    """`linearize` both ways: a single call, and a sample of a batch.

    Args:
        seconds: How long to go on for each contender.
    """
    table = Table(
        "linearize: three matrices", ["robot", "given", "single", "Pinocchio", f"of {BATCH}", "Pinocchio", "Alg. 4"]
    )
    for name in robots.NAMES:
        robot = robots.load(name)
        for given, theirs in BOTH_WAYS.items():
            single, batch = _single(robot, given, theirs, seconds), _batch(robot, given, theirs, seconds)
            table.add(
                f"{name}, nv {robot.model.nv}",
                f"{given}=…",
                f"{single['Kinetree'] * 1e6:.3g} µs",
                f"{single['Pinocchio'] / single['Kinetree']:.2f}×",
                f"{batch['Kinetree'] * 1e6:.3g} µs",
                f"{batch['Pinocchio'] / batch['Kinetree']:.2f}×",
                f"{batch['conventional'] / batch['Kinetree']:.2f}×" if "conventional" in batch else "",
            )
    return table


def directions(seconds: float) -> Table:
    """Derivatives along one direction, and gradients of one weighted sum, in costs of the function itself.

    Args:
        seconds: How long to go on for each contender.
    """
    table = Table(
        "jvp, vjp and hvp, in costs of the function",
        ["robot", "function", "jvp", "vjp", "hvp", "jvp, batch", "vjp, batch", "hvp, batch", "Alg. 3, batch"],
    )
    for name in robots.NAMES:
        robot = robots.load(name).model
        q, v, x = robots.state_pool(robot, POOL)
        for function in ("inverse_dynamics", "forward_dynamics"):
            method = getattr(robot, function)
            arguments = {"function": (q, v, x), "jvp": (q, v, x, x, v, x), "vjp": (q, v, x, v)}
            arguments["hvp"] = (*arguments["vjp"], x, v, x)
            calls = {"function": method, "jvp": method.jvp, "vjp": method.vjp, "hvp": method.hvp}
            pools = {way: [tuple(map(np.array, each)) for each in zip(*arrays)] for way, arrays in arguments.items()}
            one = race({way: (calls[way], pools[way]) for way in calls}, seconds)
            homes = {way: calls[way](*arguments[way]) for way in calls}
            contenders: dict[str, Any] = {way: (partial(calls[way], out=homes[way]), [arguments[way]]) for way in calls}
            if function == "forward_dynamics":
                contenders["Alg. 3"] = (partial(_conventional_change, robot), [arguments["jvp"]])
            many = race(contenders, seconds)
            ratios = [times[way] / times["function"] for times in (one, many) for way in ("jvp", "vjp", "hvp")]
            last = f"{many['Alg. 3'] / many['function']:.2f}" if "Alg. 3" in many else ""
            table.add(name, function.replace("_", " "), *(f"{ratio:.2f}" for ratio in ratios), last)
    return table


def _single(robot: robots.Robot, given: str, theirs: Callable[..., Any], seconds: float) -> dict[str, float]:
    own = [tuple(map(np.array, sample)) for sample in zip(*robots.state_pool(robot.model, POOL))]
    ours = robot.model.linearize
    call: Callable[..., Any] = ours if given == "a" else lambda q, v, tau: ours(q, v, tau=tau)
    data, model = robot.pinocchio.createData(), robot.pinocchio
    peers = [tuple(map(np.array, sample)) for sample in zip(*_states(robot, POOL))]
    for mine, other in zip(call(*own[0]), theirs(model, data, *peers[0])):
        expected = robot.order.from_matrix(np.array(other))
        if not np.allclose(mine, expected, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(expected)))):
            raise ValueError(f"{robot.name}: linearize({given}=…) differs from Pinocchio's")
    return race({"Kinetree": (call, own), "Pinocchio": (partial(theirs, model, data), peers)}, seconds)


def _batch(robot: robots.Robot, given: str, theirs: Callable[..., Any], seconds: float) -> dict[str, float]:
    """Least time per sample of a batch [s]. All fill arrays that exist already."""
    model, data = robot.pinocchio, robot.pinocchio.createData()
    states = robots.state_pool(robot.model, BATCH)
    names = {"a": "inverse_dynamics_derivatives", "tau": "forward_dynamics_derivatives"}
    function = getattr(robot.model, names[given])
    home = function(*states)
    peer_home = tuple(np.empty_like(part) for part in home)

    def loop(start: int, q: Any, v: Any, x: Any) -> None:
        for i, sample in enumerate(zip(q, v, x), start):
            for part, result in zip(peer_home, theirs(model, data, *sample)):
                part[i] = result

    arrays = _states(robot, BATCH)
    pieces = [(i, *(array[i : i + PIECE] for array in arrays)) for i in range(0, BATCH, PIECE)]
    contenders: dict[str, Any] = {
        "Kinetree": (partial(function, out=home), [states]),
        "Pinocchio": (loop, pieces),
    }
    sizes = {"Kinetree": BATCH, "Pinocchio": PIECE, "conventional": BATCH}
    if given == "tau":
        contenders["conventional"] = (partial(_conventional, robot.model), [states])
    return {name: time / sizes[name] for name, time in race(contenders, seconds).items()}


def _conventional(robot: Any, q: Any, v: Any, tau: Any) -> Any:
    """Paper 003's Algorithm 4: the matrices of inverse dynamics, the inverse of M, and two products."""
    a = robot.forward_dynamics(q, v, tau)
    dq, dv, _ = robot.inverse_dynamics_derivatives(q, v, a)
    inverse = robot.mass_matrix_inverse(q)
    return -inverse @ dq, -inverse @ dv, inverse


def _conventional_change(robot: Any, q: Any, v: Any, tau: Any, dq: Any, dv: Any, dtau: Any) -> Any:
    """Paper 003's Algorithm 3: the change of the joint forces at fixed accelerations, and a solution with M."""
    a = robot.forward_dynamics(q, v, tau)
    rest = robot.inverse_dynamics.jvp(q, v, a, dq, dv, np.zeros_like(a))
    return np.linalg.solve(robot.mass_matrix(q), (dtau - rest)[..., None])[..., 0]


def _states(robot: robots.Robot, count: int) -> tuple[Any, ...]:
    """The same random states in Pinocchio's coordinates."""
    q, v, x = robots.state_pool(robot.model, count)
    return tuple(map(np.ascontiguousarray, (robot.order.to_q(q), robot.order.to_v(v), robot.order.to_v(x))))


if __name__ == "__main__":
    set_threads(1)
    pin_to_one_core()
    for made in (matrices(0.3), directions(0.15)):
        Console(width=110).print(made.rich())
