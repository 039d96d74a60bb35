"""Terms of the forces at feet, and cones of friction."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.node_costs import product
from kinetree.ocp.terms import BuiltIn, CostTerm, Foot, Part, Scope, numbers_of_target, remade
from kinetree.runtime import arguments
from kinetree.runtime.function import compiled
from kinetree.spatial.rotation import alignment
from kinetree.spatial.value import Array


@remade
def force(
    frame: str, target: Any = None, *, weight: Any = 1.0, impact: Any = None, lower: Any = None, upper: Any = None,
    nodes: Any = None, name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of the force at a foot from a given one, in world axes: 3 rows, or 6 of a whole foot, moment first.

    It is zero where the foot is not held, and the impulse at impacts.

    Args:
        frame: The foot's frame.
        target: (3,), (6,) or (…, T, 3) [N, N m]; zero by default. `targets` of `solve` replace it.
        weight: See `Term`.
        impact: See `Term`.
        lower: See `Term`.
        upper: See `Term`.
        nodes: See `Term`.
        name: See `Term`; "force at …" by default.
        hard: See `Term`.
    """
    name = name or f"force at {frame}"

    def make(scope: Scope) -> list[Part]:
        foot = _foot(scope, frame, name)
        return [_of_force(scope, foot, np.eye(foot.part.stop - foot.part.start))]

    return BuiltIn(
        weight=weight, impact=impact, lower=lower, upper=upper, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda _, given: numbers_of_target(name, given), default=np.zeros(1) if target is None else target,
    )  # fmt: skip


@remade
def friction(
    frame: str, coefficient: float, *, sole: tuple[float, float] | None = None, inner: bool = True,
    normal: Any = (0.0, 0.0, 1.0), forward: Any = None, weight: Any = 1.0, impact: Any = None, nodes: Any = None,
    name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """A penalty on forces outside of a cone of friction, where the foot is held: A λ above zero, with A of `cone`.

    If hard, forces stay inside, and so do impulses.

    Args:
        frame: The foot's frame.
        coefficient: Coefficient of friction.
        sole: See `cone`.
        inner: See `cone`.
        normal: See `cone`.
        forward: See `cone`. A foot that stands in several directions has a term for each, with the `nodes` of it.
        weight: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`; "friction at …" by default.
        hard: See `Term`.
    """
    name = name or f"friction at {frame}"

    def make(scope: Scope) -> list[Part]:
        foot = _foot(scope, frame, name)
        A = cone(foot.rows, coefficient, sole, inner=inner, normal=normal, forward=forward)
        return [_of_force(scope, foot, A)]

    return BuiltIn(
        weight=weight, impact=impact, upper=0.0, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda *_: np.zeros(1),
    )  # fmt: skip


def _foot(scope: Scope, frame: str, name: str) -> Foot:
    names = tuple(foot.frame for foot in scope.feet)
    if frame not in names:
        if not names:
            fix = f"pass contacts=ocp.Contacts({{{frame!r}: True}})"
            raise InputError(f"term {name!r} is about a foot, and the problem has none: {fix}")
        raise UnknownNameError(f"foot (of term {name!r})", frame, names)
    return scope.feet[names.index(frame)]


def _of_force(scope: Scope, foot: Foot, rows: Array) -> Part:
    """Rows of the forces of one foot."""
    A = np.zeros((len(rows), scope.feet[-1].part.stop))
    A[:, foot.part] = rows
    times = compiled(product, m=A.shape[0], n=A.shape[1])

    def away(_q: Any, _v: Any, force: Array, target: Array) -> Array:
        found: Array = times(A, force) - target
        return found

    return Part("force", len(A), away, matrix=A)


def cone(
    rows: str, friction: float, sole: tuple[float, float] | None = None, *, inner: bool = True,
    normal: Any = (0, 0, 1), forward: Any = None,
) -> Array:  # fmt: skip
    """A cone of friction as inequalities A λ ≤ 0 of a foot's force, or its wrench, moment first, in the world's axes.

    Args:
        rows: "position" for a point, with 5 inequalities; "all" for a whole foot, with 17 if it has a sole.
        friction: Coefficient μ.
        sole: Half length X and half width Y of the foot [m], about the origin of its frame: the centre of pressure
            stays inside, and the moment about the normal is one that friction can take [C15].
        inner: Whether the pyramid is inside of the round cone, with μ/√2, or around it.
        normal: The surface's normal in the world.
        forward: The direction of the foot's length in the world while it stands, whatever its frame's axes are; its
            part along the surface counts. Along the world's x on level ground by default.

    Returns:
        A, (m, 3 or 6).

    Raises:
        InputError: `forward` is along the normal.

    [C15] S. Caron, Q.-C. Pham, Y. Nakamura, "Stability of surface contacts for humanoid robots", ICRA 2015, eq. 8–12.
    """
    mu = arguments.number("friction", friction, what="a positive coefficient", above=0.0)
    mu = mu / np.sqrt(2.0) if inner else mu
    up = arguments.doubles("cone", "normal", normal, (3,))
    if up.ndim > 1 or not np.linalg.norm(up) > 0.0:
        raise InputError(f"cone: normal={normal!r} is not one direction")
    up = up / np.linalg.norm(up)
    R = alignment(up)
    if forward is not None:
        ahead = arguments.doubles("cone", "forward", forward, (3,))
        along = ahead - (ahead @ up) * up
        if not np.linalg.norm(along) > 1e-6 * np.linalg.norm(ahead):
            raise InputError(f"cone: forward={forward!r} is along the normal; give the direction of the foot's length")
        along = along / np.linalg.norm(along)
        R = np.column_stack([along, np.cross(up, along), up])
    of_force = np.array([[1, 0, -mu], [-1, 0, -mu], [0, 1, -mu], [0, -1, -mu], [0, 0, -1.0]])
    if rows == "position":
        if sole is not None:
            raise InputError('cone: a foot that is a point has no sole; hold it with rows="all", or leave sole= out')
        turned: Array = of_force @ R.T
        return turned
    found = [np.hstack([np.zeros((5, 3)), of_force])]
    if sole is not None:
        X, Y = half = arguments.doubles("cone", "sole", sole, (2,))
        if half.ndim > 1 or not (half > 0.0).all():
            raise InputError(f"cone: sole={sole!r} is half the length and half the width of a foot [m]: (0.1, 0.05)")
        #        τx τy τz fx fy fz: |τx| ≤ Y fz, |τy| ≤ X fz
        found.append(np.array([[s, 0, 0, 0, 0, -Y] for s in (1, -1)] + [[0, s, 0, 0, 0, -X] for s in (1, -1)]))
        signs = [(a, b) for a in (1, -1) for b in (1, -1)]
        # τz ≤ μ(X+Y)fz − |Y fx + μ τx| − |X fy + μ τy| and τz ≥ −μ(X+Y)fz + |Y fx − μ τx| + |X fy − μ τy|
        found.append(np.array([[a * mu, b * mu, 1, a * Y, b * X, -mu * (X + Y)] for a, b in signs]))
        found.append(np.array([[-a * mu, -b * mu, -1, a * Y, b * X, -mu * (X + Y)] for a, b in signs]))
    A = np.vstack(found)
    return np.hstack([A[:, :3] @ R.T, A[:, 3:] @ R.T])
