"""Bridges to libraries that are not installed say what to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(("name", "library"), [("jax", "JAX"), ("torch", "PyTorch")])
def test_a_missing_library_is_named(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for module in [module for module in sys.modules if f"{module}.".startswith(f"kinetree.{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=rf'kinetree\.{name} needs {library}: pip install "kinetree\[{name}\]"'):
        import_module(f"kinetree.{name}")
