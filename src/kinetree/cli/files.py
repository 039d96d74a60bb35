"""Loading of robots for the commands: warnings are collected, errors printed without a traceback."""

from __future__ import annotations

import warnings
from pathlib import Path

import typer

import kinetree as kt
from kinetree.cli.exit_codes import UNUSABLE
from kinetree.cli.terminal import safe
from kinetree.errors import KinetreeError, ModelWarning


def load(path: Path, floating_base: bool, mimic: str = "couple") -> tuple[kt.Model, list[str]]:
    """Load a robot; returns it with the warnings about its file.

    Args:
        path: URDF or MJCF.
        floating_base: Whether its root floats.
        mimic: What becomes of mimic joints; see `kinetree.load`.

    Raises:
        typer.Exit: With the code `UNUSABLE`, after printing the error.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            robot = kt.load(path, floating_base=floating_base, mimic=mimic)
        except KinetreeError as error:
            typer.echo(f"{type(error).__name__}: {safe(error)}", err=True)
            raise typer.Exit(UNUSABLE) from None
    return robot, [safe(one.message) for one in caught if issubclass(one.category, ModelWarning)]
