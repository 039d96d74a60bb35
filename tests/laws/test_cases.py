"""The mechanisms of the laws share their kernels, without which the tests would take twice as long."""

from __future__ import annotations

import pytest

from kinetree.language.setup import Variants
from tests.laws.cases import model


@pytest.mark.parametrize("name", ["forest", "many tips", "10 km away"])
def test_mechanisms_share_their_kernels(name: str) -> None:
    """If this fails, choose other seeds in `cases.py`: kinds include the shapes of placements, which are random."""
    assert Variants.of(model(name).mechanism, ()).key == Variants.of(model("every kind").mechanism, ()).key
