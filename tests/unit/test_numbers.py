"""Numbers in documents are those that the library gives now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks import numbers


@pytest.mark.parametrize("name", sorted({*numbers.BLOCKS} - {"relations"}))  # see tests/papers
def test_documents_agree_with_the_library(name: str) -> None:
    """Operation counts are counted again; the README's times are those of docs/performance.md."""
    path, make = numbers.BLOCKS[name]
    assert numbers.read(path, name).strip() == make().strip(), f"{path.name}: run `make numbers`"


def test_blocks_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- numbers: one -->\nold\n<!-- end of numbers -->\nafter\n")
    numbers.write(path, "one", "new\n\n")
    assert path.read_text() == "before\n<!-- numbers: one -->\nnew\n<!-- end of numbers -->\nafter\n"
    assert numbers.read(path, "one") == "new\n"


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "speed.png"
    numbers.draw_speed(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_missed_targets_name_what_the_tables_show() -> None:
    """Import and loading are among them for as long as they miss theirs: 0.2 s, and Pinocchio's time."""
    text = numbers.PERFORMANCE.read_text(encoding="utf-8")
    missed = text[text.index("## Missed targets") :]
    seconds = float(re.search(r"import kinetree, beyond NumPy (?:\|  )+\| ([\d.]+) s", text)[1])
    assert ("`import kinetree`" in missed) == (seconds > 0.2)
    loading = [float(x) for x in re.findall(r"ms \| [\d.]+ ms \| ([\d.]+)× \|", text)]
    assert loading
    assert ("loading a URDF" in missed) == (min(loading) < 1.0)
