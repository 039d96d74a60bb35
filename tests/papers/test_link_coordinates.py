"""The algorithms that [W12] compares, in link coordinates: right numbers, and the published costs of single steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt

pytest.importorskip("rich")

from benchmarks.papers.link_coordinates import ALGORITHMS, links_of, operations
from benchmarks.papers.link_coordinates.links import Links, add, inverse
from benchmarks.papers.link_coordinates.number import Number, Tally, values
from benchmarks.papers.link_coordinates.screw import Screw, X, Z
from kinetree.compiler.count import Count
from tests.tolerance import assert_close, bound, condition

Array = np.ndarray[Any, np.dtype[Any]]
MECHANISMS = ("hands_feet", "forefingers_thumbs_feet", "one_foot")


def pose(screws: tuple[Screw, ...]) -> tuple[Array, Array]:
    """Rotation and position of the frame behind some screws, in that before them."""
    R, p = np.eye(3), np.zeros(3)
    for screw in screws:
        p = p + R[:, screw.axis] * screw.length
        (u, v), c, s = screw.across, np.cos(screw.angle), np.sin(screw.angle)
        turn = np.eye(3)
        turn[u, u], turn[v, v], turn[u, v], turn[v, u] = c, c, -s, s
        R = R @ turn
    return R, p


@cache
def twin(variant: str) -> tuple[kt.Model, tuple[str, ...]]:
    """The same links as a robot of the library, the joints' angles being those of the screws at q = 0."""
    links = links_of(variant)
    builder = kt.Builder("links")
    for i, parent in enumerate(links.parents):
        c, mass = links.centers[i], links.masses[i]
        body = {"mass": mass, "com": c, "inertia": links.inertias[i] - mass * (c @ c * np.eye(3) - np.outer(c, c))}
        if parent < 0:
            kind = {"joint": "floating"} if links.floating else {"axis": (0, 0, 1)}
            builder.add_body(f"link{i}", **kind, **body)
        else:
            builder.add_body(
                f"link{i}", parent=f"link{parent}", placement=pose(links.screws[i]), axis=(0, 0, 1), **body
            )
    for k, tip in enumerate(links.tips):
        builder.add_frame(f"tip{k}", body=f"link{tip}", placement=(links.rotations[k].T, links.positions[k]))
    return builder.build(), tuple(f"tip{k}" for k in range(len(links.tips)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("variant", MECHANISMS)
def test_inverse_inertia_is_that_of_the_library(variant: str, algorithm: str) -> None:
    robot, frames = twin(variant)
    q, links = robot.neutral(), links_of(variant)
    expected = robot.tasks(frames).at(q).inverse_inertia
    tolerance = bound(robot.nv, condition(robot.mass_matrix(q)))
    assert_close(links.matrix(ALGORITHMS[algorithm](links)), expected, tolerance)


def test_end_effectors_on_different_trees_do_not_feel_each_other() -> None:
    links = Links([-1, -1, 0, 1], False, [2, 3])
    for algorithm in ALGORITHMS.values():
        result = links.matrix(algorithm(links))
        assert not result[:6, 6:].any()
        assert result[:6, :6].any()


def cost(run: Callable[[Tally], Any]) -> tuple[int, int]:
    """Multiplications and additions."""
    tally = Tally()
    with tally.part("all"):
        run(tally)
    whole = sum(tally.parts().values(), Count())
    return whole.multiplications, whole.additions


def pair(tally: Tally) -> tuple[Screw, Screw]:
    return Screw(X, 0.3, 0.4, True, tally), Screw(Z, 0.7, 0.2, False, tally)


def through(tally: Tally, method: str, value: Array) -> Array:
    for screw in reversed(pair(tally)):
        value = getattr(screw, method)(value)
    return value


def test_published_costs() -> None:
    """Standard costs of two screws, and the entries of the paper's appendix that do not depend on others."""
    rng = np.random.default_rng(1)
    vector, matrix = rng.uniform(1, 2, 6), rng.uniform(1, 2, (6, 6))

    def rigid(tally: Tally) -> None:
        h, inertia = tally.numbers(vector[:3]), tally.numbers(matrix[:3, :3] + matrix[:3, :3].T)
        for screw in reversed(pair(tally)):
            h, inertia = screw.rigid(2.0, h, inertia)

    def privileged(tally: Tally) -> None:
        held = matrix + matrix.T
        held[2, :] = held[:, 2] = 0.0
        Screw(Z, 0.7, 0.0, False, tally).inertia(tally.numbers(held))

    def columns(tally: Tally) -> None:
        for column in tally.numbers(matrix).T:
            Screw(Z, 0.7, 0.0, False, tally).motion(column)

    def accumulated(tally: Tally) -> None:
        held = matrix + matrix.T
        held[2, :] = held[:, 2] = 0.0
        add(tally.numbers(matrix + matrix.T), Screw(Z, 0.7, 0.0, False, tally).inertia(tally.numbers(held)))

    def one_row_less(tally: Tally) -> None:
        propagator = tally.numbers(matrix)
        propagator[2] = 0
        tally.numbers(matrix) @ propagator

    assert cost(lambda t: through(t, "force", t.numbers(vector))) == (20, 12)
    assert cost(rigid) == (32, 33)
    assert cost(privileged) == (22, 25)
    assert cost(accumulated) == (22, 25 + 15)
    assert cost(columns) == (48, 24)
    assert cost(lambda t: t.numbers(matrix) @ t.numbers(matrix)) == (216, 180)
    assert cost(one_row_less) == (216 - 36, 180 - 36)
    links = links_of("hands_feet")
    with links.tally.part("pair"):
        for k in (0, 1):
            for column in links.tally.numbers(matrix):
                links.at_effector(k, column)
    assert links.tally.parts()["pair"] == Count(288, 216)


def test_the_inverse_of_the_base_takes_231_operations() -> None:
    rng, tally = np.random.default_rng(3), Tally()
    root = rng.uniform(-1, 1, (6, 6))
    matrix = root @ root.T + np.eye(6)
    with tally.part("K"):
        found = inverse(tally.numbers(matrix))
    assert_close(values(found) @ matrix, np.eye(6), bound(6, condition(matrix)))
    assert tally.parts()["K"] == Count(120, 90, 21)
    assert tally.total == 231


def test_a_privileged_child_needs_less_than_is_published() -> None:
    """X Λ⁻¹ Xᵀ of the privileged child: 63m + 54a in the paper's appendix."""
    matrix = np.random.default_rng(4).uniform(1, 2, (6, 6))
    assert cost(lambda t: Screw(Z, 0.7, 0.0, False, t).compliance(t.numbers(matrix + matrix.T))) == (30, 29)


def test_a_congruence_at_an_end_effector_needs_less_than_is_published() -> None:
    """Λ⁻¹(k, k) in the coordinates of an end-effector: 137m + 137a. Screws along z, x and z reach any placement."""
    matrix = np.random.default_rng(5).uniform(1, 2, (6, 6))

    def effector(tally: Tally) -> None:
        turned = tally.numbers(matrix + matrix.T)
        for axis in (Z, X, Z):
            turned = Screw(axis, 0.7, 0.3, True, tally).compliance(turned)

    assert cost(effector) == (114, 120)


@pytest.mark.parametrize("method", ["inertia", "compliance"])
def test_congruences_are_those_of_the_transform(method: str) -> None:
    tally = Tally()
    matrix = np.random.default_rng(2).uniform(-1, 1, (6, 6))
    matrix = matrix + matrix.T
    for screw in pair(tally):
        X6 = np.array([values(screw.motion(tally.numbers(column))) for column in np.eye(6)]).T
        expected = X6.T @ matrix @ X6 if method == "inertia" else X6 @ matrix @ X6.T
        assert_close(values(getattr(screw, method)(tally.numbers(matrix))), expected, bound(6))
        back = np.array([values(screw.force(tally.numbers(column))) for column in np.eye(6)]).T
        assert_close(back, X6.T, bound(6))


def test_structural_zeros_and_ones_cost_nothing() -> None:
    tally = Tally()
    x = Number(3.0, tally)
    with tally.part("free"):
        assert [values(np.array(y, dtype=object)) for y in (x + 0, 0 + x, 1 * x, -x, x - 0)] == [3, 3, 3, -3, 3]
        assert x * 0 == 0
        assert 0 / x == 0
    with tally.part("dear"):
        assert [y.value for y in (x + x, x - x, 1 - x, x * x, x / x, 1 / x, x.sqrt())] == pytest.approx(
            [6, 0, -2, 9, 1, 1 / 3, 3**0.5]
        )
    assert tally.parts() == {"free": Count(), "dear": Count(1, 3, 2, 1)}


def test_changes_of_coordinates_weigh_most_on_pairs_and_least_on_sparse_factorisation() -> None:
    shares = {}
    for name in ("SFA", "EFPA", "RJK"):
        tally = operations("hands_feet", name)
        shares[name] = tally.changing_coordinates().total / tally.total
    assert shares["SFA"] < 0.4
    assert 0.6 < shares["EFPA"] < 0.7
    assert shares["RJK"] > 0.7
