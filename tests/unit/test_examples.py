"""The examples run, and do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

#: Each returns how far it is from what it wants; this is what it may be.
ALLOWED = {
    "one_arm": 2e-3,
    "two_hands": 1e-3,
    "on_two_feet": 1e-8,
    "upright": 1e-3,
    "reach": 1.5e-2,
    "payload": 5e-3,
    "thousand_poses": 2e-6,
    "quadruped": 1e-3,
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = runpy.run_path(str(path))
    result = names["main"]()
    assert capsys.readouterr().out
    if path.stem in ALLOWED:
        assert result < ALLOWED[path.stem]


@pytest.mark.parametrize("name", ["upright", "reach", "payload", "quadruped"])
def test_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for one, the example draws it."""
    (path,) = (path for path in EXAMPLES if path.stem == name)
    names: dict[str, Any] = runpy.run_path(str(path))
    shorter = {"SECONDS": 0.5, "ITERATIONS": 2}
    for constant, value in shorter.items():
        if constant in names:
            monkeypatch.setitem(names["main"].__globals__, constant, value)
    names["main"](str(tmp_path / "picture.png"))
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
