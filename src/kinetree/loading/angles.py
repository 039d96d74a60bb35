"""Angles in files that stand for quarter turns: 1.57079632679 is π/2 as far as its digits go."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from decimal import Decimal

from kinetree.loading.document import Document

_log = logging.getLogger("kinetree")
#: Angles are changed by no more than this, however few digits they have [rad].
_MOST = 1e-6


def snapped(document: Document, words: Sequence[str], angles: Sequence[float]) -> list[float]:
    """Angles, with those that are quarter turns rounded to the digits of the file replaced by these.

    Args:
        document: The file; collects by how much angles were changed.
        words: The angles as they are written.
        angles: The same as numbers [rad].
    """
    return [_snapped(document, word, angle) for word, angle in zip(words, angles, strict=True)]


def report_snapped(document: Document) -> None:
    """Log how many angles of a file were changed, and by how much."""
    if document.snapped:
        count, most = len(document.snapped), max(document.snapped)
        _log.info("%s: %d angles replaced by quarter turns, changed by up to %.1e rad", document.file, count, most)


def _snapped(document: Document, word: str, angle: float) -> float:
    quarter = round(angle / (math.pi / 2.0)) * (math.pi / 2.0)
    change = abs(angle - quarter)
    if change == 0.0 or change > _MOST:
        return angle
    # exactly, since the last digit may be beyond those of a float
    unit = Decimal(1).scaleb(int(Decimal(word).as_tuple().exponent))
    if change > unit / 2:
        return angle
    document.snapped.append(change)
    return quarter
