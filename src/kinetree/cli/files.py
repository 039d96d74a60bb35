"""Robots from files, for commands: warnings collected, errors printed without a traceback."""

from __future__ import annotations

import warnings
from pathlib import Path

import typer

import kinetree as kt
from kinetree.errors import KinetreeError, ModelWarning

#: What the exit code says when a file cannot be used.
UNUSABLE = 2


def load(path: Path, floating_base: bool) -> tuple[kt.Model, list[str]]:
    """A robot and what its file's author should know.

    Args:
        path: URDF or MJCF.
        floating_base: Whether its root floats.

    Raises:
        typer.Exit: With the code `UNUSABLE`, after printing what is wrong.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            robot = kt.load(path, floating_base=floating_base)
        except KinetreeError as error:
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(UNUSABLE) from None
    return robot, [str(one.message) for one in caught if issubclass(one.category, ModelWarning)]
