"""Other libraries and compilers as witnesses: without them tests are skipped, but never silently on a build machine."""

from __future__ import annotations

import importlib
import os
import shutil
from types import ModuleType

import pytest


def oracle(name: str) -> ModuleType:
    """Import an oracle at the top of a test module.

    Without it the module is skipped; under `CI=true` it fails, because a check that nobody runs is not a check.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if _on_build_machine():
            pytest.fail(
                f"the oracle {name!r} is missing ({error}); pip install 'kinetree[test,bridges]'", pytrace=False
            )
        pytest.skip(f"the oracle {name!r} is not installed", allow_module_level=True)


def program(*names: str) -> str:
    """The path of a compiler or browser, by the first of its names that is known here."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and _on_build_machine():
        pytest.fail(f"{names[0]} is not installed: make programs", pytrace=False)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


def _on_build_machine() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")
