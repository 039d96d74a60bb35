"""Importing another library as a witness: absent, its tests are skipped, but never silently on a build machine."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest


def oracle(name: str) -> ModuleType:
    """Import an oracle at the top of a test module.

    Without it the module is skipped; under `CI=true` it fails, because a check that nobody runs is not a check.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(
                f"the oracle {name!r} is missing ({error}); pip install 'kinetree[test,bridges]'", pytrace=False
            )
        pytest.skip(f"the oracle {name!r} is not installed", allow_module_level=True)
