"""Loads spoilt URDFs: each must give a model or a `LoadError`, soon and in bounded memory.

    python -m tests.fuzz.urdf --count 100000

A file that does not is written to the directory of --keep.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from tests.fuzz.mutations import ROBOT, URDF
from tests.fuzz.run import run, spoilt_files


def options_of(rng: random.Random) -> dict[str, Any]:
    """Arguments of `load` that no file makes wrong."""
    return {"floating_base": rng.random() < 0.3, "mimic": rng.choice(("couple", "independent", "lock"))}


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", spoilt_files((ROBOT, ROBOT), URDF, ".urdf", options_of), ".urdf"))
