"""The documentation site builds without a warning, is complete, and needs nothing from the network."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest

import kinetree as kt

if os.environ.get("CI") != "true":
    for _package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(_package)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds."""
    built = tmp_path_factory.mktemp("site")
    # the garbage collector takes a third of the time
    program = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(built / ".doctrees"), str(ROOT / "docs"), str(built)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    return built


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    assert "forward_dynamics" in (site / "searchindex.js").read_text(encoding="utf-8")


def test_nothing_is_fetched_when_a_page_is_viewed(site: Path) -> None:
    fetched = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//""")
    linked = re.compile(
        r"""<link\b(?=[^>]*rel=["'](?:stylesheet|preload|preconnect|icon))[^>]*href=["'](?:https?:)?//"""
    )
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not fetched.search(text), page
        assert not linked.search(text), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"""(?:@import\s+|url\(\s*)["']?(?:https?:)?//""", sheet.read_text(encoding="utf-8")), (
            sheet
        )


def test_the_reference_has_every_public_name(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    for name in kt.__all__:
        thing = getattr(kt, name)
        if isinstance(thing, ModuleType) or not (inspect.isclass(thing) or callable(thing)):
            continue
        assert f"kinetree.{name}" in documented, f"kinetree.{name} is not in docs/reference"
