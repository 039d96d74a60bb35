"""Comparisons in tests can fail: none leaves its tolerance to NumPy, whose relative 1e-7 and 1e-5 hide real errors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LENIENT = ("assert_allclose", "allclose", "isclose")


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_every_comparison_states_its_relative_tolerance(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LENIENT:
            given = {keyword.arg for keyword in node.keywords}
            assert "rtol" in given or len(node.args) > 2, f"{path.name}:{node.lineno}: give {node.func.attr} an rtol"
