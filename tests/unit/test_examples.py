"""The examples and notebooks run, and do what they say; notebooks are stored without output."""

from __future__ import annotations

import ast
import inspect
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import oracle

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
    "draw": 1e-3,
    "two_arms": 1e-4,
    "crossed_arms": 1e-3,
    "squat": 1e-4,
    "four_bar": 2e-4,
    "delta": 1e-4,
    "quadruped": 1e-3,
    "spin_up": 2e-3,
    "swing_up": 5e-3,
    "reach_limits": 1e-6,
    "jump": 1e-3,
    "mpc_push": 1e-3,
    "thousand_reaches": 5e-3,
    "bent_arm": 1e-7,
    "ten_million_samples": 5e-3,
    "friction_from_slide": 2e-3,
    "push_box": 1e-6,
    "hopping_leg": 1e-12,
    "tune_gains": 0.25,
    "calibrate_arm": 1e-3,
    "design_arm": 1e-5,
    "gripper": 1e-12,
    "rough_ground": 2e-3,
    "humanoid_falls": 0.05,
}
#: What some of them need besides the library.
NEEDED = {"ten_million_samples": ("dask.array", "distributed", "zarr", "clarabel")}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs, says something, does what it says, and draws its picture, or its film, if it has one."""
    for library in NEEDED.get(path.stem, ()):
        oracle(library)  # skips where it is not installed
    names: dict[str, Any] = runpy.run_path(str(path))
    drawn = next(iter(inspect.signature(names["main"]).parameters), None)
    suffix, start = (".html", b"<!doctype html>") if drawn == "film" else (".png", b"\x89png")
    file = tmp_path / f"drawn{suffix}"
    result = names["main"](str(file)) if drawn else names["main"]()
    assert capsys.readouterr().out
    assert path.stem in ALLOWED
    assert result < ALLOWED[path.stem]
    if drawn:
        assert file.read_bytes().lower().startswith(start)


def test_all_examples_are_listed_by_what_they_say_of_themselves() -> None:
    page = (Path(__file__).parents[2] / "docs/examples.md").read_text(encoding="utf-8")
    for path in EXAMPLES:
        said = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0].replace("\n", " ")
        assert page.count(f"| [`{path.name}`](../examples/{path.name}) | {said} |") == 1
    for path in NOTEBOOKS:
        assert page.count(f"[`{path.name}`](../examples/notebooks/{path.name})") == 1


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
    oracle("matplotlib").use("Agg")
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
