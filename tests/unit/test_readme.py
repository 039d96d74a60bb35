"""What the README and the documentation show is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kinetree.viewer.browser import BROWSERS
from tests.oracle import oracle, program

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(path: Path, *languages: str) -> list[tuple[int, str]]:
    """Code blocks of a document in one of the given languages, each with the number of its first line."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(2)) + 1, m[2]) for m in BLOCK.finditer(text) if m[1] in languages]


def identify(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_readme_shows_code() -> None:
    assert blocks(ROOT / "README.md", "python"), "README.md should show at least one python block"


@pytest.mark.parametrize("path", DOCUMENTS, ids=identify)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one document share a namespace, top to bottom, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in blocks(path, "python"):
        for library in re.findall(r"^import (jax|torch|dask\.array|xarray)\b", block, re.MULTILINE):
            oracle(library)  # skips where it is not installed
        if "kinetree.identification" in block:
            oracle("clarabel")
        if "viewer.picture" in block:
            program(*BROWSERS)
        # Leading newlines make a traceback point at the document's own line.
        exec(compile("\n" * (line - 1) + block, identify(path), "exec"), namespace)


def commands(path: Path) -> list[list[str]]:
    """Shell lines of a document that call the command line."""
    lines = "\n".join(block for _, block in blocks(path, "sh", "bash", "shell", "console")).splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [line for line in words if line and line[0] == "kinetree"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=identify)
def test_shell_blocks_name_existing_commands(path: Path) -> None:
    found = commands(path)
    if not found:
        return
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from kinetree.cli import app

    for words in found:
        subcommand = [word for word in words[1:2] if not word.startswith("-")]
        result = CliRunner().invoke(app, [*subcommand, "--help"])
        assert result.exit_code == 0, f"{identify(path)}: `{shlex.join(words)}` is not a command:\n{result.output}"
        for option in (word.split("=")[0] for word in words[2:] if word.startswith("--")):
            assert option in result.output, f"{identify(path)}: `{shlex.join(words)}`: no option {option}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=identify)
def test_make_targets_exist(path: Path) -> None:
    lines = "\n".join(block for _, block in blocks(path, "sh", "bash", "shell", "console")).splitlines()
    for line in lines:
        for target in re.findall(r"\bmake ([a-z]+)", line):
            assert target in make_targets(), f"{identify(path)}: `make {target}`"
