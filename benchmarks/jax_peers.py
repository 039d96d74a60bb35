"""Kinetree against libraries written in JAX, all in one run: adam, frax and MJX.

    python -m benchmarks.jax_peers                  # or: make bench-jax

Each library has a process of its own, with an environment of its own (made on first use in `build/peers`), since their
dependencies clash. The processes share one core and take turns: one measures while the others wait, round after round.
All compute the same accelerations from the same robot and states; every result is compared with Kinetree's.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
STEPS, DT, BATCH, SCANNED = 100, 1e-3, 1024, 1000

#: What each library installs, besides what Kinetree's kernels need.
PEERS = {
    "adam": "adam-robotics[jax]==0.5.0",
    "frax": "frax==0.1.0",
    "MJX": "mujoco-mjx==3.17.0 mujoco==3.17.0",  # it fails with MuJoCo 4
}
SHARED = ("jax", "numpy", "llvmlite", "lxml", "rich")
NAMES = ("Kinetree", *PEERS)
MEASURES = {
    "call": "one jitted call",
    "gradient": "value and gradient, one call",
    "rollout": f"value and gradient, {STEPS} steps",
    "batch": f"sample of a batch of {BATCH}",
    "scan": "step in `lax.scan`",
}


# A worker: one library, one measure. It reads commands from standard input and answers each with a line of JSON.


def work(name: str, measure: str, folder: Path) -> None:
    """Compile, and time when asked to."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some libraries print when they are imported

    def answer(**message: Any) -> None:
        print(json.dumps(message), file=channel, flush=True)

    import jax

    jax.config.update("jax_enable_x64", True)
    told = json.loads((folder / "robot.json").read_text("utf-8"))
    with np.load(folder / "states.npz") as file:
        states = {key: jax.numpy.asarray(value) for key, value in file.items()}
    function = {"Kinetree": own, "adam": adam, "frax": frax, "MJX": mjx}[name](folder, told)
    call, count = {"call": one, "batch": many, "scan": scanned, "gradient": slope, "rollout": rollout}[measure](
        function, states, batches_itself=name == "adam"
    )
    began = time.perf_counter()
    result = np.asarray(call()).ravel()
    answer(compiled=time.perf_counter() - began, result=result.tolist())
    for line in sys.stdin:
        answer(seconds=least(call, float(line)) / count)


def least(call: Callable[[], Any], seconds: float) -> float:
    """Least time of the calls of some seconds, at least one [s]."""
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


Measured = tuple[Callable[[], Any], int]


def finished(function: Callable[..., Any], *arrays: Any) -> Any:
    """A result of JAX, which would otherwise be still under way."""
    return function(*arrays).block_until_ready()


def one(function: Any, states: dict[str, Any], batches_itself: bool) -> Measured:
    """Accelerations of one state."""
    import jax

    del batches_itself
    return partial(finished, jax.jit(function), *(states[x][0] for x in ("q", "v", "tau"))), 1


def many(function: Any, states: dict[str, Any], batches_itself: bool) -> Measured:
    """Accelerations of many states. adam takes batches itself, and fails under vmap."""
    import jax

    batched = jax.jit(function if batches_itself else jax.vmap(function))
    return partial(finished, batched, *(states[x] for x in ("q", "v", "tau"))), BATCH


def scanned(function: Any, states: dict[str, Any], batches_itself: bool) -> Measured:
    """Velocities after explicit steps at one configuration, in a compiled loop."""
    import jax

    del batches_itself
    q, v, tau = (states[x][0] for x in ("q", "v", "tau"))

    def body(v: Any, _: Any) -> Any:
        return v + 1e-6 * function(q, v, tau), None

    return partial(finished, jax.jit(lambda v: jax.lax.scan(body, v, None, length=SCANNED)[0]), v), SCANNED


def slope(function: Any, states: dict[str, Any], batches_itself: bool) -> Measured:
    """The sum of accelerations, and its gradient with respect to q, v and tau, joined."""
    import jax

    del batches_itself
    arrays = [states[x][0] for x in ("q", "v", "tau")]
    compiled = jax.jit(jax.value_and_grad(lambda *state: function(*state).sum(), argnums=(0, 1, 2)))

    def joined(*state: Any) -> Any:
        value, gradients = compiled(*state)
        return jax.numpy.concatenate([value[None], *gradients])

    return partial(finished, jax.jit(joined), *arrays), 1


