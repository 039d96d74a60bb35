"""Every public name exists, is documented, and is reached by one path."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import kinetree as kt


@pytest.mark.parametrize("name", kt.__all__)
def test_public_names_exist_and_are_documented(name: str) -> None:
    thing = getattr(kt, name)
    if isinstance(thing, ModuleType) or inspect.isclass(thing) or callable(thing):
        assert inspect.getdoc(thing), f"kinetree.{name} has no docstring"


def test_no_name_is_given_twice() -> None:
    assert len(set(kt.__all__)) == len(kt.__all__)


def test_nothing_else_stands_at_the_front_door() -> None:
    """Anything that is visible but not listed is a second path to something."""
    public = {
        name for name, thing in vars(kt).items() if not name.startswith("_") and not isinstance(thing, ModuleType)
    }
    assert public - set(kt.__all__) <= {"annotations"}


def test_one_object_has_one_name() -> None:
    things: dict[int, str] = {}
    for name in kt.__all__:
        thing = getattr(kt, name)
        if isinstance(thing, (str, int, float, tuple)):
            continue
        assert id(thing) not in things, f"kinetree.{name} and kinetree.{things[id(thing)]} are the same"
        things[id(thing)] = name


@pytest.mark.parametrize("name", [name for name in kt.__all__ if isinstance(getattr(kt, name), ModuleType)])
def test_public_modules_are_imported_by_the_name_they_are_used_by(name: str) -> None:
    assert importlib.import_module(f"kinetree.{name}") is getattr(kt, name)
    assert getattr(kt, name).__name__ == f"kinetree.{name}"


@pytest.mark.parametrize("name", [name for name in kt.__all__ if inspect.isclass(getattr(kt, name))])
def test_public_methods_are_documented(name: str) -> None:
    for method, thing in inspect.getmembers(getattr(kt, name)):
        if method.startswith("_") or not getattr(thing, "__module__", "").startswith("kinetree"):
            continue
        assert inspect.getdoc(thing), f"kinetree.{name}.{method} has no docstring"


def test_importing_starts_nothing() -> None:
    """No thread, and nothing heavy that not everybody needs."""
    code = (
        "import sys, threading, kinetree\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "late = {'lxml.etree', 'scipy', 'matplotlib', 'rich', 'typer', 'mujoco', 'pinocchio'}\n"
        "assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
