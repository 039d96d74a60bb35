"""What a release rests on: one version, a dated changelog, metadata. `make release-check` builds and installs."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from pathlib import Path

import pytest

import kinetree as kt
from tools import documented_commands, release_check

ROOT = Path(__file__).parents[2]


def copy_of(tmp_path: Path, **replaced: str) -> Path:
    """The files that the checks read, some with other content."""
    for name in ("src/kinetree/__init__.py", "CITATION.cff", "CHANGELOG.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replaced.get(path.stem.strip("_"), (ROOT / name).read_text("utf-8")), encoding="utf-8")
    return tmp_path


def test_the_version_comes_from_one_place() -> None:
    assert release_check.version() == kt.__version__ == importlib.metadata.version("kinetree")
    assert "version =" not in (ROOT / "pyproject.toml").read_text("utf-8").split("[project.optional-dependencies]")[0]


def test_a_citation_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_check, "ROOT", copy_of(tmp_path, CITATION="version: 9.9.9\n"))
    with pytest.raises(release_check.CheckFailed, match=r"cites version 9\.9\.9, the package is "):
        release_check.version()


def test_a_release_has_a_dated_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        release_check, "ROOT", copy_of(tmp_path, CHANGELOG="## [Unreleased]\n\n## [0.1.0] - 2026-01-31\n")
    )
    release_check.check_changelog("0.1.0")
    with pytest.raises(release_check.CheckFailed, match=r"not start with a section '## \[0\.2\.0\] - YYYY-MM-DD'"):
        release_check.check_changelog("0.2.0")
    copy_of(tmp_path, CHANGELOG="## [Unreleased]\n\n## [0.1.0] - 2026-02-30\n")
    with pytest.raises(release_check.CheckFailed, match=r"dates 0\.1\.0 2026-02-30: day"):
        release_check.check_changelog("0.1.0")


def test_the_changelog_begins_with_the_version() -> None:
    """What is under Unreleased belongs to the next one."""
    sections = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    number, date = sections[1]
    assert number == kt.__version__
    assert re.fullmatch(r" - \d{4}-\d{2}-\d{2}", date)


def test_an_extra_that_fails_does_not_hide_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(wheel: Path, scratch: Path, extra: str) -> int:
        if extra == "jax":
            return 2
        raise release_check.CheckFailed("does not import")

    monkeypatch.setattr(release_check, "environment", lambda where, _: where)
    monkeypatch.setattr(release_check, "try_blocks", lambda *_: 1)
    monkeypatch.setattr(release_check, "try_extra", tried)
    with pytest.raises(release_check.CheckFailed, match=r"(?s)\[qp\] does not import.*\[usd\] does not import"):
        release_check.install(tmp_path / "a.whl", tmp_path, ["qp", "jax", "usd"])


def test_nothing_is_left_unreleased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "## [Unreleased]\n\n- Something.\n\n## [0.1.0] - 2026-01-31\n"
    monkeypatch.setattr(release_check, "ROOT", copy_of(tmp_path, CHANGELOG=text))
    with pytest.raises(release_check.CheckFailed, match=r"entries under \[Unreleased\]"):
        release_check.check_changelog("0.1.0")


def test_a_failing_command_is_shown_with_its_output() -> None:
    with pytest.raises(release_check.CheckFailed, match="(?s)git no-such-command.*not a git command"):
        release_check.run("git", "no-such-command")


def test_every_extra_of_users_is_tried() -> None:
    section = (ROOT / "pyproject.toml").read_text("utf-8").split("[project.optional-dependencies]")[1].split("\n[")[0]
    provided = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))
    development = {"bench", "bridges", "docs", "release", "test"}
    assert set(release_check.EXTRAS) == provided - development


@pytest.mark.parametrize("extra", release_check.BLOCKS)
def test_blocks_of_documents_are_found(extra: str) -> None:
    assert len(release_check.blocks_of(extra)) == len(release_check.BLOCKS[extra]) - 1
    assert any({"qp": "WholeBody"}.get(extra, extra) in block for block in release_check.blocks_of(extra))


def test_a_block_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(release_check.BLOCKS, "jax", ("docs/learning.md", "import nothing"))
    with pytest.raises(release_check.CheckFailed, match="0 blocks with the line 'import nothing'; BLOCKS needs one"):
        release_check.blocks_of("jax")


def test_the_matrix_is_that_of_the_classifiers() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix
    assert re.findall(r"3\.\d+", matrix[1]) == declared == ["3.10", "3.11", "3.12", "3.13", "3.14"]


def test_documented_commands_are_found_and_know_their_extras() -> None:
    found = [shlex.join(words) for words in documented_commands.documented()]
    assert "kinetree demo" in found
    assert len(found) > 15
    extras = {shlex.join(words): documented_commands.extras_of(words) for words in documented_commands.documented()}
    assert extras["kinetree view robot.urdf --film robot.mp4"] == "cli,video"
    assert extras["kinetree view"] == "cli,viewer"
    assert extras["kinetree info robot.urdf"] == "cli"


def test_documented_commands_write_to_files_of_their_own() -> None:
    """All of them run in one folder."""
    outs = [words[words.index("--out") + 1] for words in documented_commands.documented() if "--out" in words]
    assert len(outs) == len(set(outs)) > 1


def test_a_documented_command_that_fails_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\n[ "$1" = demo ] || { echo "no $1" >&2; exit 2; }\n')
    program.chmod(0o755)
    assert documented_commands.try_command(["kinetree", "demo"], program, tmp_path) == ""
    trouble = documented_commands.try_command(["kinetree", "info", "a b.urdf"], program, tmp_path)
    assert trouble == "kinetree info 'a b.urdf': exit code 2\nno info\n"
    # one that should have stayed, and printed an address
    assert "exit code 2" in documented_commands.try_command(["kinetree", "view"], program, tmp_path)
