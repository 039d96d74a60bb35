"""JAX and PyTorch over the kernels: what a call costs beside NumPy's, and a gradient through a rollout.

    python -m benchmarks.bridges

Times are per call or sample. Where `adam-robotics` or `mujoco-mjx` is installed,
its forward dynamics runs in the same process, on the same robot and states.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from rich.console import Console

import kinetree
import kinetree.jax
import kinetree.torch
from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, processor
from kinetree.engines.native.threads import set_threads

STEPS, DT, BATCH = 100, 1e-3, 1024


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    set_threads(1)
    torch.set_num_threads(1)
    core = pin_to_one_core()
    jax.config.update("jax_enable_x64", True)
    console = Console(width=110)
    console.print(f"{processor()}, core {core}; JAX {jax.__version__}, PyTorch {torch.__version__}")
    console.print(calls().rich())
    console.print(rollouts().rich())


def calls() -> Table:
    """Forward dynamics, a single call and a sample of a batch."""
    table = Table(
        "forward dynamics",
        ["robot", "NumPy", "JAX, jit", "JAX, in scan", "PyTorch", f"NumPy of {BATCH}", "JAX", "PyTorch"],
    )
    for name in robots.NAMES:
        robot = robots.load(name).model
        row = [name]
        for batch in ((), (BATCH,)):
            rng = np.random.default_rng(0)
            q, (v, tau) = robot.random_configuration(rng, batch), rng.uniform(-1.0, 1.0, (2, *batch, robot.nv))
            count = BATCH if batch else 1
            bridge = jax.jit(kinetree.jax.forward_dynamics(robot))
            arrays, tensors = [jnp.asarray(x) for x in (q, v, tau)], [torch.from_numpy(x) for x in (q, v, tau)]
            own = least(partial(robot.forward_dynamics, q, v, tau)) / count
            by_jax = least(partial(finished, bridge, *arrays)) / count
            by_torch = least(partial(kinetree.torch.forward_dynamics(robot), *tensors)) / count
            row += [micro(own), micro(by_jax)]
            if not batch:
                row.append(micro(scanned(robot, *arrays)))
            row.append(micro(by_torch))
        table.add(*row)
    return table


def scanned(robot: Any, q: Any, v: Any, tau: Any) -> float:
    """Seconds of one forward dynamics inside of a compiled loop."""
    function = kinetree.jax.forward_dynamics(robot)

    def body(v: Any, _: Any) -> Any:
        return v + DT * function(q, v, tau), None

    loop = jax.jit(lambda v: jax.lax.scan(body, v, None, length=1000)[0])
    return least(lambda: loop(v).block_until_ready()) / 1000


def rollouts() -> Table:
    """Value and gradient of a loss after many steps, with respect to all joint forces."""
    table = Table(f"value and gradient through {STEPS} steps of Panda", ["library", "time", "of ours"])
    robot = robots.load("Panda").model
    rng = np.random.default_rng(0)
    q0, v0 = jnp.asarray(robot.random_configuration(rng)), jnp.zeros(robot.nv)
    taus = jnp.asarray(rng.uniform(-1.0, 1.0, (STEPS, robot.nv)))

    def loss(step: Callable[..., Any]) -> Callable[[Any], Any]:
        def total(taus: Any) -> Any:
            (q, v), _ = jax.lax.scan(lambda state, tau: (step(*state, tau), None), (q0, v0), taus)
            return (q * q).sum() + (v * v).sum()

        return total

    own_step = kinetree.jax.step(robot)
    own = clock_gradient(loss(lambda q, v, tau: own_step(q, v, tau, DT)), taus)
    table.add("Kinetree", f"{own * 1e3:.3g} ms", "")
    for name, make in (("adam", adam_step), ("MJX", mjx_step)):
        if name == "adam" and find_spec("adam") is None:
            continue
        step = make(robots.load("Panda"))
        if step is not None:
            time_taken = clock_gradient(loss(step), taus)
            table.add(name, f"{time_taken * 1e3:.3g} ms", f"{time_taken / own:.1f}×")
    return table


def adam_step(robot: Any) -> Callable[..., Any] | None:
    """A semi-implicit Euler step by adam's forward dynamics."""
    from adam import Representations
    from adam.jax import KinDynComputations

    model = robot.model
    names = [joint.name for joint in model.joints]
    dynamics = KinDynComputations(kinetree.to_urdf(model), names)
    dynamics.set_frame_velocity_representation(Representations.MIXED_REPRESENTATION)

    def step(q: Any, v: Any, tau: Any) -> Any:
        M = dynamics.mass_matrix(jnp.eye(4), q)[6:, 6:]
        bias = dynamics.bias_force(jnp.eye(4), q, jnp.zeros(6), v)[6:]
        v = v + DT * jnp.linalg.solve(M, tau - bias)
        return q + DT * v, v

    return step


def mjx_step(robot: Any) -> Callable[..., Any] | None:
    """A semi-implicit Euler step by MJX's smooth dynamics; None where it does not fit the installed MuJoCo."""
    try:
        import mujoco
        from mujoco import mjx
    except ImportError:
        return None
    model = mjx.put_model(mujoco.MjModel.from_xml_string(kinetree.to_mjcf(robot.model)))
    start = mjx.make_data(model)

    def step(q: Any, v: Any, tau: Any) -> Any:
        after = mjx.forward(model, start.replace(qpos=q, qvel=v, qfrc_applied=tau))
        v = v + DT * after.qacc
        return q + DT * v, v

    return step


def clock_gradient(loss: Callable[[Any], Any], taus: Any) -> float:
    """Seconds of a value with its gradient, compiled."""
    compiled = jax.jit(jax.value_and_grad(loss))
    return least(lambda: jax.block_until_ready(compiled(taus)))


def finished(function: Callable[..., Any], *arrays: Any) -> Any:
    """A result of JAX, which would otherwise be still under way."""
    return function(*arrays).block_until_ready()


def least(call: Callable[[], Any], seconds: float = 0.5) -> float:
    """Least time of many calls [s]."""
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def micro(seconds: float) -> str:
    """Microseconds with three digits."""
    return f"{seconds * 1e6:.3g} µs"


if __name__ == "__main__":
    main()
