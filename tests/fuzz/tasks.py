"""Random tasks and contacts on random trees against their dense definition (`tests.definition`).

    python -m tests.fuzz.tasks --cases 100000
    python -m tests.fuzz.tasks --seed 1012 --each 5000 --only 513 4509

Trees are laid out so that singular configurations are common: many axes are parallel or meet, many angles are zero or
right. Every case must agree with the definition; cases in which a direction is within a hundredth of an edge, so that
rounding may decide on which side, are counted apart.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

import kinetree as kt
from kinetree.tasks import POLICIES, Tasks
from tests.definition import Definition
from tests.tolerance import bound
from tests.trees import random_inertia, random_rotation, unit

Array = np.ndarray[Any, np.dtype[Any]]

REFERENCES = ("local", "world", "local_world_aligned")
ROWS: tuple[Any, ...] = ("all", "position", "orientation", (5,), (3, 4), (2, 3, 4), (5, 0))

#: Roots, then what the other joints are drawn from.
KINDS = (
    ("revolute", ("revolute",)),
    ("floating", ("revolute",)),
    ("prismatic", ("prismatic",)),
    ("revolute", ("revolute", "prismatic")),
    ("floating", ("revolute", "spherical")),
)


class Problem(NamedTuple):
    """Tasks of a robot, and how they came about."""

    tasks: Tasks
    seed: int


def tree(rng: np.random.Generator, kinds: tuple[str, tuple[str, ...]]) -> kt.Model:
    """A tree of up to 9 joints."""
    root, others = kinds
    exact = rng.random() < 0.6
    mass, size = 10.0 ** rng.uniform(-9, 9), 10.0 ** rng.uniform(-3, 3)
    builder = kt.Builder(gravity=(0, 0, -9.81))
    count = int(rng.integers(1, 10))
    for i in range(count):
        parent = "world" if i == 0 else f"link{int(rng.integers(max(0, i - 3), i))}"
        kind = root if i == 0 else str(rng.choice(others))
        own: dict[str, Any] = {}
        if kind in ("revolute", "prismatic"):
            own["axis"] = np.eye(3)[rng.integers(3)] if exact else unit(rng)
        position = np.eye(3)[rng.integers(3)] * rng.choice([0.0, 0.5]) if exact else rng.uniform(-0.5, 0.5, 3)
        m = mass * 10.0 ** rng.uniform(-1, 1)
        builder.add_body(
            f"link{i}",
            parent=parent,
            joint=kind,
            placement=(np.eye(3) if exact else random_rotation(rng), position * size),
            mass=m,
            com=rng.uniform(-0.2, 0.2, 3) * size,
            inertia=random_inertia(rng, m) * size**2,
            **own,
        )
    return builder.build()


def task(rng: np.random.Generator, robot: kt.Model) -> Any:
    """Of a frame, at a point of it or at its origin; of two frames; or of the centre of mass."""
    names = [f"link{i}" for i in range(len(robot.bodies))]
    rows, kind = ROWS[rng.integers(len(ROWS))], rng.random()
    if kind < 0.1:
        return kt.CenterOfMassTask("position" if rng.random() < 0.7 else (4,))
    if kind < 0.35 and len(names) > 1:
        one, other = rng.choice(names, 2, replace=False)
        return kt.RelativeTask(str(one), str(other), rows)
    offset = (0.0, 0.0, 0.0) if rng.random() < 0.6 else tuple(rng.uniform(-1, 1, 3) * robot._link_size())
    return kt.Task(str(rng.choice(names)), rows, offset)


def problems(first: int) -> Iterator[Problem]:
    """Random tasks, one after another, each from a seed of its own."""
    seed = first
    while True:
        rng = np.random.default_rng(seed)
        robot = tree(rng, KINDS[rng.integers(len(KINDS))])
        wanted = [task(rng, robot) for _ in range(rng.integers(1, 3))]
        contacts = [task(rng, robot) for _ in range(rng.integers(0, 3))]
        options = {
            "reference": str(rng.choice(REFERENCES)),
            "singular": str(rng.choice(POLICIES[:2])),
            "cut": float(rng.choice([1e-6, 1e-6, 1e-3])),
        }
        with suppress(kt.errors.InputError):  # a row asked for twice
            yield Problem(robot.tasks(wanted, contacts=contacts, **options), seed)
        seed += 1


def configurations(robot: kt.Model, rng: np.random.Generator, count: int) -> Array:
    """Random ones; ones with right and zero angles; ones close to these."""
    q = robot.random_configuration(rng, count)
    size = robot._link_size()
    for joint in robot.joints:
        for i, angle in zip(range(joint.q_start, joint.q_start + joint.nq), joint.type.angles, strict=False):
            special = rng.choice([0.0, 0.5, -0.5, 1.0], count) * (np.pi if angle else size)
            near = special + 10.0 ** rng.uniform(-9, -1, count) * rng.choice([0.0, 1.0], count) * (
                1.0 if angle else size
            )
            q[:, i] = np.where(np.arange(count) % 3 == 0, q[:, i] * (1.0 if angle else size), near)
    return q


def check(problem: Problem, count: int, only: Sequence[int] | None = None) -> tuple[Counter[str], list[str]]:
    """Compare some or all of so many random cases: what came of them, and what is wrong with those that disagree."""
    tasks, seed = problem
    robot = tasks._robot.model
    rng = np.random.default_rng([seed, 1])
    numbers = range(count) if only is None else only
    q = configurations(robot, rng, count)[numbers]
    definition, counts, wrong = Definition(tasks), Counter[str](), []
    state = tasks.at(q)
    expected = definition.at(q)
    results = {name: getattr(state, name) for name in expected[0].quantities}
    strict = robot.tasks(tasks.tasks, **{**tasks._options, "singular": "raise"})
    ranks, held = state.rank, state.contact_rank if tasks.held else np.zeros(len(q), dtype=int)
    for i, (number, right) in enumerate(zip(numbers, expected, strict=True)):
        # of L with rows of length one, which is M on the scale of its own diagonal
        spread = np.linalg.cond(right.L / np.linalg.norm(right.L, axis=1)[:, None]) ** 2
        error = 4.0 * bound(robot.nv + tasks.rows + tasks.held, spread)
        counts["cases"] += 1
        counts["singular"] += right.rank < tasks.rows
        counts["redundant contacts"] += right.contact_rank < tasks.held
        if right.ambiguous:
            counts["ambiguous"] += 1
            continue
        if (ranks[i], held[i]) != (right.rank, right.contact_rank):
            wrong.append(
                f"seed {seed} case {number}: rank {ranks[i]}, {held[i]} not {right.rank}, {right.contact_rank}"
            )
            continue
        if i < 20 and _refuses(strict, q[i]) != (right.rank < tasks.rows):
            wrong.append(f"seed {seed} case {number}: raises, or does not, at rank {right.rank} of {tasks.rows}")
        for name, result in results.items():
            ratio = right.error(name, result[i]) / right.tolerance(name, error, tasks.singular == "damped")
            counts[f"worst {name}"] = max(counts[f"worst {name}"], int(1e6 * min(ratio, 1e9)))
            if not ratio <= 1.0:
                wrong.append(f"seed {seed} case {number}: {name} off by {ratio:.1e} tolerances")
                break
    counts["wrong"] += len(wrong)
    return counts, wrong


def _refuses(tasks: Tasks, q: Array) -> bool:
    try:
        tasks.inertia(q)
    except kt.errors.SingularTaskError:
        return True
    return False


def main() -> None:
    """Hunt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=300, help="cases of one robot")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of the cases of the first robot to look at again")
    options = parser.parse_args()
    total = Counter[str]()
    for problem in problems(options.seed):
        counts, wrong = check(problem, options.each, options.only)
        for name, value in counts.items():
            total[name] = max(total[name], value) if name.startswith("worst") else total[name] + value
        total["problems"] += 1
        for line in wrong[:3]:
            print(line, flush=True)
        done = options.only is not None or total["cases"] >= options.cases
        if total["problems"] % 20 == 0 or done:
            print(f"seeds {options.seed} to {problem.seed}: {dict(total)}", flush=True)
        if done:
            return


if __name__ == "__main__":
    main()
