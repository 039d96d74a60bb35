"""JAX and PyTorch over the kernels: what a call costs beside NumPy's, and a gradient through a rollout.

    python -m benchmarks.bridges

Times are per call or sample. Where `adam-robotics`, `frax` or `mujoco-mjx` (with its own version of MuJoCo) is
installed, its forward dynamics runs in the same process, on the same robot and states, after a check that it agrees.
"""

from __future__ import annotations

import argparse
import importlib
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from lxml import etree
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("calls", "peers", "rollouts"), nargs="*", help="tables to print")
    only = parser.parse_args().only or ("calls", "peers", "rollouts")
    set_threads(1)
    torch.set_num_threads(1)
    core = pin_to_one_core()
    jax.config.update("jax_enable_x64", True)
    console = Console(width=110)
    console.print(f"{processor()}, core {core}; JAX {jax.__version__}, PyTorch {torch.__version__}")
    empty = jax.jit(lambda q, v, tau: q + v + tau)
    vectors = [jnp.ones(7) for _ in range(3)]
    console.print(f"a jitted sum of three vectors: {micro(least(partial(finished, empty, *vectors)))}")
    for name, table in (("calls", calls), ("peers", against), ("rollouts", rollouts)):
        if name in only:
            console.print(table().rich())


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


def against() -> Table:
    """Panda's forward dynamics in JAX, by each library: a jitted call, and a sample of a batch."""
    columns = ["library", "one call", "of ours", f"of {BATCH}", "of ours"]
    table = Table("forward dynamics of Panda's arm in JAX", columns)
    robot = arm()
    rng = np.random.default_rng(0)
    q, (v, tau) = robot.random_configuration(rng, (BATCH,)), rng.uniform(-1.0, 1.0, (2, BATCH, robot.nv))
    many = [jnp.asarray(x) for x in (q, v, tau)]
    first = [x[0] for x in many]
    expected = robot.forward_dynamics(q, v, tau)
    # all of them in turns, since the machine's speed varies
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    for name, function in accelerations(robot).items():
        # adam takes batches itself, and fails under vmap
        one, batch = jax.jit(function), jax.jit(function if name == "adam" else jax.vmap(function))
        np.testing.assert_allclose(batch(*many), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(), err_msg=name)
        calls[name] = (partial(finished, one, *first), partial(finished, batch, *many))
        print(f"{name} compiled, agrees", flush=True)
    best = dict.fromkeys(calls, (math.inf, math.inf))
    for _ in range(5):
        for name, (one_call, batched) in calls.items():
            found = least(one_call, 0.2), least(batched, 0.2) / BATCH
            best[name] = (min(best[name][0], found[0]), min(best[name][1], found[1]))
    own = best["Kinetree"]
    for name, (one_time, batch_time) in best.items():
        ratios = ["", ""] if name == "Kinetree" else [f"{one_time / own[0]:.1f}×", f"{batch_time / own[1]:.1f}×"]
        table.add(name, micro(one_time), ratios[0], micro(batch_time), ratios[1])
    return table


def rollouts() -> Table:
    """Value and gradient of a loss after many steps, with respect to all joint forces."""
    table = Table(f"value and gradient through {STEPS} steps of Panda's arm", ["library", "time", "of ours"])
    robot = arm()
    rng = np.random.default_rng(0)
    q0, v0 = jnp.asarray(robot.random_configuration(rng)), jnp.zeros(robot.nv)
    taus = jnp.asarray(rng.uniform(-1.0, 1.0, (STEPS, robot.nv)))

    def loss(step: Callable[..., Any]) -> Callable[[Any], Any]:
        def total(taus: Any) -> Any:
            (q, v), _ = jax.lax.scan(lambda state, tau: (step(*state, tau), None), (q0, v0), taus)
            return (q * q).sum() + (v * v).sum()

        return total

    def euler(function: Callable[..., Any]) -> Callable[..., Any]:
        """Semi-implicit, as `kinetree.jax.step`."""

        def step(q: Any, v: Any, tau: Any) -> Any:
            v = v + DT * function(q, v, tau)
            return q + DT * v, v

        return step

    own_step = kinetree.jax.step(robot)
    steps = {name: euler(function) for name, function in accelerations(robot).items()}
    steps["Kinetree"] = lambda q, v, tau: own_step(q, v, tau, DT)
    own = 0.0
    for name, step in steps.items():
        try:
            taken = clock_gradient(loss(step), taus)
        except (ValueError, TypeError, NotImplementedError) as error:  # e.g. loops without reverse mode
            table.add(name, "no gradient", type(error).__name__)
            print(f"{name}: {str(error)[:300]}")
            continue
        own = own or taken
        print(f"{name}: {taken * 1e3:.3g} ms", flush=True)
        table.add(name, f"{taken * 1e3:.3g} ms", "" if name == "Kinetree" else f"{taken / own:.1f}×")
    return table


