"""The notebooks run from top to bottom, and are stored without output."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import oracle

matplotlib = oracle("matplotlib")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = document["cells"]
    return found


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    found = cells(path)
    assert found[0]["cell_type"] == "markdown"
    assert len({cell["id"] for cell in found}) == len(found)
    for number, cell in enumerate(found):
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        source = "".join(cell["source"])
        exec(compile(ast.parse(source), f"{path.name}, cell {number}", "exec"), names)
    assert capsys.readouterr().out
    names["plt"].close("all")