def rollout(function: Any, states: dict[str, Any], batches_itself: bool) -> Measured:
    """A loss after semi-implicit Euler steps, and its gradient with respect to all joint forces, joined."""
    import jax

    del batches_itself
    q0 = states["q"][0]

    def advance(state: Any, tau: Any) -> Any:
        q, v = state
        v = v + DT * function(q, v, tau)
        return (q + DT * v, v), None

    def loss(taus: Any) -> Any:
        (q, v), _ = jax.lax.scan(advance, (q0, jax.numpy.zeros_like(q0)), taus)
        return (q * q).sum() + (v * v).sum()

    def joined(taus: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(taus)
        return jax.numpy.concatenate([value[None], gradient.ravel()])

    return partial(finished, jax.jit(joined), states["taus"]), 1


# Forward dynamics f(q, v, tau) of a robot with a fixed base, by each library.


def own(folder: Path, _: dict[str, Any]) -> Callable[..., Any]:
    """Kinetree, on the robot that the driver has written."""
    import kinetree
    import kinetree.jax
    from kinetree.runtime.threads import set_threads

    set_threads(1)
    return kinetree.jax.forward_dynamics(kinetree.load(folder / "robot.urdf"))


def adam(folder: Path, told: dict[str, Any]) -> Callable[..., Any]:
    """Adam has an O(n) recursion for floating bases only; with a fixed base it solves with the mass matrix."""
    import jax.numpy as jnp
    from adam import Representations
    from adam.jax import KinDynComputations

    gravity = jnp.asarray([*told["gravity"], 0.0, 0.0, 0.0])
    dynamics = KinDynComputations(str(folder / "robot.urdf"), told["joints"], gravity=gravity)
    dynamics.set_frame_velocity_representation(Representations.MIXED_REPRESENTATION)

    def acceleration(q: Any, v: Any, tau: Any) -> Any:
        base, still = jnp.broadcast_to(jnp.eye(4), (*q.shape[:-1], 4, 4)), jnp.zeros((*q.shape[:-1], 6))
        M = dynamics.mass_matrix(base, q)[..., 6:, 6:]
        bias = dynamics.bias_force(base, q, still, v)[..., 6:]
        return jnp.linalg.solve(M, (tau - bias)[..., None])[..., 0]

    return acceleration


def frax(folder: Path, told: dict[str, Any]) -> Callable[..., Any]:
    """Frax reads URDF files only."""
    from frax import Robot

    robot = Robot(str(folder / "robot.urdf"), joint_ordering=told["joints"])
    return lambda q, v, tau: robot.forward_dynamics(q, v, tau, None)


def mjx(folder: Path, _: dict[str, Any]) -> Callable[..., Any]:
    """MJX's smooth dynamics, without damping, friction, limits and contacts."""
    import mujoco
    from mujoco import mjx

    compiled = mujoco.MjModel.from_xml_path(str(folder / "robot.xml"))
    compiled.dof_damping[:] = 0.0
    compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model = mjx.put_model(compiled)
    start = mjx.make_data(model)
    return lambda q, v, tau: mjx.forward(model, start.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc


# The driver.


@dataclass
class Worker:
    """The process of a library for one measure."""

    name: str
    process: subprocess.Popen[str]
    compiled: float = 0.0
    best: float = float("inf")
    outcome: str = ""
    result: list[float] = field(default_factory=list)

    def read(self, limit: float) -> dict[str, Any] | None:
        """The next answer, or None if there is none within a time limit [s] or the process ended."""
        stream = self.process.stdout
        assert stream is not None
        ready, _, _ = select.select([stream], [], [], limit)
        line = stream.readline() if ready else ""
        if not line:
            self.outcome = "failed" if ready else f"over {limit:.0f} s to compile"
            self.end()
            return None
        answered: dict[str, Any] = json.loads(line)
        return answered

    def ask(self, seconds: float, limit: float) -> None:
        """Let it measure for some seconds."""
        assert self.process.stdin is not None
        print(seconds, file=self.process.stdin, flush=True)
        if (found := self.read(limit)) is not None:
            self.best = min(self.best, found["seconds"])

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()


def environment(name: str, folder: Path) -> Path:
    """The Python of a library's environment, made on first use; Kinetree's own is this one."""
    if name == "Kinetree":
        return Path(sys.executable)
    where = folder / name
    python, stamp = where / "bin" / "python", where / "stamp"
    if not stamp.exists() or stamp.read_text("utf-8") != PEERS[name]:
        print(f"installing {PEERS[name]} in {where}", flush=True)
        venv.create(where, with_pip=True, clear=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *quiet, *SHARED, *PEERS[name].split()], check=True)
        stamp.write_text(PEERS[name], encoding="utf-8")
    return python


def describe(folder: Path) -> None:
    """Write the robot and the states for the workers: Panda's arm, with fixed fingers.

    adam's motion subspace of a prismatic joint fails in JAX, hence the fingers; adam and frax do not supply
    placements and inertias that a file leaves out.
    """
    from lxml import etree

    import kinetree
    from benchmarks import robots

    panda = robots.load("Panda").model
    robot = panda.reduced({joint.name: 0.0 for joint in panda.joints if joint.kind == "prismatic"})
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
    (folder / "robot.urdf").write_bytes(etree.tostring(root))
    (folder / "robot.xml").write_text(kinetree.to_mjcf(robot), encoding="utf-8")
    told = {"joints": [joint.name for joint in robot.joints], "gravity": list(map(float, robot.gravity))}
    (folder / "robot.json").write_text(json.dumps(told), encoding="utf-8")
    rng = np.random.default_rng(0)
    q, (v, tau) = robot.random_configuration(rng, (BATCH,)), rng.uniform(-1.0, 1.0, (2, BATCH, robot.nv))
    np.savez(folder / "states.npz", q=q, v=v, tau=tau, taus=rng.uniform(-1.0, 1.0, (STEPS, robot.nv)))


def race(measure: str, names: list[str], folder: Path, limit: float, rounds: int) -> list[Worker]:
    """Time one measure of all libraries, by turns."""
    core = max(os.sched_getaffinity(0))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "JAX_PLATFORMS": "cpu"}
    variables |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    workers: list[Worker] = []
    for name in names:
        command = [environment(name, folder), "-m", "benchmarks.jax_peers", "--work", name, measure]
        errors = (folder / f"{name}-{measure}.log").open("w")
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *map(str, command), "--folder", str(folder)],
            cwd=ROOT, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        worker = Worker(name, process)
        workers.append(worker)
        found = worker.read(limit)  # one after the other: only one process computes at a time
        if found is None:
            print(f"{measure}, {name}: {worker.outcome}; see {errors.name}", flush=True)
            continue
        worker.compiled, worker.result = found["compiled"], found["result"]
        agreement = ""
        if workers[0].result and name != "Kinetree":
            expected = np.array(workers[0].result)
            difference = np.abs(np.array(worker.result) - expected).max() / np.abs(expected).max()
            agreement = f", differs from Kinetree by {difference:.1e}"
            if not difference < 1e-5:
                worker.outcome = "wrong"
        print(f"{measure}, {name}: compiled in {worker.compiled:.1f} s{agreement}", flush=True)
    for _ in range(rounds):
        for worker in workers:
            if not worker.outcome:
                worker.ask(0.3, limit)
    for worker in workers:
        worker.end()
    return workers


