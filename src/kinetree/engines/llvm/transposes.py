"""Between samples and lanes in registers: W samples of L numbers each as L vectors of W lanes, and back.

L is W, or less for what remains of longer samples, but at least the numbers in 128 bits. Short samples share vectors,
so that fewer of them are shuffled. As many vectors as there are numbers in 128 bits are interleaved within 128-bit
pieces, then pieces are exchanged; each step is one instruction on x86.
"""

from __future__ import annotations

from kinetree.engines.formats import FLOAT64, Format
from kinetree.engines.llvm.writer import FunctionWriter


def transpose(f: FunctionWriter, rows: list[str], scalar: Format = FLOAT64) -> list[str]:
    """Transpose a square of numbers held as W row vectors of W numbers, W = 2, 4, 8 or 16."""
    return lanes_of(f, rows, len(rows), scalar)


def lanes_of(f: FunctionWriter, samples: list[str], length: int, scalar: Format) -> list[str]:
    """Vectors of lanes, one for each number of a sample.

    Args:
        f: The function.
        samples: W vectors.
        length: How many numbers each of them has.
        scalar: The format.
    """
    width = len(samples)
    piece = min(length, piece_of(scalar))
    in_group = piece * (width // length)
    groups = []
    for start in range(0, width, in_group):
        group = samples[start : start + in_group]
        vectors = [_joined(f, group[k::piece], length, scalar) for k in range(piece)]
        groups.append(_transpose_pieces(f, vectors, width, scalar))

    def gathered(rows: list[str]) -> list[str]:
        # row i of the result holds piece i of every sample
        if len(rows) == 1:
            return rows
        half = [p + d for p in range(0, width, 2 * piece) for d in range(piece)]
        other = [pick + piece for pick in half]
        firsts, seconds = [], []
        for a, b in zip(rows[::2], rows[1::2], strict=True):
            firsts.append(_shuffle(f, scalar, width, a, b, half + [width + pick for pick in half]))
            seconds.append(_shuffle(f, scalar, width, a, b, other + [width + pick for pick in other]))
        return _interleave(gathered(firsts), gathered(seconds))

    return _interleave(*(gathered([group[j] for group in groups]) for j in range(piece)))


def samples_of(f: FunctionWriter, lanes: list[str], width: int, scalar: Format) -> list[str]:
    """W vectors, each with the numbers of one sample.

    Args:
        f: The function.
        lanes: A vector of W lanes for each number of a sample, less than W vectors.
        width: W.
        scalar: The format.
    """
    piece = piece_of(scalar)
    groups = []
    for start in range(0, len(lanes), piece):
        vectors = _transpose_pieces(f, lanes[start : start + piece], width, scalar)
        groups.append([_pieces(f, vector, width, scalar) for vector in vectors])
    # piece p of vector j of each group belongs to sample p * piece + j
    return [
        _joined(f, [group[j][p] for group in groups], piece, scalar)
        for p in range(width // piece)
        for j in range(piece)
    ]


def piece_of(scalar: Format) -> int:
    """How many numbers are in 128 bits."""
    return 16 // scalar.bytes


def _transpose_pieces(f: FunctionWriter, rows: list[str], width: int, scalar: Format) -> list[str]:
    """Transpose the squares that the 128-bit pieces of as many vectors as a piece has numbers form."""
    piece = len(rows)
    rounds = piece
    while rounds > 1:
        # each round interleaves the rows of the first half with those of the second, within pieces
        mixed = []
        for a, b in zip(rows[: piece // 2], rows[piece // 2 :], strict=True):
            for start in (0, piece // 2):
                columns = [p + start + d for p in range(0, width, piece) for d in range(piece // 2)]
                mixed.append(_shuffle(f, scalar, width, a, b, [pick for c in columns for pick in (c, width + c)]))
        rows, rounds = mixed, rounds // 2
    return rows


def _shuffle(f: FunctionWriter, scalar: Format, width: int, a: str, b: str, picks: list[int]) -> str:
    vector, mask = scalar.vector(width), ", ".join(f"i32 {pick}" for pick in picks)
    return f.let(f"shufflevector {vector} {a}, {vector} {b}, <{len(picks)} x i32> <{mask}>")


def _joined(f: FunctionWriter, parts: list[str], length: int, scalar: Format) -> str:
    """One vector of several."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts, length = [_shuffle(f, scalar, length, a, b, list(range(2 * length))) for a, b in pairs], 2 * length
    return parts[0]


def _pieces(f: FunctionWriter, vector: str, width: int, scalar: Format) -> list[str]:
    """The 128-bit pieces of a vector."""
    piece = piece_of(scalar)
    starts = range(0, width, piece)
    return [_shuffle(f, scalar, width, vector, "poison", list(range(start, start + piece))) for start in starts]


def _interleave(*lists: list[str]) -> list[str]:
    return [name for names in zip(*lists, strict=True) for name in names]
