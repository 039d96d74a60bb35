"""Visuals of a robot's file: shapes fixed to bodies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from kinetree.errors import InputError, LoadError
from kinetree.loading.diagnostics import Diagnostics
from kinetree.loading.source import Source, usd_file
from kinetree.viewer.geometry import Visual
from kinetree.viewer.meshes import Roots

#: Most triangles, in total, sent to a browser.
MOST_FACES = 4_000_000


def read(source: Any, package_roots: Sequence[str | os.PathLike[str]] = ()) -> list[Visual]:
    """The visuals of a URDF or MJCF file.

    Shapes that cannot be drawn are omitted and reported in a `ModelWarning`, with file, line and reason.

    Args:
        source: As for `kinetree.load`: a path or the content of a file.
        package_roots: Directories from which meshes may be read, besides that of the file itself.

    Raises:
        LoadError: If the file itself cannot be read, or a root is not a directory.
    """
    if isinstance(package_roots, (str, os.PathLike)):
        raise InputError(f"package_roots={os.fspath(package_roots)!r} is one directory; pass a list of them")
    stage = usd_file(source)
    if stage is not None:
        raise LoadError("visuals are read from URDF and MJCF, not from USD", str(stage))
    text = Source.of(source)
    roots = Roots(package_roots, None if text.path is None else text.path.absolute().parent)
    diagnostics = Diagnostics(text.file)
    kind = text.root.rpartition(":")[2]
    if kind == "robot":
        from kinetree.viewer.urdf import urdf_visuals

        found: Iterable[Visual] = urdf_visuals(text, roots, diagnostics)
    elif kind in ("mujoco", "mujocoinclude"):
        from kinetree.viewer.mjcf import mjcf_visuals

        found = mjcf_visuals(text, diagnostics, package_roots)
    else:
        raise LoadError(f"visuals are read from URDF and MJCF, not from <{kind[:60]}>", text.file)
    kept: list[Visual] = []
    faces = 0
    for visual in found:
        faces += len(visual.mesh.faces)
        if faces > MOST_FACES:
            problem = f"more than {MOST_FACES} triangles in all; nothing more is read or drawn, from here on"
            diagnostics.add(problem, repr(visual.body))
            break
        kept.append(visual)
    diagnostics.warn(stacklevel=3)
    return kept