def main() -> None:
    """Measure, or be a worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASURES, nargs="*", help="what to measure (default: all)")
    parser.add_argument("--peers", choices=PEERS, nargs="*", help="libraries to compare with (default: all)")
    parser.add_argument("--limit", type=float, default=900.0, help="give up compiling after so many seconds")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="leave a library out after it took longer to compile"
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns of each library")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers", help="environments and states")
    parser.add_argument("--work", nargs=2, metavar=("NAME", "MEASURE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, measure = options.work
        work(name, measure, options.folder)
        return

    from rich.console import Console

    from benchmarks.table import Table
    from benchmarks.timing import processor

    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    describe(folder)
    names = ["Kinetree", *(PEERS if options.peers is None else options.peers)]
    measures = list(MEASURES if options.only is None else options.only)
    table = Table(f"forward dynamics of Panda's arm in JAX, {processor()}", ["", *names])
    slow: set[str] = set()
    for measure in measures:
        running = [name for name in names if name not in slow]
        workers = race(measure, running, folder, options.limit, options.rounds)
        slow |= {worker.name for worker in workers if worker.compiled > options.patience or "compile" in worker.outcome}
        base = workers[0].best
        ratios = ["", *(f" ({worker.best / base:.3g}×)" for worker in workers[1:])]
        cells = {w.name: w.outcome or micro(w.best) + ratio for w, ratio in zip(workers, ratios, strict=True)}
        print(f"{MEASURES[measure]}: {cells}", flush=True)
        table.add(MEASURES[measure], *(cells.get(name, "not tried") for name in names))
        compiled = {w.name: f"{w.compiled:.1f}" for w in workers if w.compiled}
        table.add("  seconds to compile", *(compiled.get(name, "") for name in names))
    Console(width=130).print(table.rich())
    print(table.markdown())


def micro(seconds: float) -> str:
    """A time with three digits."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


if __name__ == "__main__":
    main()
