"""Expands xacro files, with the xacro program in a child process.

A xacro file is a program: it evaluates expressions, reads any file that it includes, and can grow without bound. So it
is expanded only if the user permits it, with limits on time and memory.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinetree.errors import InputError, LoadError
from kinetree.loading.source import LARGEST, Source

INSTALL = 'pip install "kinetree[xacro]"'

#: Limits on time [s] and address space [bytes].
PATIENCE, MEMORY = 30.0, 2 * 2**30

# code of the child: set the limits, then run xacro's command line
_CHILD = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
except (ImportError, ValueError):
    pass
import xacro
xacro.main()
"""


def expanded(source: Source, arguments: Mapping[str, Any]) -> Source:
    """The URDF that a xacro file describes.

    Args:
        source: The file, which xacro reads again, together with its includes.
        arguments: Arguments of the file, by name.

    Raises:
        InputError: If an argument is not a string, number or Boolean, or the source is not a file.
        LoadError: If xacro is not installed, fails, or takes too long.
    """
    if source.path is None:
        raise InputError("xacro= needs a file, since xacro looks for includes beside it; pass its path")
    words = []
    for name, value in arguments.items():
        if not isinstance(name, str) or not name.isidentifier() or not isinstance(value, (str, int, float)):
            raise InputError(
                f"xacro={{{name!r}: {value!r}}} is not a valid argument; pass strings, numbers or Booleans by name"
            )
        words.append(f"{name}:={str(value).lower() if isinstance(value, bool) else value}")
    if importlib.util.find_spec("xacro") is None:
        raise LoadError(f"needs xacro to expand it, which is not installed. Install it with: {INSTALL}", source.file)
    command = [sys.executable, "-c", _CHILD.format(memory=MEMORY), str(Path(source.path).absolute()), *words]
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter, and names that were checked)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"takes more than {PATIENCE:g} s to expand; does a macro call itself?", source.file) from None
    if done.returncode or len(done.stdout) > LARGEST:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[-500:] or "too much output"
        hint = "; set up ROS for $(find …)" if "ament_index_python" in reason else ""
        raise LoadError(f"xacro cannot expand it: {reason}{hint}", source.file)
    return Source.expanded(done.stdout, source)
