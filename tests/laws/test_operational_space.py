"""Λ⁻¹ by every method against J M⁻¹ Jᵀ: all joint kinds, forests, tasks of any rows anywhere, both engines.

Relative tasks and the centre of mass are compared with a composition in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.compiler.count import count
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import Site
from kinetree.runtime import reference
from kinetree.runtime.kernels import bind
from kinetree.tasks.recursions import Recursions
from tests.definition import Composition
from tests.laws import cases
from tests.laws.cases import model, transposed
from tests.tolerance import Array, assert_close, bound, condition, peak
from tests.trees import serial

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
        answer = stacked @ np.linalg.solve(M, transposed(stacked))
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
    assert np.array_equal(result, transposed(result))
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


#: Ends on one tree, on two trees, on the world; several tasks with a common end; rows in any order; all with others.
TASKS: dict[str, tuple[Any, ...]] = {
    "forest": (
        kt.RelativeTask("link14", "link6"),
        kt.RelativeTask("world", "link3", (4, 0)),
        kt.Task("link7", "position"),
        kt.CenterOfMassTask(),
        kt.RelativeTask("link7", "world", (5,)),
    ),
    "every kind, armature": (
        kt.CenterOfMassTask((5, 3)),
        kt.RelativeTask("link5", "link8"),
        kt.Task("link2", (1, 5), (0.1, -0.2, 0.3)),
    ),
    "10 km away": (  # of the kinds of the forest's, so that they share kernels
        kt.RelativeTask("link7", "link9"),
        kt.RelativeTask("world", "link3", (4, 0)),
        kt.Task("link5", "position"),
        kt.CenterOfMassTask(),
        kt.RelativeTask("link8", "world", (5,)),
    ),
    "legged": (
        "link7",
        kt.RelativeTask("link5", "link12", (5, 0)),
        kt.CenterOfMassTask((4,)),
        kt.RelativeTask("link12", "link7"),
        kt.CenterOfMassTask((3,)),
    ),
    "humanoid24": (kt.RelativeTask("left_hand", "right_hand"),),
    "asimo35": (kt.CenterOfMassTask(),),
}
#: Each reference is compiled; 10 km away, that of the world mixes kilometres with metres.
CASES = [(name, "local") for name in TASKS] + [("legged", "world"), ("legged", "local_world_aligned")]

every_case = pytest.mark.parametrize(("name", "reference"), CASES)


@cache
def states(name: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    rng = np.random.default_rng(11)
    robot = model(name)
    return robot.random_configuration(rng, shape), rng.uniform(-1.0, 1.0, (*shape, robot.nv))


def tasks_of(name: str, reference: str = "local") -> Recursions:
    return model(name).tasks(TASKS[name], reference=reference).core.recursions


def tolerance(name: str, q: Array) -> float:
    return bound(model(name).nv, condition(model(name).mass_matrix(q)))


@every_case
def test_quantities_are_those_of_the_composition(name: str, reference: str) -> None:
    robot, tasks, expected = model(name), tasks_of(name, reference), Composition(model(name), TASKS[name], reference)
    q, v = states(name, (3, 3))
    J, Minv = expected.jacobian(q), robot.mass_matrix_inverse(q)
    felt = peak(np.abs(J) @ np.abs(Minv) @ np.abs(transposed(J)))
    solving = tolerance(name, q)
    assert_close(tasks.jacobian(q), J, bound(robot.nv))
    assert_close(tasks.response(q), expected.response(q), solving, peak(np.abs(Minv) @ np.abs(transposed(J))))
    assert_close(tasks.inverse_inertia(q), expected.inverse_inertia(q), solving, felt)
    scale = peak(np.abs(J)) * robot.nv  # of velocities, whose squares are accelerations
    assert_close(tasks.jacobian_dot_v(q, v), expected.drift(q, v), bound(robot.nv), scale**2)


@every_case
def test_engines_agree(name: str, reference: str) -> None:
    tasks = tasks_of(name, reference)
    q, v = states(name, ())
    solving = tolerance(name, q)
    J = tasks.jacobian(q)
    for function, arrays, error, scale in (
        (tasks.jacobian, (q,), bound(model(name).nv), None),
        (tasks.response, (q,), solving, peak(J) * peak(model(name).mass_matrix_inverse(q))),
        (tasks.inverse_inertia, (q,), solving, peak(J) ** 2 * peak(model(name).mass_matrix_inverse(q))),
        (tasks.jacobian_dot_v, (q, v), bound(model(name).nv), (peak(J) * model(name).nv) ** 2),
    ):
        assert_close(function.engine("reference")(*arrays), function(*arrays), error, scale)


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_methods_agree(method: str) -> None:
    name = "legged"
    q, _ = states(name, ())
    expected = Composition(model(name), TASKS[name])
    J = expected.jacobian(q)
    scale = peak(np.abs(J) @ np.abs(model(name).mass_matrix_inverse(q)) @ np.abs(J.T))
    function = model(name).tasks(TASKS[name], method=method).inverse_inertia
    for result in (function(q), function.engine("reference")(q)):
        assert_close(result, expected.inverse_inertia(q), tolerance(name, q), scale)
        assert np.array_equal(result, result.T)
    assert function.count().total > 0


@pytest.mark.parametrize("method", kt.tasks.METHODS)
def test_methods_agree_on_a_forest(method: str) -> None:
    """Ends on two trees and on the world, and joints of all kinds; on the engine that needs no compiling."""
    q, _ = states("forest", ())
    expected = Composition(model("forest"), TASKS["forest"])
    J = expected.jacobian(q)
    scale = peak(np.abs(J) @ np.abs(model("forest").mass_matrix_inverse(q)) @ np.abs(J.T))
    function = model("forest").tasks(TASKS["forest"], method=method).inverse_inertia.engine("reference")
    assert_close(function(q), expected.inverse_inertia(q), tolerance("forest", q), scale)


@pytest.mark.parametrize("name", ["legged", "humanoid24"])
def test_a_sample_has_the_same_bits_in_any_batch(name: str) -> None:
    q, v = states(name, (11,))
    tasks = tasks_of(name)
    for function, arrays in (
        (tasks.inverse_inertia, (q,)),
        (tasks.jacobian, (q,)),
        (tasks.response, (q,)),
        (tasks.jacobian_dot_v, (q, v)),
    ):
        together = function(*arrays)
        home = np.full_like(together, np.nan)
        assert function(*arrays, out=home) is home
        assert np.array_equal(home, together)
        for i in range(11):
            assert np.array_equal(function(*(array[i] for array in arrays)), together[i])


@pytest.mark.parametrize("name", TASKS)
def test_what_moves_both_ends_does_not_move_the_task(name: str) -> None:
    """Columns of common ancestors are zero to the last bit."""
    robot, first = model(name), 0
    J = tasks_of(name).jacobian(states(name, (5,))[0])
    for task in TASKS[name]:
        rows = 6 if isinstance(task, str) else len(task.rows)
        if isinstance(task, kt.RelativeTask):
            support = [
                set(robot.mechanism.topology.support(robot.site(frame).node)) for frame in (task.frame_a, task.frame_b)
            ]
            for k in support[0] & support[1]:
                own = slice(*robot.mechanism.v_starts[k : k + 2])
                assert not J[:, first : first + rows, own].any()
        first += rows


@pytest.mark.parametrize("name", ["legged", "humanoid24", "asimo35", "forest"])
def test_one_kernel_for_inertia_inverse_and_null_space(name: str) -> None:
    """Against dense matrices; regular samples only, as the others go another way."""
    robot, tasks = model(name), TASKS[name]
    if name == "legged":  # as many as it has freedoms for, and the centre of mass in two tasks
        tasks = (
            "link7",
            kt.CenterOfMassTask((4,)),
            kt.RelativeTask("link5", "link12", (5, 0)),
            kt.CenterOfMassTask((3,)),
        )
    elif name == "forest":
        tasks = tasks[:3]
    q, _ = states(name, (9,))
    space = robot.tasks(tasks).at(q)
    regular = space.rank == len(space.inverse_inertia[0])
    assert regular.any()
    together, inertia = robot.tasks(tasks).dynamics, robot.tasks(tasks).inertia
    error = tolerance(name, q) * float(np.max(space.condition[regular]))
    results = together(q)
    oracle = Composition(robot, tasks)
    J, response = oracle.jacobian(q)[regular], oracle.response(q)[regular]
    dense = np.linalg.inv(J @ response)
    assert_close(inertia(q)[regular], dense, error)
    assert_close(results.inertia[regular], dense, error)
    assert_close(results.dynamically_consistent_inverse[regular], response @ dense, error)
    assert_close(results.nullspace[regular], np.eye(robot.nv) - response @ dense @ J, error)
    one = int(np.argmax(regular))
    for alone, result in zip(together(q[one]), results, strict=True):
        assert np.array_equal(alone, result[one])
    for exact, result in zip(together.engine("reference")(q[one]), results, strict=True):
        assert_close(exact, result[one], error)
    assert together.count().total > inertia.count().total


def test_looking_the_other_way() -> None:
    """Seen from the other end, the same motion: Λ⁻¹ of one direction is a change of axes and place of the other's."""
    robot = model("humanoid24")
    q, _ = states("humanoid24", (4,))
    there, back = (
        robot.tasks([kt.RelativeTask(a, b)]).at(q)
        for a, b in (("left_hand", "right_hand"), ("right_hand", "left_hand"))
    )
    poses = robot.pose(q, ["left_hand", "right_hand"])
    relative = np.linalg.inv(poses[:, 1]) @ poses[:, 0]  # of the left hand, in the right one's axes
    R, p = relative[:, :3, :3], relative[:, :3, 3]
    X = np.zeros((4, 6, 6))
    X[:, :3, :3] = X[:, 3:, 3:] = R
    cross = np.cross(p[:, None, :], transposed(R))  # p × each column of R
    X[:, 3:, :3] = -transposed(cross)
    # motion of left seen from right = −X motion of right seen from left
    assert_close(back.jacobian, -X @ there.jacobian, bound(robot.nv))
    expected = X @ there.inverse_inertia @ transposed(X)
    assert_close(back.inverse_inertia, expected, tolerance("humanoid24", q))


