"""What Wensing, Featherstone and Orin leave open: J̄ by extended propagators, and sharing support chains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.papers.efpa_response import efpa_response
from kinetree.algorithms.methods import accumulation, inverse_inertia
from kinetree.algorithms.tasks.response import response
from kinetree.compiler.count import count
from kinetree.language.common_frame import in_common_frame
from kinetree.language.setup import Setup
from kinetree.runtime import reference
from kinetree.zoo import asimo35, asimo35_tasks
from tests.tolerance import assert_close, bound, condition
from tests.trees import Mechanism, random_mechanism

TREES = (
    random_mechanism("chain", ["revolute"] * 5, 1, branching=0.0, tips=1),
    random_mechanism("tree", ["floating", "revolute", "spherical", "helical", "planar", "revolute"], 5, armature=0.5),
    random_mechanism("forest", ["revolute"] * 9, 3, roots=3, tips=5),
)


@pytest.mark.parametrize("mechanism", TREES, ids=lambda tree: tree.name)
def test_responses_by_extended_propagators(mechanism: Mechanism) -> None:
    robot = mechanism.kinetree()
    frames = [name for name, *_ in mechanism.tips] + [mechanism.links[-2].name]
    q = robot.random_configuration(np.random.default_rng(0))
    sites = tuple(robot.site(name) for name in frames)
    found = reference.run(efpa_response, robot.mechanism, sites, [q], "efpa_response")
    J, inverse = np.concatenate([robot.jacobian(q, name) for name in frames]), np.linalg.inv(robot.mass_matrix(q))
    for one, expected in zip(found, (J @ inverse @ J.T, inverse @ J.T), strict=True):
        assert_close(one, expected, bound(robot.nv, condition(robot.mass_matrix(q))))


def operations(variant: str, algorithm: Any) -> int:
    robot = asimo35(variant)
    return count(algorithm, robot.mechanism, tuple(robot.site(task) for task in asimo35_tasks(variant))).total


def test_responses_take_as_few_operations_with_the_inverse_inertia_as_alone() -> None:
    counts = {v: operations(v, efpa_response) for v in ("hands_feet", "forefingers_thumbs_feet", "two_arms_two_legs")}
    assert counts == {"hands_feet": 38068, "forefingers_thumbs_feet": 53458, "two_arms_two_legs": 96516}
    alone = {variant: operations(variant, in_common_frame(response("local"))) for variant in counts}
    assert alone == {"hands_feet": 38699, "forefingers_thumbs_feet": 52775, "two_arms_two_legs": 110231}


def test_sharing_the_arms_of_thumbs_and_forefingers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accumulation nodes at both hands take fewer operations than EFPA, but more than the same sweep without any."""
    variant = "forefingers_thumbs_feet"
    robot = asimo35(variant)
    setup = Setup(robot.mechanism, tuple(robot.site(task) for task in asimo35_tasks(variant)))
    counts = {"EFPA": operations(variant, in_common_frame(inverse_inertia("efpa", "local")))}
    rules: dict[str, Any] = {
        "none": lambda *_: False,
        "hands": lambda chain, rows, _: rows == 12 and chain.freedom >= 6,
    }
    for name, rule in rules.items():
        monkeypatch.setattr(accumulation._Chain, "pays", rule)
        chosen = [robot.mechanism.names[k] for k in accumulation.AccumulationNodes(setup.mechanism, setup.rows).nodes]
        assert chosen == {"none": [], "hands": ["torso", "right_hand", "left_hand"]}[name]
        for method in ("efpa_segments", "pv_osim_r"):
            counts[f"{method}, {name}"] = operations(variant, in_common_frame(inverse_inertia(method, "local")))
    assert counts == {
        "EFPA": 37985,
        "efpa_segments, none": 30923,
        "pv_osim_r, none": 30923,
        "efpa_segments, hands": 33755,
        "pv_osim_r, hands": 33323,
    }
