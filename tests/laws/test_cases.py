"""The mechanisms of the laws share their kernels, or tests would take twice as long; each kind runs in every way."""

from __future__ import annotations

from itertools import product

import pytest

from kinetree.recursion.variants import Variants
from tests.laws.cases import cases, model


@pytest.mark.parametrize("name", ["forest", "many tips", "10 km away"])
def test_mechanisms_share_their_kernels(name: str) -> None:
    """If this fails, choose other seeds in `cases.py`: kinds include the shapes of placements, which are random."""
    assert Variants.of(model(name).mechanism, ()).key == Variants.of(model("every kind").mechanism, ()).key


def test_every_kind_runs_alone_and_in_batches() -> None:
    """On the world and on other bodies, with its shapes; and so does armature."""
    found, everything = set(), set()
    for case in cases(long=False):
        for kind, parent in Variants.of(case.robot.mechanism, ()).nodes:
            features = [f"{kind.name.replace('_armature', '')}<{parent}", *["armature"] * ("_armature" in kind.name)]
            everything.update(features)
            if case.engine == "native":
                found.update((feature, case.shape == ()) for feature in features)
    assert found == set(product(everything, (True, False)))
