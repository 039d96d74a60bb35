"""Matrices of steps with constraints, from those of accelerations and projections. Cost O(n³).

Changes of a step's end are matrices of n columns with respect to three others: the configuration `there` at which
accelerations are taken, the velocities v at the start, and joint forces `push`. In these the step begins with ones and
zeros. The last kernel goes back to configuration, velocities and joint forces at the start.

Derivatives of moves q ⊕ ξ connect coordinates of one joint only: rows that have their joint to themselves are scaled by
their own entry, times `alone`, which is 1 for them and else 0; all others are terms of a product, in the lists `moving`
and `rest` of `moving_columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.kernels.constrained_solution import MOVING, MovingColumns
from kinetree.kernels.language import Workspace, kernel
from kinetree.kernels.products import ZERO, MatrixView, add_product, add_products
from kinetree.language.tree import Indexed

_SQUARE = ("n", "n")
_ACCELERATION, _SPEED = ("a_q", "a_v", "a_push"), ("v_there", "v_v", "v_push")
_PLACE, _AFTER = ("q_there", "q_v", "q_push"), ("after_there", "after_v", "after_push")


def _squares(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, _SQUARE)


def _sped_up(k: Workspace, seconds: Any, by: Sequence[Indexed], outs: Sequence[Indexed]) -> None:
    """Changes of v + seconds a, for a that depends on v itself."""
    for i in k.n:
        for j in k.n:
            for out, own in zip(outs, by, strict=True):
                out[i, j] = seconds * own[i, j]
        outs[1][i, i] = outs[1][i, i] + 1.0


def _scaled(k: Workspace, alone: Indexed, D: Indexed) -> Indexed:
    """Entries of D that stand alone in their rows."""
    found = k.array("n")
    for i in k.n:
        found[i] = alone[i] * D[i, i]
    return found


def _moved(k: Workspace, out: Indexed, D: Indexed, scale: Indexed, X: Indexed, start: Any = None) -> None:
    """start + D X."""
    terms: Any = MovingColumns(k)

    def entry(i: Any, j: Any) -> Any:
        return scale[i] * X[i, j] + start[i, j] if start is not None else scale[i] * X[i, j]

    add_product(out, (k.n, terms, k.n), D, X, start=MatrixView(entry))


def _seen(k: Workspace, outs: Sequence[Indexed], Xs: Sequence[Indexed], D: Indexed, scale: Indexed) -> None:
    """X D of each X."""
    terms: Any = MovingColumns(k)

    def own(X: Indexed) -> MatrixView:
        return MatrixView(lambda i, j: X[i, j] * scale[j])

    for out, X in zip(outs, Xs, strict=True):
        add_product(out, (k.n, terms, k.n), X, D, start=own(X))


@kernel(
    **_squares("first_q", "first_v", "first_push", *_ACCELERATION, *_SPEED), ahead=(), dt=(),
    outputs=_SPEED, sparse=_SPEED,
)  # fmt: skip
def second_speeds(
    k: Workspace, first_q: Indexed, first_v: Indexed, first_push: Indexed, a_q: Indexed, a_v: Indexed, a_push: Indexed,
    ahead: Indexed, dt: Indexed, v_there: Indexed, v_v: Indexed, v_push: Indexed,
) -> None:  # fmt: skip
    """Changes of v + dt a, for a of velocities v + ahead a₁, with a₁ of the `first` stage."""
    factor, outs = dt[...] * ahead[...], (v_there, v_v, v_push)
    _sped_up(k, dt[...], (a_q, a_v, a_push), outs)
    left = MatrixView(lambda i, j: a_v[i, j] * factor)
    add_products(outs, (k.n, k.n, k.n), left, (first_q, first_v, first_push))


@kernel(**_squares(*_ACCELERATION, *_SPEED), dt=(), outputs=_SPEED, sparse=_SPEED)
def first_speeds(
    k: Workspace, a_q: Indexed, a_v: Indexed, a_push: Indexed, dt: Indexed, v_there: Indexed, v_v: Indexed,
    v_push: Indexed,
) -> None:  # fmt: skip
    """Changes of v + dt a."""
    _sped_up(k, dt[...], (a_q, a_v, a_push), (v_there, v_v, v_push))


@kernel(**_squares("start", "end", *_SPEED, *_PLACE), alone=("n",), outputs=_PLACE, sparse=_PLACE, lists=MOVING)
def places(
    k: Workspace, start: Indexed, end: Indexed, v_there: Indexed, v_v: Indexed, v_push: Indexed, alone: Indexed,
    q_there: Indexed, q_v: Indexed, q_push: Indexed,
) -> None:  # fmt: skip
    """Changes of q ⊕ v, whose derivatives are `start` and `end`."""
    scale = _scaled(k, alone, end)
    _moved(k, q_there, end, scale, v_there, start)
    _moved(k, q_v, end, scale, v_v)
    _moved(k, q_push, end, scale, v_push)


@kernel(
    **_squares("x_q", "x_push", "bias_q", "start", "end", "a_q", "a_push", "momentum_q", "Q", "H", "N"),
    inverse=("n", "c"), J=("c", "n"), alone=("n",), outputs=("Q", "H", "N"), sparse=("Q", "H", "N"), lists=MOVING,
)  # fmt: skip
def projection_derivatives(
    k: Workspace, x_q: Indexed, x_push: Indexed, bias_q: Indexed, start: Indexed, end: Indexed, a_q: Indexed,
    a_push: Indexed, momentum_q: Indexed, inverse: Indexed, J: Indexed, alone: Indexed, Q: Indexed, H: Indexed,
    N: Indexed,
) -> None:  # fmt: skip
    """Derivatives of q′ = q₁ ⊕ x(q₁) and v′ = a(q′, b + M v₁): Q of q′ and H of v′ by q₁, and N of v′ by v₁.

    x and a change with q and with their joint forces, whose derivatives with respect to q are bias_q and momentum_q;
    start and end are those of the move by x. N = 1 − J̄J, with J̄ the `inverse`.
    """
    square = k.n, k.n, k.n
    X, G = (k.array("n", "n") for _ in range(2))
    add_product(X, square, x_push, bias_q, start=x_q)  # ∂x/∂q₁
    _moved(k, Q, end, _scaled(k, alone, end), X, start)
    add_product(G, square, a_push, momentum_q, start=a_q)  # ∂v′/∂q′
    add_product(H, square, G, Q, start=ZERO)
    add_product(N, (k.n, k.c, k.n), MatrixView(lambda i, j: -inverse[i, j]), J)
    for i in k.n:
        N[i, i] = N[i, i] + 1.0


@kernel(
    **_squares("start", "end", "Q", "H", "N", *_SPEED, *_PLACE, *_AFTER), alone=("n",), outputs=(*_PLACE, *_AFTER),
    sparse=(*_PLACE, *_AFTER), lists=MOVING,
)  # fmt: skip
def projected(
    k: Workspace, start: Indexed, end: Indexed, Q: Indexed, H: Indexed, N: Indexed, v_there: Indexed, v_v: Indexed,
    v_push: Indexed, alone: Indexed, q_there: Indexed, q_v: Indexed, q_push: Indexed, after_there: Indexed,
    after_v: Indexed, after_push: Indexed,
) -> None:  # fmt: skip
    """Changes after the projections, for q₁ = there ⊕ v₁ with derivatives `start` and `end`."""
    square, speeds = (k.n, k.n, k.n), (v_there, v_v, v_push)
    R, T = (k.array("n", "n") for _ in range(2))
    _seen(k, (q_there, after_there), (Q, H), start, _scaled(k, alone, start))
    _seen(k, (R, T), (Q, H), end, _scaled(k, alone, end))
    for i in k.n:
        for j in k.n:
            T[i, j] = T[i, j] + N[i, j]
    add_products((q_there, q_v, q_push), square, R, speeds)
    add_products((after_there, after_v, after_push), square, T, speeds)


@kernel(
    **_squares(*_PLACE, *_AFTER, "start", "end", "q_sprung", "after_sprung"), slow=("n",), alone=("n",),
    A_q=("n", 2, "n"), A_v=("n", 2, "n"), outputs=("A_q", "A_v"), lists=MOVING,
)  # fmt: skip
def from_the_start(
    k: Workspace, q_there: Indexed, q_v: Indexed, q_push: Indexed, after_there: Indexed, after_v: Indexed,
    after_push: Indexed, start: Indexed, end: Indexed, q_sprung: Indexed, after_sprung: Indexed, slow: Indexed,
    alone: Indexed, A_q: Indexed, A_v: Indexed,
) -> None:  # fmt: skip
    """Halves of A, for there = q ⊕ v with derivatives `start` and `end`.

    Joint forces change by `slow` with v; what they do as they change with q is q_sprung and after_sprung.
    """
    own, later = ([k.array("n", "n") for _ in range(2)] for _ in range(2))
    there, push, sprung = (q_there, after_there), (q_push, after_push), (q_sprung, after_sprung)
    _seen(k, own, there, start, _scaled(k, alone, start))
    _seen(k, later, there, end, _scaled(k, alone, end))
    for i in k.n:
        for j in k.n:
            for half, (A, by_v) in enumerate(((A_q, q_v), (A_v, after_v))):
                slowed = later[half][i, j] + push[half][i, j] * slow[j]
                A[i, j] = np.array([own[half][i, j] + sprung[half][i, j], by_v[i, j] + slowed])
