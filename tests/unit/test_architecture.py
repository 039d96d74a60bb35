"""What the pages about the architecture say: the way of a first call, and the files that they name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "architecture.md"
SOURCES = DOCS.parent / "src" / "kinetree"
TRACED = """
import os, sys
import numpy as np
import kinetree as kt

robot, root, visited = kt.zoo.double_pendulum(), os.path.dirname(kt.__file__), {}

def enter(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        visited.setdefault(os.path.relpath(frame.f_code.co_filename, root).replace(os.sep, "/"))

function, zero = robot.forward_dynamics, np.zeros(2)
for _ in range(2):
    visited.clear()
    sys.setprofile(enter)
    function(zero, zero, zero)
    sys.setprofile(None)
    print(*visited)
"""


def test_the_walk_of_a_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    monkeypatch.setenv("KINETREE_THREADS", "1")  # others may begin with anything
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=True)
    first, later = (line.split() for line in done.stdout.split("\n")[:2])
    section = PAGE.read_text(encoding="utf-8").split("## The life of a call")[1]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    told = [file for row in rows for file in re.findall(r"`([\w/]+\.py)`", row.split(" | ")[0])]
    assert len(told) > 20
    assert told == [file for file in first if file in told]
    assert not later  # machine code only


@pytest.mark.parametrize("page", [PAGE, *sorted((DOCS / "architecture").glob("*.md"))], ids=lambda page: page.stem)
def test_files_named_on_the_pages_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", page.read_text(encoding="utf-8")))
    assert named
    missing = {name for name in named if not any((root / name).exists() for root in (SOURCES, DOCS.parent))}
    assert not missing
