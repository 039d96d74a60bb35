"""Do two machines compute the same bits? Record the results of one, and compare another's with them.

    python -m tools.bits record bits.npz        # on the first machine
    python -m tools.bits compare bits.npz       # on the second: exit code 1 if any bit differs

Both build the robots themselves; URDF files and states travel in the record. Some states give exact zeros of both
signs: rest, with +0 and with -0. Every function of a model runs in a batch and sample by sample; the quantities of
tasks, constrained dynamics, and a controller in the loop of a simulation run on the humanoid; some dense kernels run
without a robot.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import kinetree as kt
from kinetree.cli.box import SERVO, experiment
from kinetree.kernels.eigen import diagonalize
from kinetree.kernels.riccati import riccati
from kinetree.kernels.solve import solve_symmetric
from tests.parity.functions import FUNCTIONS
from tools.cross_compile import on_request

Array = np.ndarray[Any, np.dtype[Any]]

#: Published robots, if `example-robot-data` is installed where the record is made; the second has a floating base.
FILES = {
    "Panda": ("panda_description/urdf/panda.urdf", False),
    "ANYmal": ("anymal_c_simple_description/urdf/anymal.urdf", True),
}
HANDS = ["left_hand", "right_hand", "left_foot"]
#: Quantities of tasks, and what they take.
QUANTITIES = {
    "inertia": "q",
    "dynamics": "q",
    "bias": "qv",
    "jacobian": "q",
    "jacobian_dot_v": "qv",
    "inverse_inertia_derivative": "qv",
    "rank": "q",
    "condition": "q",
}


@dataclass
class Tally:
    """What has been compared so far.

    Attributes:
        arrays: Number of arrays.
        numbers: Number of entries.
        zeros: Entries that are +0 in the record.
        negative_zeros: Entries that are -0 in the record.
        differing: Names of arrays with other bits.
    """

    arrays: int = 0
    numbers: int = 0
    zeros: int = 0
    negative_zeros: int = 0
    differing: list[str] = field(default_factory=list)

    def add(self, name: str, actual: Array, expected: Array) -> None:
        """Compare the bits of two arrays; NaNs are equal whatever their sign and payload."""
        self.arrays += 1
        self.numbers += expected.size
        zero = expected == 0
        negative = int(np.count_nonzero(zero & np.signbit(expected)))
        self.negative_zeros += negative
        self.zeros += int(np.count_nonzero(zero)) - negative
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            self.differing.append(f"{name}: {actual.dtype} {actual.shape}, not {expected.dtype} {expected.shape}")
            return
        same = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
        same |= np.isnan(actual) & np.isnan(expected)
        if not same.all():
            worst = float(np.fmax.reduce(np.abs(actual - expected), axis=None, initial=0.0))
            self.differing.append(f"{name}: {np.count_nonzero(~same)} of {same.size} entries, by up to {worst:.1e}")

    def __str__(self) -> str:
        return (
            f"{self.arrays} arrays of {self.numbers} numbers, among them {self.zeros} times +0 and "
            f"{self.negative_zeros} times -0: {len(self.differing) or 'none'} differ"
        )


def urdf_files() -> dict[str, str]:
    """The published robots that are installed here, as text."""
    if find_spec("pinocchio") is None:
        return {}
    from benchmarks.robots import share

    files = {name: share() / path for name, (path, _) in FILES.items()}
    return {name: file.read_text("utf-8") for name, file in files.items() if file.exists()}


def robots(files: dict[str, str], mimic: str = "couple") -> dict[str, kt.Model]:
    """The robots by name.

    Args:
        files: URDF files by name.
        mimic: What becomes of the files' mimic joints.
    """
    made = {
        "every joint": kt.zoo.random_tree(12, seed=3),
        "every joint, armature": kt.zoo.random_tree(12, seed=3, armature=True),
        "every joint, float32": kt.zoo.random_tree(12, seed=3).astype("float32"),
        "humanoid24": kt.zoo.humanoid24(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kt.errors.ModelWarning)  # about peculiarities of the files
        return made | {name: kt.load(text, floating_base=FILES[name][1], mimic=mimic) for name, text in files.items()}


def states(model: kt.Model) -> tuple[Array, Array, Array]:
    """Configurations, velocities and a third array: four random states, a moving neutral one, rest with +0 and -0."""
    rng = np.random.default_rng(7)
    neutral = np.broadcast_to(model.neutral(), (3, model.nq))
    q = np.concatenate([model.random_configuration(rng, (4,)), neutral])
    v, x = rng.uniform(-1.0, 1.0, (2, 7, model.nv))
    v[5:], x[5:] = 0.0, 0.0
    q[6], v[6], x[6] = np.where(q[6] == 0.0, -0.0, q[6]), -0.0, -0.0
    return q, v, x


def results(name: str, model: kt.Model, q: Array, v: Array, x: Array) -> Iterator[tuple[str, Array]]:
    """Every function of a robot, in a batch and one by one."""
    for place, function in enumerate(FUNCTIONS):
        called = f"{name}/{place} {function}"
        try:
            batch = function(model, q, v, x)
        except kt.errors.KinetreeError as error:  # by design, e.g. second derivatives of some joints
            yield f"{called}/{type(error).__name__}", np.zeros(0)
            continue
        singles = [function(model, *sample) for sample in zip(q, v, x, strict=True)]
        for number, part in enumerate(batch):
            yield f"{called}/{number}", np.asarray(part)
            yield f"{called}/{number}/one by one", np.stack([single[number] for single in singles])


def tasks(model: kt.Model, q: Array, v: Array, x: Array) -> Iterator[tuple[str, Array]]:
    """What follows from Λ⁻¹ of hands and a foot, by every method, and dynamics with constraints."""
    for method in kt.tasks.METHODS:
        yield f"tasks/inverse_inertia by {method}", model.tasks(HANDS, method=method).inverse_inertia(q)
    for policy in ("damped", "truncated"):
        hands = model.tasks(HANDS, singular=policy)
        for quantity, arrays in QUANTITIES.items():
            found = getattr(hands, quantity)(*((q, v) if arrays == "qv" else (q,)))
            for number, part in enumerate(found if isinstance(found, tuple) else (found,)):
                yield f"tasks/{quantity}, {policy}/{number}", np.asarray(part, dtype=np.float64)
    held: list[str | kt.Weld] = ["left_foot", kt.Weld("left_hand", "right_hand")]
    for number, part in enumerate(model.constrained_dynamics(q, v, x, held)):
        yield f"constrained_dynamics/{number}", np.asarray(part)
    for number, part in enumerate(model.discretize(q, v, x, 0.01, "midpoint")):
        yield f"discretize/{number}", np.asarray(part)


def closed_loop() -> Iterator[tuple[str, Array]]:
    """Control and simulation: the humanoid begins to put down its box."""
    setup = experiment("welded")
    film = setup.world.run(setup.start, setup.controller, setup.ways, seconds=0.05, servo=SERVO)
    yield "box/q", film.q
    yield "box/v", film.v
    yield "box/tau", film.tau


def dense() -> Iterator[tuple[str, Array]]:
    """A Riccati sweep, eigenvalues, and a system of equations, in blocks and what is left of them."""
    rng = np.random.default_rng(0)
    for n in (5, 12):
        X, weights = rng.integers(-9, 10, (7, n, n)).astype(float), np.ones(n)
        A = X @ np.swapaxes(X, -1, -2) + np.eye(n)  # exact: a BLAS has bits of its own
        found = {
            "diagonalize": kt.compiled(diagonalize, n=n)(A),
            "solve": kt.compiled(solve_symmetric, n=n)(A, weights, weights),
            "riccati": kt.compiled(riccati, T=7, nx=n, nu=n)(0.1 * A, A, A, A, A, A[0]),
        }
        for name, parts in found.items():
            yield from ((f"kernels/{name} of {n}/{number}", np.asarray(part)) for number, part in enumerate(parts))


def everything(files: dict[str, str], given: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """All results by name, and the states they belong to.

    Args:
        files: URDF files by name.
        given: States by name; those that are missing are drawn.
    """
    models = robots(files)
    for name, model in models.items():
        drawn = {f"{name}/state/{letter}": array for letter, array in zip("qvx", states(model), strict=True)}
        yield from drawn.items()
        q, v, x = (given.get(key, array) for key, array in drawn.items())
        yield from results(name, model, q, v, x)
        if name == "humanoid24":
            yield from tasks(model, q, v, x)
            yield from closed_loop()
    yield from dense()


def record(path: Path) -> None:
    """Write the results of this machine to a file."""
    files = urdf_files()
    stored = {f"file/{name}": np.array(text) for name, text in files.items()} | dict(everything(files, {}))
    np.savez_compressed(path, allow_pickle=False, **stored)
    print(f"{platform.machine()}: {len(stored) - len(files)} arrays of {len(robots(files))} robots recorded in {path}")


def compare(path: Path) -> Tally:
    """Compare the results of this machine with those of a file, and report after each robot."""
    with np.load(path, allow_pickle=False) as file:
        stored = dict(file)
    files = {key.removeprefix("file/"): str(stored.pop(key)) for key in list(stored) if key.startswith("file/")}
    tally, began, part = Tally(), time.monotonic(), ""
    for name, value in everything(files, stored):
        if part and not name.startswith(f"{part}/"):
            print(f"{platform.machine()}, {time.monotonic() - began:.0f} s, up to {part}: {tally}", flush=True)
        part = name.partition("/")[0]
        differing = len(tally.differing)
        tally.add(name, value, stored.pop(name, np.zeros(0)))
        for line in tally.differing[differing:]:
            print(f"differs: {line}", flush=True)
    tally.differing += [f"{name}: not computed here" for name in stored]
    print(f"{platform.machine()}, {time.monotonic() - began:.0f} s, all: {tally}", flush=True)
    return tally


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    on_request()
    if options.action == "record":
        record(options.file)
    elif compare(options.file).differing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
