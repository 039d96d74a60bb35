"""STL, binary and ASCII."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from kinetree.errors import LoadError
from kinetree.spatial.value import Array
from kinetree.viewer.geometry import Mesh

_HEADER = 84
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("vertices", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)")


def read(data: bytes, _beside: Callable[[str], bytes | None]) -> list[Mesh]:
    """The triangles of a file; the format has no colours.

    Args:
        data: The bytes of the file.
    """
    count = int.from_bytes(data[80:_HEADER], "little")
    # a binary file may start with "solid" too: only its length is conclusive
    if len(data) >= _HEADER and len(data) == _HEADER + _TRIANGLE.itemsize * count:
        corners = np.frombuffer(data, _TRIANGLE, count, _HEADER)["vertices"]
    elif data.lstrip()[:5].lower() == b"solid":
        corners = _text(data)
    else:
        expected = _HEADER + _TRIANGLE.itemsize * count
        raise LoadError(
            f"is not a valid STL file: {count} triangles take {expected} bytes, it has {len(data)}; export it again"
        )
    if not len(corners):
        raise LoadError("has no triangles; export it again")
    return [joined(corners.reshape(-1, 3).astype(np.float64))]


def _text(data: bytes) -> Array:
    try:
        numbers = np.array(_VERTEX.findall(data), dtype=np.float64).reshape(-1, 3)
    except ValueError:
        raise LoadError("is not a valid STL file: a vertex is not three numbers; export it again") from None
    if len(numbers) % 3:
        raise LoadError(
            f"is not a valid STL file: it has {len(numbers)} vertices, which are no triangles; export it again"
        )
    return numbers.reshape(-1, 3, 3)


def joined(corners: Array) -> Mesh:
    """Triangles from their corners, three each, (3 m, 3); equal corners are merged into one vertex."""
    rows = np.ascontiguousarray(corners + 0.0)  # −0 and 0 are the same coordinate
    _, first, inverse = np.unique(rows.view(f"V{rows.itemsize * 3}").ravel(), return_index=True, return_inverse=True)
    return Mesh(rows[first], inverse.reshape(-1, 3))
