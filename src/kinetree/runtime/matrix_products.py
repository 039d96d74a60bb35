"""Products of small matrices whose bits depend only on the two matrices.

The summation order of a BLAS depends on the shape of the batch and on the processor. Here entries are multiplied one by
one, then summed along the last axis of an array in C order, for which NumPy's summation order is the same in any batch.
Callers are responsible for NumPy's error settings: see `kinetree.runtime.lazy.computed`.
"""

from __future__ import annotations

import math

import numpy as np

from kinetree.spatial.value import Array

#: Largest number of products at once; larger batches are processed in pieces.
_AT_ONCE = 1 << 20


def product(A: Array, B: Array) -> Array:
    """A B, (…, n, m), of (…, n, k) and (…, k, m)."""
    left, right = A[..., :, None, :], np.swapaxes(B, -1, -2)[..., None, :, :]
    *batch, n, m, k = np.broadcast_shapes(left.shape, right.shape)
    samples, each = math.prod(batch), n * m * k
    if samples * each <= _AT_ONCE or samples <= 1:
        return _summed(left, right)
    left, right = (np.broadcast_to(x, (*batch, *x.shape[-3:])).reshape(-1, *x.shape[-3:]) for x in (left, right))
    result = np.empty((samples, n, m), np.result_type(A, B))
    step = max(1, _AT_ONCE // each)
    for i in range(0, samples, step):
        result[i : i + step] = _summed(left[i : i + step], right[i : i + step])
    return result.reshape(*batch, n, m)


def times(A: Array, x: Array) -> Array:
    """A x, (…, n), of (…, n, k) and (…, k)."""
    return product(A, x[..., None])[..., 0]


def dots(A: Array, B: Array) -> Array:
    """Dot products of corresponding rows of A and B, (…, n), of (…, n, k) and (…, n, k)."""
    return _summed(A, B)


def one_minus(matrix: Array) -> Array:
    """1 − matrix, in place."""
    return np.subtract(np.eye(matrix.shape[-1]), matrix, out=matrix)


def _summed(left: Array, right: Array) -> Array:
    total: Array = np.add.reduce(np.multiply(left, right, order="C"), axis=-1)
    return total
