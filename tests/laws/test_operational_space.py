"""Λ⁻¹ by every method against J M⁻¹ Jᵀ: all joint kinds, forests, tasks of any rows anywhere, both engines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.language.mechanism import Site
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from tests.laws import cases
from tests.tolerance import assert_close, bound, condition

Array = np.ndarray[Any, np.dtype[Any]]

#: Rows that tasks of the native engine have, by turns: robots and tasks of the same kinds share compiled code.
ROWS = ((0, 1, 2, 3, 4, 5), (3, 4, 5), (1,))
#: Mechanisms for the reference engine, which has nothing to compile.
INTERPRETED = ("one", "every kind", "every kind, armature", "forest", "many tips", "10 km away")


@dataclass(frozen=True, eq=False)
class Tasks:
    """Tasks on a mechanism, with what Λ⁻¹ must be."""

    robot: kt.Model
    sites: tuple[Site, ...]
    answers: dict[tuple[bytes, str], tuple[Array, float]] = field(default_factory=dict)

    @classmethod
    @cache
    def anywhere(cls, name: str, count: int, seed: int) -> Tasks:
        """Any choice of rows of any frames, the world included."""
        robot, rng = cases.model(name), np.random.default_rng(seed)
        frames = rng.choice(list(robot.frames), count)
        rows = [tuple(sorted(rng.choice(6, rng.integers(1, 7), replace=False).tolist())) for _ in frames]
        return cls(robot, tuple(replace(robot.site(str(f)), rows=r) for f, r in zip(frames, rows, strict=True)))

    @classmethod
    @cache
    def moving(cls, name: str, count: int, seed: int) -> Tasks:
        """Tasks of few kinds, on frames that move."""
        robot, rng = cases.model(name), np.random.default_rng(seed)
        frames = rng.choice([f for f in robot.frames if robot.site(f).node >= 0], count)
        return cls(robot, tuple(replace(robot.site(str(f)), rows=ROWS[i % 3]) for i, f in enumerate(frames)))

    def expected(self, q: Array, view: str = "local") -> tuple[Array, float]:
        """J M⁻¹ Jᵀ by NumPy, and how far from it a right result may be; once for all methods."""
        asked = q.tobytes(), view
        if asked not in self.answers:
            self.answers[asked] = self._expected(q, view)
        return self.answers[asked]

    def _expected(self, q: Array, view: str) -> tuple[Array, float]:
        J = [self.robot.jacobian.engine("reference")(q, site.name, view)[..., site.rows, :] for site in self.sites]
        stacked = np.concatenate(J, axis=-2)
        M = self.robot.mass_matrix.engine("reference")(q)
        answer = stacked @ np.linalg.solve(M, np.swapaxes(stacked, -1, -2))
        return answer, bound(self.robot.nv, condition(M))

    def interpreted(self, method: str, q: Array, view: str = "local") -> Array:
        """Λ⁻¹ on the reference engine."""
        (result,) = reference.run(inverse_inertia(method, view), self.robot.mechanism, self.sites, [q])
        return result

    def compiled(self, method: str, q: Array, view: str = "local") -> Array:
        """Λ⁻¹ on the native engine."""
        return np.asarray(bind(inverse_inertia(method, view), self.robot.mechanism, self.sites, method)(q))


@cache
def sample(name: str, shape: tuple[int, ...] = ()) -> Array:
    return cases.model(name).random_configuration(np.random.default_rng(17), shape)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("name", INTERPRETED)
def test_every_method_is_the_definition(name: str, method: str) -> None:
    tasks, q = Tasks.anywhere(name, 6, seed=4), sample(name)
    assert_close(tasks.interpreted(method, q), *tasks.expected(q))


@pytest.mark.parametrize("method", ALGORITHMS)
def test_many_tasks_anywhere(method: str) -> None:
    tasks, q = Tasks.anywhere("forest", 20, seed=10), sample("forest")
    assert_close(tasks.interpreted(method, q), *tasks.expected(q))


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_every_joint_kind_compiled(method: str, count: int) -> None:
    tasks, q = Tasks.moving("every kind", count, seed=5), sample("every kind")
    assert_close(tasks.compiled(method, q), *tasks.expected(q))


@pytest.mark.parametrize("shape", [(3,), (2, 1, 9)], ids=str)
@pytest.mark.parametrize("method", ALGORITHMS)
def test_batches(method: str, shape: tuple[int, ...]) -> None:
    tasks, q = Tasks.moving("legged", 5, seed=6), sample("legged", shape)
    assert_close(tasks.compiled(method, q), *tasks.expected(q))


@pytest.mark.parametrize("count", [1, 12, 40])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_any_number_of_tasks(method: str, count: int) -> None:
    tasks, q = Tasks.moving("legged", count, seed=count), sample("legged")
    assert_close(tasks.compiled(method, q), *tasks.expected(q))


@pytest.mark.parametrize("view", ["local", "local_world_aligned", "world"])
@pytest.mark.parametrize("method", ["sparse_factorization", "pv_osim_r"])
def test_references(method: str, view: str) -> None:
    tasks, q = Tasks.anywhere("forest", 5, seed=7), sample("forest")
    assert_close(tasks.interpreted(method, q, view), *tasks.expected(q, view))


@pytest.mark.parametrize("method", ALGORITHMS)
def test_symmetric_and_positive_semidefinite(method: str) -> None:
    tasks, q = Tasks.moving("legged", 12, seed=8), sample("legged", (4,))
    result = tasks.compiled(method, q)
    assert np.array_equal(result, np.swapaxes(result, -1, -2))
    scale = np.abs(result).max() * tasks.expected(q)[1]
    assert np.linalg.eigvalsh(result).min() > -scale


@pytest.mark.parametrize("method", ALGORITHMS)
def test_tasks_on_the_world_feel_nothing(method: str) -> None:
    robot = cases.model("legged")
    sites = (robot.site("world"), robot.site("link3"), replace(robot.site("world"), rows=(3, 4, 5)))
    result = Tasks(robot, sites).interpreted(method, sample("legged"))
    assert not result[:6].any()
    assert not result[12:].any()
    assert result[6:12, 6:12].all()


@pytest.mark.parametrize("method", ALGORITHMS)
def test_one_bad_sample_spoils_no_other(method: str) -> None:
    tasks, q = Tasks.moving("legged", 4, seed=9), sample("legged", (9,)).copy()
    good = tasks.compiled(method, q)
    q[4, -1] = np.nan
    result = tasks.compiled(method, q)
    others = [i for i in range(9) if i != 4]
    assert np.array_equal(result[others], good[others])
