"""`python -m benchmarks.papers`: the tables, what holds of the papers, the picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

from benchmarks.papers.__main__ import PAPERS, main
from kinetree.algorithms.methods import ALGORITHMS
from kinetree.zoo import ASIMO_VARIANTS


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(arguments)
    return capsys.readouterr().out


def numbers(capsys: pytest.CaptureFixture[str], paper: str) -> Any:
    return json.loads(shown(capsys, paper, "--json"))


def test_wensing_2012(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("COLUMNS", "80")
    picture = tmp_path / "operations.png"
    output = shown(capsys, "wensing_2012", "--plot", str(picture))
    assert "…" not in output  # nothing is cut off in a narrow window
    assert all(variant in output for variant in ASIMO_VARIANTS)
    assert all(method in output for method in ALGORITHMS)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_which_relations_of_wensing_2012_hold(capsys: pytest.CaptureFixture[str]) -> None:
    found = numbers(capsys, "wensing_2012")
    assert set(found["counts"]) == set(ASIMO_VARIANTS)
    assert set(found["link_coordinates"]) == set(ASIMO_VARIANTS)
    relations = {relation["claim"]: relation for relation in found["relations"]}
    differs = {where: [c for c, r in relations.items() if not r[where]["holds"]] for where in ("here", "links")}
    assert differs == {
        "here": ["SFA/EFPA, hands and feet", "RJK ahead of EFPA on one foot", "and raise RJK/SFA by"],
        "links": ["SFA/EFPA, hands and feet"],
    }
    assert all(share in " ".join(found["reasons"]) for share in ("96%", "87%", "80%", "62%", "43%"))


def test_unknown_paper(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["featherstone_2010"])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert all(paper in told for paper in PAPERS)


def test_jain_rodriguez_1993(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("COLUMNS", "100")
    picture = tmp_path / "operations.png"
    output = shown(capsys, "jain_rodriguez_1993", "--plot", str(picture))
    assert "from n = 16 on by the paper's formulas" in output
    assert "606 M + 559 A per link, not 259 M + 232 A" in output
    assert "takes\n549 M + 483 A" in output
    assert "Here they are 36 and 31" in output
    assert "41 M + 37 A of n²" in output
    assert "12.5 M + 11.5 A, as much as M⁻¹ alone" in output
    assert "28.5 M + 25.5 A: on a chain" in output
    assert "[259n − 129] M + [232n − 123] A" in output
    assert "[n³/6 + 3n²/2 + 952n/3 − 153] M" in output
    rows = [line.split() for line in output.splitlines() if len(line.split()) == 14 and line.split()[0].isdigit()]
    assert [int(row[0]) for row in rows if row[0] != "1" or row[1] != "1"] == list(range(1, 51))
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = numbers(capsys, "jain_rodriguez_1993")
    assert found["crossover"]["published"] == 16
    assert found["crossover"]["counted"] == 16
    assert found["counts"]["published"]["6"]["10"]["multiplications"] == 36 * 100 + 781 * 10 - 225
    # grows with the powers that the algorithms are named for
    totals = {i: [sum(of[n].values()) for n in ("25", "50")] for i, of in found["counts"]["counted"].items()}
    growth = {i: long / short for i, (short, long) in totals.items()}
    assert max(growth["1"], growth["5"], growth["4.6"]) < 2.1
    assert max(growth["2"], growth["6"]) < 4.0
    assert growth["4"] > 5.0
