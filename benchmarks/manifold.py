"""Speed of the manifold of configurations and of time steps, and what a call costs beside its kernel.

Part of `make bench`; alone: `python -m benchmarks.manifold`.
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

BATCH, POOL = 1024, 64
STEP = 1e-3
_EIGHT = f"eight of {BATCH} samples"

#: What each function takes, and Pinocchio's function of the same arguments.
FUNCTIONS: dict[str, tuple[str, Callable[..., Any] | None]] = {
    "integrate": ("qv", pin.integrate),
    "difference": ("qp", pin.difference),
    "dintegrate": ("qv", pin.dIntegrate),
    "ddifference": ("qp", pin.dDifference),
    "tangent_map": ("q", None),
    "bracket": ("v", None),
    "normalize": ("q", pin.normalize),
}


def functions(seconds: float) -> Table:
    """Every function of the manifold: a single call, and a sample of a batch.

    Args:
        seconds: How long to go on for each contender.
    """
    table = Table("the manifold of configurations", ["robot", "function", "single", "Pinocchio", f"of {BATCH}"])
    for name in robots.NAMES:
        robot = robots.load(name)
        for function, (letters, theirs) in FUNCTIONS.items():
            contenders: dict[str, Any] = {"Kinetree": (getattr(robot.model, function), _samples(robot, letters))}
            if theirs is not None:
                contenders["Pinocchio"] = (partial(theirs, robot.pinocchio), _samples(robot, letters, robot.order))
            times = race(contenders, seconds)
            times |= race({"batch": (getattr(robot.model, function), [_states(robot, letters, BATCH)])}, seconds)
            table.add(
                f"{name}, nv {robot.model.nv}",
                function,
                f"{times['Kinetree'] * 1e6:.3g} µs",
                f"{times['Pinocchio'] / times['Kinetree']:.2f}×" if theirs is not None else "",
                f"{times['batch'] / BATCH * 1e6:.3g} µs",
            )
    return table


def steps(seconds: float) -> Table:
    """Time steps in costs of forward dynamics, and their derivatives in costs of `linearize`.

    Args:
        seconds: How long to go on for each contender.
    """
    methods = ("semi_implicit_euler", "midpoint", "rk4")
    table = Table(
        "step in costs of forward_dynamics; discretize in costs of linearize",
        ["robot", *(f"step, {m}" for m in methods), *(f"discretize, {m}" for m in methods)],
    )
    for name in robots.NAMES:
        robot = robots.load(name)
        model, samples = robot.model, _samples(robot, "qvx")
        contenders: dict[str, Any] = {
            "dynamics": (model.forward_dynamics, samples),
            "linearize": (model.forward_dynamics_derivatives, samples),
        }
        for method in methods:
            arguments = [(*sample, STEP, method) for sample in samples]
            contenders |= {f"step, {method}": (model.step, arguments), f"disc, {method}": (model.discretize, arguments)}
        times = race(contenders, seconds)
        table.add(
            f"{name}, nv {model.nv}",
            *(f"{times[f'step, {m}'] / times['dynamics']:.2f}" for m in methods),
            *(f"{times[f'disc, {m}'] / times['linearize']:.2f}" for m in methods),
        )
    return table


def overheads(seconds: float) -> Table:
    """What ways of writing a call add to the plainest one, and those with eight samples to eight of a large batch.

    Args:
        seconds: How long to go on for each contender.
    """
    table = Table("ways to call inverse_dynamics and jacobian", ["robot", "call", "time", "over the first"])
    for name in robots.NAMES:
        robot = robots.load(name)
        times = race(_ways(robot), seconds)
        times[_EIGHT] /= BATCH // 8
        for call, time in times.items():
            plainest = {"jacobian": "jacobian(q, frame)", "eight": _EIGHT}
            first = times[next((way for part, way in plainest.items() if part in call), "inverse_dynamics(q, v, a)")]
            over = f"{(time - first) * 1e6:+.2f} µs"
            table.add(f"{name}, nv {robot.model.nv}", call, f"{time * 1e6:.3g} µs", over)
    return table


def _ways(robot: robots.Robot) -> dict[str, Any]:
    """Ways to write a call, with their arguments."""
    model, samples = robot.model, _samples(robot, "qvx")
    place, rows, frame, force = np.empty(model.nv), np.empty((6, model.nv)), robot.frames[-1][0], np.zeros(6)
    run, jacobian = model.inverse_dynamics, model.jacobian
    eight, places = [_states(robot, "qvx", 8)] * POOL, np.empty((8, model.nv))
    return {
        "inverse_dynamics(q, v, a)": (run, samples),
        "…, out=": (lambda q, v, a: run(q, v, a, out=place), samples),
        "q=, v=, a=": (lambda q, v, a: run(q=q, v=v, a=a), samples),
        "f_ext=": (lambda q, v, a: run(q, v, a, f_ext={frame: force}), samples),
        _EIGHT: (partial(run, out=np.empty((BATCH, model.nv))), [_states(robot, "qvx", BATCH)]),
        "eight samples": (run, eight),
        "eight samples, out=": (lambda q, v, a: run(q, v, a, out=places), eight),
        "eight samples, q=, v=, a=": (lambda q, v, a: run(q=q, v=v, a=a), eight),
        "eight samples, f_ext=": (lambda q, v, a: run(q, v, a, f_ext={frame: force}), eight),
        "jacobian(q, frame)": (lambda q, _v, _a: jacobian(q, frame), samples),
        "jacobian(q, frame, reference=, out=)": (lambda q, _v, _a: jacobian(q, frame, "world", out=rows), samples),
    }


def _states(robot: robots.Robot, letters: str, count: int) -> tuple[Any, ...]:
    q, v, x = robots.state_pool(robot.model, count)
    p, _, _ = robots.state_pool(robot.model, count, seed=1)
    return tuple({"q": q, "p": p, "v": v, "x": x}[letter] for letter in letters)


def _samples(robot: robots.Robot, letters: str, order: Any = None) -> list[tuple[Any, ...]]:
    """Single states, in Pinocchio's coordinates if an order is given."""
    states = _states(robot, letters, POOL)
    if order is not None:
        states = tuple((order.to_q if x in "qp" else order.to_v)(state) for x, state in zip(letters, states))
    return [tuple(map(np.array, sample)) for sample in zip(*states)]


if __name__ == "__main__":
    set_threads(1)
    pin_to_one_core()
    for made in (functions(0.1), steps(0.1), overheads(0.1)):
        Console(width=130).print(made.rich())