def arm() -> Any:
    """Panda with its fingers fixed: adam's motion subspace of a prismatic joint fails in JAX."""
    robot = robots.load("Panda").model
    return robot.reduced({joint.name: 0.0 for joint in robot.joints if joint.kind == "prismatic"})


def accelerations(robot: Any) -> dict[str, Callable[..., Any]]:
    """Forward dynamics f(q, v, tau) of a robot with a fixed base, by Kinetree and by each library that is installed."""
    found: dict[str, Callable[..., Any]] = {"Kinetree": kinetree.jax.forward_dynamics(robot)}
    for name, module, make in (("adam", "adam", adam), ("frax", "frax", frax), ("MJX", "mujoco.mjx", mjx)):
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = make(robot)
    return found


def urdf(robot: Any) -> str:
    """The robot as URDF, with the placements and inertias that adam and frax do not supply by default."""
    root = etree.fromstring(kinetree.to_urdf(robot).encode())
    for joint in root.iter("joint"):
        if joint.find("origin") is None:
            etree.SubElement(joint, "origin", xyz="0 0 0", rpy="0 0 0")
    for link in root.iter("link"):
        if link.find("inertial") is None:
            inertial = etree.SubElement(link, "inertial")
            etree.SubElement(inertial, "origin", xyz="0 0 0", rpy="0 0 0")
            etree.SubElement(inertial, "mass", value="1e-12")
            etree.SubElement(inertial, "inertia", ixx="1e-12", ixy="0", ixz="0", iyy="1e-12", iyz="0", izz="1e-12")
    return str(etree.tostring(root, encoding="unicode"))


def adam(robot: Any) -> Callable[..., Any]:
    """Adam has an O(n) recursion for floating bases only; with a fixed base it solves with the mass matrix."""
    from adam import Representations
    from adam.jax import KinDynComputations

    gravity = jnp.concatenate([jnp.asarray(robot.gravity), jnp.zeros(3)])
    dynamics = KinDynComputations(urdf(robot), [joint.name for joint in robot.joints], gravity=gravity)
    dynamics.set_frame_velocity_representation(Representations.MIXED_REPRESENTATION)

    def acceleration(q: Any, v: Any, tau: Any) -> Any:
        base, still = jnp.broadcast_to(jnp.eye(4), (*q.shape[:-1], 4, 4)), jnp.zeros((*q.shape[:-1], 6))
        M = dynamics.mass_matrix(base, q)[..., 6:, 6:]
        bias = dynamics.bias_force(base, q, still, v)[..., 6:]
        return jnp.linalg.solve(M, (tau - bias)[..., None])[..., 0]

    return acceleration


def frax(robot: Any) -> Callable[..., Any]:
    """Frax reads URDF files only."""
    from frax import Robot

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(urdf(robot), encoding="utf-8")
        other = Robot(str(path), joint_ordering=[joint.name for joint in robot.joints])
    return lambda q, v, tau: other.forward_dynamics(q, v, tau, None)


def mjx(robot: Any) -> Callable[..., Any]:
    """MJX's smooth dynamics, without damping, friction, limits and contacts."""
    import mujoco
    from mujoco import mjx

    compiled = mujoco.MjModel.from_xml_string(kinetree.to_mjcf(robot))
    compiled.dof_damping[:] = 0.0
    compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model = mjx.put_model(compiled)
    start = mjx.make_data(model)
    return lambda q, v, tau: mjx.forward(model, start.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc


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
