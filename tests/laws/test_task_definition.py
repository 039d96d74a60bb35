"""Random tasks and contacts, singular or not, against their dense definition. `tests/fuzz/tasks.py` hunts further."""

from __future__ import annotations

import pytest

from tests.fuzz.tasks import Problem, check, problems


def found(seed: int) -> Problem:
    return next(problems(seed))


@pytest.mark.parametrize("seed", [0, 1, 4, 8, 14, 16])
def test_tasks_and_contacts_are_those_of_the_definition(seed: int) -> None:
    counts, wrong = check(found(seed), 60)
    assert not wrong, wrong[:3]
    assert counts["cases"] == 60
    assert counts["ambiguous"] <= 6