def test_a_free_body_moves_its_center_of_mass_alone() -> None:
    """Whatever the joints do inside, a robot in free space has Λ = m for its centre of mass."""
    robot = model("legged")
    q, _ = states("legged", (6,))
    mass = sum(body.mass for body in robot.bodies)
    expected = np.broadcast_to(np.eye(3) / mass, (6, 3, 3))
    assert_close(
        robot.tasks([kt.CenterOfMassTask()]).inverse_inertia(q) * mass, expected * mass, tolerance("legged", q)
    )


def test_heavy_rotors_hold_the_center_of_mass() -> None:
    """Λ⁻¹ keeps its digits where it is far smaller than 1/m: nothing is computed as a difference of large numbers."""
    link = {"axis": (0, 0, 1), "mass": 1.0, "com": (0.25, 0.1, 0.0), "inertia": 0.01 * np.eye(3), "armature": 1e12}
    robot = serial([link, {**link, "placement": (np.eye(3), (0.5, 0.0, 0.0))}], "link").build()
    q = np.array([0.3, -0.7])
    tasks = [kt.CenterOfMassTask((3, 4)), kt.Task("link1", "position")]
    J = robot.tasks(tasks).at(q).jacobian
    expected = J @ J.T / 1e12
    np.testing.assert_allclose(robot.tasks(tasks).inverse_inertia(q), expected, rtol=1e-11, atol=1e-11 * peak(expected))


