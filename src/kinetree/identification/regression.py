"""The triangular factor of a linear regression, accumulated block by block.

All that least squares needs to know of millions of rows [Y τ] is the triangular factor of their QR decomposition, which
is no larger than the number of unknowns. Factors of two blocks are merged by decomposing one above the other [D12].
The normal equations YᵀY contain the same information in less time, but square the condition number: half of all digits
would be lost before anything is solved. Rows of one joint are decomposed together, over the parameters of the bodies
that it carries, since the others do not influence it: of an arm with five joints, a third of the operations.

[D12] J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential QR and LU
      factorizations", SIAM Journal on Scientific Computing 34, 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.errors import InputError
from kinetree.identification.parameters import Parameters
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

#: Numbers in the matrix that is decomposed at once: 8 MB.
_SLICE = 1 << 20


class Regression:
    """Rows of a regression, of which only their triangular factor is kept. Blocks are added in any number of calls.

    Args:
        robot: The model before identification.
        bodies: Bodies whose inertial parameters are unknown; by default all that have mass.
        friction: Terms of `kinetree.identification.FRICTION` that are unknown too.
        noise: Standard deviation of the measured joint forces, one number or (nv,) [N m or N]. Rows are divided by it.
    """

    def __init__(
        self, robot: Model, *, bodies: Iterable[str] | None = None, friction: Iterable[str] = (), noise: Any = 1.0
    ) -> None:
        self.parameters = Parameters.of(robot, bodies, friction)
        sigma = np.broadcast_to(arguments.numbers("Regression", "noise", noise), np.shape(noise) or (robot.nv,))
        if sigma.shape != (robot.nv,) or not (np.isfinite(sigma).all() and (sigma > 0.0).all()):
            raise InputError(f"noise is a positive number, or one for each of the {robot.nv} joints; got {noise!r}")
        self._factor: Callable[..., Array] = partial(factor, self.parameters, 1.0 / sigma)
        self.R = np.zeros((0, len(self.parameters.names) + 1))
        self.rows = 0

    def add(self, q: Any, v: Any, a: Any, tau: Any) -> Self:
        """Add samples, and return this regression.

        Dask arrays are reduced block by block, by the scheduler or cluster that is active; only triangular factors are
        sent and kept.

        Args:
            q: Configurations, (n, nq).
            v: Joint velocities, (n, nv).
            a: Joint accelerations, (n, nv).
            tau: Measured joint forces, (n, nv).

        Raises:
            InputError: If shapes are wrong, or a sample has NaN or infinite numbers.
        """
        given = {"q": q, "v": v, "a": a, "tau": tau}
        if any(map(arguments.is_lazy, given.values())):
            return self._add_lazy(given)
        arrays = []
        for name, value in given.items():
            array = arguments.numbers("Regression", name, value).astype(np.float64, copy=False)
            arrays.append(array.reshape(-1, self._size(name, array)))
        _require_equal({name: len(array) for name, array in zip(given, arrays)})
        self.R = _merged(self.R, self._factor(*arrays, first=self.rows))
        self.rows += arrays[1].size
        return self

    def _add_lazy(self, given: dict[str, Any]) -> Self:
        """Reduce blocks of Dask arrays in a binary tree, always the same, so that bits do not depend on the cluster."""
        import dask
        import dask.array as da

        arrays = []
        for name, value in given.items():
            array = value if isinstance(value, da.Array) else da.asarray(value)
            size = self._size(name, array)
            if array.ndim != 2:
                raise InputError(
                    f"Regression: {name} has shape {array.shape}; Dask arrays have one batch axis, (n, {size})"
                )
            arrays.append(array.rechunk({1: -1}))
        _require_equal({name: array.shape[0] for name, array in zip(given, arrays)})
        _, aligned = da.core.unify_chunks(*(x for k, array in enumerate(arrays) for x in (array, ("n", f"c{k}"))))
        starts = np.cumsum([0, *aligned[0].chunks[0]]).tolist()
        columns = [array.to_delayed().ravel() for array in aligned]
        one, two = dask.delayed(self._factor), dask.delayed(_merged)
        level = [
            one(*blocks, first=self.rows + start * self.parameters.robot.nv) for start, *blocks in zip(starts, *columns)
        ]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2])
            level = [*(two(left, right) for left, right in pairs), *(level[-1:] if len(level) % 2 else [])]
        if level:
            self.R = _merged(self.R, dask.compute(level[0])[0])
        self.rows += starts[-1] * self.parameters.robot.nv
        return self

    def _size(self, name: str, array: Any) -> int:
        """The length of the last axis of an argument, which it must have."""
        size = self.parameters.robot.nq if name == "q" else self.parameters.robot.nv
        arguments.require_shape(f"Regression: {name}", array.shape, (size,))
        return size

    def merge(self, other: Regression) -> Self:
        """Add all samples of another regression of the same unknowns, and return this one."""
        same = self.parameters.names == other.parameters.names and np.array_equal(
            self.parameters.robot.inertial_parameters, other.parameters.robot.inertial_parameters
        )
        if not same:
            raise InputError("merge: both regressions must have the same robot and the same unknowns")
        self.R = _merged(self.R, other.R)
        self.rows += other.rows
        return self


def _require_equal(counts: dict[str, int]) -> None:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"Regression: numbers of samples differ: {listed}")


def factor(parameters: Parameters, weights: Array, q: Array, v: Array, a: Array, tau: Array, first: int = 0) -> Array:
    """The triangular factor of the rows [Y τ] of n samples, (≤ p + 1, p + 1).

    Rows of each sample are multiplied by `weights`, (nv,); `first` rows come before these, for messages.
    """
    R = np.zeros((0, len(parameters.names) + 1))
    step = parameters.samples_per_slice(_SLICE)
    for start in range(0, len(v), step):
        part = slice(start, start + step)
        columns = np.empty((*v[part].shape, R.shape[1]))
        columns[..., :-1] = parameters.matrix(q[part], v[part], a[part])
        columns[..., -1] = tau[part] - parameters.known(q[part], v[part], a[part])
        columns *= weights[:, None]
        finite = np.isfinite(columns).all(axis=(1, 2))
        if not finite.all():
            sample = first // v.shape[1] + start + int(np.argmin(finite))
            raise InputError(
                f"sample {sample} has NaN or infinite numbers in q, v, a or tau; leave such samples out of the fit"
            )
        R = _merged(R, *(_triangle(columns[:, joint]) for joint in range(v.shape[1])))
    return R


def _triangle(rows: Array) -> Array:
    """The triangular factor of the rows of one joint, which only the parameters of what it carries influence."""
    used = rows.any(axis=0)
    R = np.asarray(np.linalg.qr(rows[:, used], mode="r"))
    spread = np.zeros((len(R), rows.shape[1]))
    spread[:, used] = R
    return spread


def _merged(*blocks: Array) -> Array:
    """The triangular factor of blocks of rows, one above the other."""
    return np.asarray(np.linalg.qr(np.concatenate(blocks), mode="r"))
