"""Loads spoilt URDFs: each must give a model or a `LoadError`, soon and in bounded memory.

    python -m tests.fuzz.urdf --count 100000

A file that does not is written to the directory of --keep.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import ROBOT, URDF
from tests.fuzz.run import run


def options_of(rng: random.Random) -> dict[str, Any]:
    """Arguments of `load` that no file makes wrong."""
    return {"floating_base": rng.random() < 0.3, "mimic": rng.choice(("couple", "independent", "lock"))}


def seeds(folder: Path | None) -> tuple[str, ...]:
    """The built-in robot, and the URDFs below a folder that are not too long to spoil many times."""
    files = sorted(folder.rglob("*.urdf")) if folder is not None else []
    texts = (file.read_text(encoding="utf-8") for file in files)
    return (ROBOT, ROBOT, *(text for text in texts if len(text) < 20_000))


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", seeds, URDF, ".urdf", options_of))
