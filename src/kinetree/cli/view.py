"""Show a robot in a browser, or write a film that moves each of its joints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import typer

import kinetree as kt
from kinetree.cli.exit_codes import UNUSABLE
from kinetree.cli.terminal import safe
from kinetree.errors import KinetreeError, LoopError, ModelWarning
from kinetree.spatial.value import Array
from kinetree.viewer.sliders import configuration_of, coordinates, values_of

# Time for each joint to move through its range and back [s]; less if the film would exceed a minute.
_SECONDS, _LONGEST = 1.5, 60.0

_T = TypeVar("_T")


def film(path: Path, robot: kt.Model, visuals: Path | None, package_roots: Sequence[Path]) -> None:
    """Write a film in which the joints move through their ranges one after the other."""
    q, time = sweep(robot)
    written = _told(lambda: kt.viewer.film(path, robot, q, time, visuals=visuals, package_roots=package_roots))
    typer.echo(f"{safe(written)}: {time[-1]:.0f} s, {written.stat().st_size / 1e6:.1f} MB")


def show(robot: kt.Model, visuals: Path | None, package_roots: Sequence[Path], port: int) -> None:
    """Show a robot until the user interrupts."""
    with _told(lambda: kt.viewer.View(robot, visuals=visuals, package_roots=package_roots, port=port)) as view:
        try:
            typer.echo(f"{safe(robot.name)}: {view.url} (stop with Ctrl-C)")
            view.wait()
        except KeyboardInterrupt:  # the usual end
            typer.echo()


def sweep(robot: kt.Model) -> tuple[Array, Array]:
    """A motion in which each coordinate moves to its upper limit, to its lower limit, and back.

    Returns:
        Configurations, (T, nq), and times, (T,) [s].
    """
    start = robot.neutral()
    free = [joint for joint in robot.joints if joint.nv]
    moved = [joint for joint in free if not (joint.kind == "floating" and joint.parent == "world")]
    count = sum(joint.nv for joint in moved)
    step = min(_SECONDS, _LONGEST / max(count, 1)) / 8.0
    motion = [start]
    for joint in moved:
        rest = values_of(joint, start[joint.q_slice])
        for i, coordinate in enumerate(coordinates(joint)):
            low, high = coordinate.lower, coordinate.upper
            # no two successive values are half a turn apart, where the direction of rotation would be ambiguous
            for value in (
                *np.linspace(rest[i], high, 3)[1:],
                *np.linspace(high, low, 5)[1:],
                *np.linspace(low, rest[i], 3)[1:],
            ):
                values, q = rest.copy(), start.copy()
                values[i] = value
                q[joint.q_slice] = configuration_of(joint, values)
                try:
                    motion.append(robot.close(q))
                except LoopError:  # beyond what a loop allows
                    continue
    return np.array(motion), step * np.arange(len(motion))


def _told(make: Callable[[], _T]) -> _T:
    """Call a function and return its result; warnings are printed, and errors terminate the command."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            result = make()
        except KinetreeError as error:
            typer.echo(f"{type(error).__name__}: {safe(error)}", err=True)
            raise typer.Exit(UNUSABLE) from None
    for one in caught:
        if issubclass(one.category, ModelWarning):
            typer.echo(f"warning: {safe(one.message)}", err=True)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return result
