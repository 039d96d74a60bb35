"""Loads MJCF files whose meshes are spoilt: each must give a model or a `LoadError`, soon and in bounded memory.

    python -m tests.fuzz.meshes --count 100000

The bytes of a mesh that gives a body its inertia reach MuJoCo as they are, so it is here that a file could crash the
process. A mesh that it died of is in the directory of --keep, as `last`, with its suffix.
"""

from __future__ import annotations

import random
import struct
import sys

import numpy as np

from tests.fuzz.run import Draw, run

CORNERS = [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.9)]
FACES = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 4), (1, 4, 3), (2, 3, 4)]

FLOATS = (0.0, -0.0, 1e-38, 1e-45, 1e10, 3.4e38, float("inf"), float("-inf"), float("nan"), 1e-7, -1.0, 1e19)
COUNTS = (0, 1, 2, 3, 5, 6, 7, 255, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 0x80000003)
WORDS = (
    "0", "-1", "-5", "-6", "1", "5", "6", "99999999", "2147483647", "-2147483648", "4294967297", "1e400", "nan", "inf",
    "-inf", "1e38", "1e-46", "1/1/1", "1//1", "1/", "/", "//", "1/2/3/4", "1/99999999/1", "1/1/99999999",
    "1/1/2147483647", "1/2147483647/1", "1/-99999999/1", "1/1/-99999999", "99999999/1/1", "-99999999/1/1", "f",
    "v", "vn", "vt", "g", "o", "usemtl x",
    "mtllib /etc/passwd", "l 1 2", "\\", "#", "", "x" * 5000, "1 " * 3000, "\0",
)  # fmt: skip


def stl() -> bytes:
    triangles = b"".join(bytes(12) + np.array([CORNERS[i] for i in f], dtype="<f4").tobytes() + bytes(2) for f in FACES)
    return bytes(80) + struct.pack("<I", len(FACES)) + triangles


def obj() -> bytes:
    lines = [f"v {x} {y} {z}" for x, y, z in CORNERS] + [f"vt {x} {y}" for x, y, _ in CORNERS]
    lines += [f"vn {x} {y} {z}" for x, y, z in CORNERS]
    lines += ["f " + " ".join(f"{i + 1}/{i + 1}/{i + 1}" for i in face) for face in FACES]
    return "\n".join(["# seed", "o seed", *lines, ""]).encode()


def msh() -> bytes:
    vertices, faces = np.array(CORNERS, dtype="<f4"), np.array(FACES, dtype="<i4")
    n = len(CORNERS)
    head = struct.pack("<4i", n, n, n, len(FACES))
    return head + vertices.tobytes() + vertices.tobytes() + vertices[:, :2].tobytes() + faces.tobytes()


def inline() -> bytes:
    vertices = " ".join(f"{x} {y} {z}" for x, y, z in CORNERS)
    return f"{vertices}|{' '.join(str(i) for face in FACES for i in face)}".encode()


FORMATS = {".stl": stl, ".obj": obj, ".msh": msh, "": inline}


def spoilt(rng: random.Random, suffix: str) -> bytes:
    """The bytes of a mesh, a few of them changed."""
    data = bytearray(FORMATS[suffix]())
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        place = rng.randrange(len(data) + 1)
        what = rng.random()
        if suffix in (".obj", "") and what < 0.6:
            words = bytes(data).decode("utf-8", "replace").split(" ")
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            data = bytearray(" ".join(words).encode())
        elif what < 0.3:
            data[place & ~3 : (place & ~3) + 4] = struct.pack("<f", rng.choice(FLOATS))
        elif what < 0.6:
            start = rng.choice((80, 0, 4, 8, 12, place & ~3))
            data[start : start + 4] = struct.pack("<I", rng.choice(COUNTS))
        elif what < 0.7:
            del data[place:]
        elif what < 0.8:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 3, 50, 400))))
        elif what < 0.9:
            piece = data[place : place + rng.randrange(1, 200)]
            data[place:place] = piece * rng.choice((1, 5, 200))
        elif data:
            for _ in range(rng.randrange(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def model(rng: random.Random, suffix: str, data: bytes) -> str:
    """An MJCF file with the mesh."""
    how = rng.choice(("", 'inertia="convex"', 'inertia="exact"', 'inertia="legacy"', 'inertia="shell"'))
    scale = rng.choice(("", "", 'scale="1 1 -1"', 'scale="0 1 1"', 'scale="1e-30 1 1"', 'scale="1e30 1e30 1e30"'))
    shape = rng.choice(("mesh", "mesh", "mesh", "box", "capsule", "ellipsoid", "sphere"))
    balance = rng.choice(("", '<compiler balanceinertia="true"/>', '<compiler boundinertia="1e-3" boundmass="1e-3"/>'))
    if suffix:
        content = f'file="mesh{suffix}"'
    else:
        text = data.decode("utf-8", "replace")
        for char in '&<"\0':
            text = text.replace(char, "")
        vertices, _, faces = "".join(c for c in text if c.isprintable()).partition("|")
        content = f'vertex="{vertices}"' + (f' face="{faces}"' if faces else "")
    return (
        f'<mujoco>{balance}<asset><mesh name="m" {content} {how} {scale}/></asset><worldbody><body><joint/>'
        f'<geom type="{shape}" mesh="m"/></body></worldbody></mujoco>'
    )


def draw(rng: random.Random) -> Draw:
    """A file, and the mesh that it names."""
    suffix = rng.choice(list(FORMATS))
    data = spoilt(rng, suffix)
    return Draw(model(rng, suffix, data).encode(), {}, (suffix, data), suffix or "inline")


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", lambda _: draw, ".xml"))
