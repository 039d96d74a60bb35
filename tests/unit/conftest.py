"""What unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kinetree.runtime import threads


@pytest.fixture(autouse=True)
def _default_threads() -> Iterator[None]:
    """Tests may set the number of threads: the next one finds the default again."""
    yield
    if threads._count is not None:
        threads.set_threads(None)
