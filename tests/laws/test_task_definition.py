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


def test_contacts_that_are_dependent_and_nearly_so_at_once() -> None:
    """Four rows of contacts, of rank three, whose third direction has an eigenvalue of 3e-8.

    Taken from J M⁻¹ Jᵀ alone, its eigenvector would be mixed with the direction that nothing moves by eps/3e-8.
    """
    counts, wrong = check(found(1012), 5000, only=[513, 4509])
    assert not wrong
    assert counts["redundant contacts"] == 2
    assert counts["worst contact_inertia"] < 50_000, "more than a twentieth of the tolerance"