def test_functions_are_like_others() -> None:
    robot = model("humanoid24")
    tasks, hands = robot.tasks(TASKS["humanoid24"]), ["left_hand", "right_hand"]
    tasks.inverse_inertia.compile()
    simple = in_common_frame(inverse_inertia(tasks.method, "local"))  # the view of relative tasks
    sites = [robot.site(hand) for hand in hands]
    assert tasks.inverse_inertia.count().total < 1.1 * count(simple, robot.mechanism, sites).total


def test_a_broken_sample_spoils_no_other() -> None:
    for name in ("humanoid24", "asimo35"):
        q = states(name, (9,))[0].copy()
        function = model(name).tasks(TASKS[name]).inverse_inertia
        whole = function(q)
        q[4, -1] = np.nan
        broken = function(q)
        assert np.isnan(broken[4]).any()
        rest = np.arange(9) != 4
        assert np.array_equal(broken[rest], whole[rest])


def test_the_center_of_no_mass() -> None:
    b = kt.Builder()
    b.add_body("ghost", joint="revolute", axis=(0, 0, 1), parent="world", mass=0.0, armature=1.0)
    robot = b.build()
    for quantity in ("jacobian", "inverse_inertia"):
        with pytest.raises(kt.errors.KinetreeError, match="mass"):
            getattr(robot.tasks([kt.CenterOfMassTask()]).at(np.zeros(1)), quantity)
