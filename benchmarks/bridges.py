"""JAX and PyTorch over the kernels: what a call costs beside NumPy's.

    python -m benchmarks.bridges

Times are per call or sample. `benchmarks.jax_peers` compares with other libraries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
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
from kinetree.runtime.threads import set_threads

DT, BATCH = 1e-3, 1024


def main() -> None:
    """Print the table."""
    set_threads(1)
    torch.set_num_threads(1)
    core = pin_to_one_core()
    jax.config.update("jax_enable_x64", True)
    console = Console(width=110)
    console.print(f"{processor()}, core {core}; JAX {jax.__version__}, PyTorch {torch.__version__}")
    empty = jax.jit(lambda q, v, tau: q + v + tau)
    vectors = [jnp.ones(7) for _ in range(3)]
    console.print(f"a jitted sum of three vectors: {micro(least(partial(finished, empty, *vectors)))}")
    console.print(calls().rich())


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
