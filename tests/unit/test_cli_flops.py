"""`kinetree flops`: the tables, what holds of the papers, the picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from kinetree.algorithms.operational_space import METHODS
from kinetree.cli import app
from kinetree.zoo import ASIMO_VARIANTS


def test_tables_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "flops.png"
    result = CliRunner().invoke(app, ["flops", "--plot", str(picture)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert "…" not in result.output  # nothing is cut off in a narrow window
    assert all(variant in result.output for variant in ASIMO_VARIANTS)
    assert all(method in result.output for method in METHODS)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json_tells_what_holds() -> None:
    result = CliRunner().invoke(app, ["flops", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert set(found["counts"]) == set(ASIMO_VARIANTS)
    assert set(found["link_coordinates"]) == set(ASIMO_VARIANTS)
    relations = {relation["claim"]: relation for relation in found["relations"]}
    differs = {where: [c for c, r in relations.items() if not r[where]["holds"]] for where in ("here", "links")}
    assert differs == {
        "here": ["SFA/EFPA, hands and feet", "and raise RJK/SFA by"],
        "links": ["SFA/EFPA, hands and feet"],
    }
    assert all(share in " ".join(found["reasons"]) for share in ("96%", "87%", "80%", "62%", "43%"))


def test_unknown_paper() -> None:
    result = CliRunner().invoke(app, ["flops", "--paper", "999"])
    assert result.exit_code == 2
    assert "001" in result.output


def test_linearised_dynamics(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "flops.png"
    result = CliRunner().invoke(app, ["flops", "--paper", "003", "--plot", str(picture)], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "from n = 16 on by the paper's formulas" in result.output
    assert "Not credible" in result.output
    assert "Here they are 36 and" in result.output
    assert "[259n − 129] M + [232n − 123] A" in result.output
    assert "[n³/6 + 3n²/2 + 952n/3 − 153] M" in result.output
    rows = [
        line.split() for line in result.output.splitlines() if len(line.split()) == 13 and line.split()[0].isdigit()
    ]
    assert [int(row[0]) for row in rows if row[0] != "1" or row[1] != "1"] == list(range(1, 51))
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(CliRunner().invoke(app, ["flops", "--paper", "003", "--json"]).output)
    assert found["crossover"]["published"] == 16
    assert 8 <= found["crossover"]["counted"] <= 16
    assert found["counts"]["published"]["6"]["10"]["multiplications"] == 36 * 100 + 781 * 10 - 225
    # grows with the powers that the algorithms are named for
    totals = {i: [sum(of[n].values()) for n in ("25", "50")] for i, of in found["counts"]["counted"].items()}
    growth = {i: long / short for i, (short, long) in totals.items()}
    assert max(growth["1"], growth["5"]) < 2.1
    assert max(growth["2"], growth["6"]) < 4.0
    assert growth["4"] > 5.0
