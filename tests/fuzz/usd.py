"""Loads spoilt USD files: each must give a model or a `LoadError`.

    python -m tests.fuzz.usd --count 10000

usd-core reads them in this process, since a child for each would take most of the time. If it crashes, which `kt.load`
survives, the file is `last.usda` in the directory of --keep; so are files with another outcome.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np

import kinetree as kt
from kinetree.errors import LoadError, ModelWarning
from kinetree.io import usd
from kinetree.io.usd_reader import Refused, describe

VALUES = (
    "0",
    "-1",
    "1e30",
    "nan",
    "inf",
    "-inf",
    "1e-40",
    "(0, 0, 0)",
    "(1, 2, 3, 4)",
    '"X"',
    "</arm>",
    "[]",
    "None",
    "",
)
WORDS = ("Revolute", "Spherical", "Fixed", "Distance", "body0", "body1", "</arm/base>", "</arm/link>", "Xform", "Scope")


def spoilt(text: str, rng: random.Random) -> str:
    """A text with one to four random changes."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(5)
        if kind == 0 and (found := list(re.finditer(r"= ([^\n]+)", text))):
            at = rng.choice(found)
            text = text[: at.start(1)] + rng.choice(VALUES) + text[at.end(1) :]
        elif kind == 1:
            lines = text.split("\n")
            i = rng.randrange(len(lines))
            lines[i : i + 1] = rng.choice(([], [lines[i]] * 2, [rng.choice(lines)]))
            text = "\n".join(lines)
        elif kind == 2 and text:
            i = rng.randrange(len(text))
            text = text[:i] + chr(rng.randrange(32, 127)) + text[i + rng.randrange(3) :]
        elif kind == 3:
            old, new = rng.sample(WORDS, 2)
            text = text.replace(old, new, rng.randint(1, 3))
        elif rng.random() < 0.2:
            text = text[: rng.randrange(len(text) + 1)]
    return text


def outcome(path: Path) -> str:
    """What comes of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ModelWarning)
            model = kt.load(path, floating_base=False)
    except LoadError as error:
        return "refused" if len(str(error)) < 2000 else f"a message of {len(str(error))} characters"
    except Exception as error:  # noqa: BLE001 (that is the question)
        return f"{type(error).__name__}: {error}"
    return "loaded" if np.isfinite(model.mechanism.total_parameters).all() else "constants that are not finite"


def read(path: Path, _: object) -> object:
    """As `usd._read`, in this process."""
    try:
        return describe(str(path), str(path.parent))
    except Refused as error:
        raise LoadError(str(error), str(path)) from None


def main() -> int:
    """Run, and tell how many files did what."""
    from tests.unit.io.test_usd import SEED

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    mock.patch.object(usd, "_read", read).start()
    rng, seen = random.Random(options.seed), Counter[str]()
    for number in range(options.count):
        path = options.keep / f"{number}.usda"  # USD keeps layers by their path
        path.write_text(spoilt(SEED, rng), encoding="utf-8")
        (options.keep / "last.usda").write_bytes(path.read_bytes())
        found = outcome(path)
        seen[found] += 1
        if found in ("loaded", "refused"):
            path.unlink()
    print(dict(seen))
    return 0 if set(seen) <= {"loaded", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
