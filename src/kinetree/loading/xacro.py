"""xacro, expanded by the program of that name in a process of its own.

A xacro file is a program: it evaluates expressions, reads whatever files it includes, and can grow without end. So it
is expanded only if the user says so, and under limits of time and memory.
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

#: Longest time that it may take [s], and most address space that it may use [bytes].
PATIENCE, MEMORY = 30.0, 2 * 2**30

# What the child runs: limits first, then xacro as its command line does.
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
        source: The file, which xacro reads again, with what it includes.
        arguments: Of the file, by name.

    Raises:
        InputError: If an argument is no text, number or truth value, or the source is a text.
        LoadError: If xacro is not installed, fails, or takes too long.
    """
    if source.path is None:
        raise InputError("xacro= takes a file, since xacro looks for what it includes beside it; give its path")
    words = []
    for name, value in arguments.items():
        if not isinstance(name, str) or not name.isidentifier() or not isinstance(value, (str, int, float)):
            raise InputError(
                f"xacro={{{name!r}: {value!r}}} is no argument; give texts, numbers or truth values by name"
            )
        words.append(f"{name}:={str(value).lower() if isinstance(value, bool) else value}")
    if importlib.util.find_spec("xacro") is None:
        raise LoadError(f"is expanded by xacro, which is not installed. Install it with: {INSTALL}", source.file)
    command = [sys.executable, "-c", _CHILD.format(memory=MEMORY), str(Path(source.path).absolute()), *words]
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter, and names that were checked)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadError(
            f"takes xacro more than {PATIENCE:g} s to expand; does a macro call itself?", source.file
        ) from None
    if done.returncode or len(done.stdout) > LARGEST:
        told = " ".join(done.stderr.decode("utf-8", "replace").split())[-500:] or "too much output"
        hint = "; set up ROS for $(find …)" if "ament_index_python" in told else ""
        raise LoadError(f"xacro cannot expand it: {told}{hint}", source.file)
    return Source.expanded(done.stdout, source)
