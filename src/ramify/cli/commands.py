"""The commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

import ramify as rf
from ramify.cli.demo import run

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ramify {rf.__version__}")
        raise typer.Exit


@app.callback()
def ramify(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Dynamics of branching robots."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random states.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a batch.")] = 1024,
) -> None:
    """Check and time every function on the built-in humanoid.

    Prints its tree, checks forward against inverse dynamics, compiles all functions, and shows what each of them costs.
    The exit code is 1 if the check fails.
    """
    if not run(Console(), seed, batch):
        raise typer.Exit(1)
