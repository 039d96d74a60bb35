"""Arguments of `Builder`, checked and completed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.coupling import Coupling, FunctionCoupling, LinearCoupling, PolynomialCoupling
from kinetree.model.joints import JointKind
from kinetree.model.placement import direction
from kinetree.model.record import frozen
from kinetree.model.specs import constant
from kinetree.spatial.fixed import length
from kinetree.spatial.value import Array

#: Axes that are not given.
Z = (0.0, 0.0, 1.0)


def coupling_of(joint: Any, to: Any, ratio: Any, offset: Any, poly: Any, function: Any) -> Coupling:
    """A coupling from the arguments of `Builder.couple`; names are those that the user gave."""
    what = "couple()"
    if isinstance(joint, Mapping):
        if to is not None or ratio is not None or poly is not None or function is not None:
            raise ModelError(f"{what}: a mapping of joints takes offset= only")
        if len(joint) < 2:
            raise ModelError(f"{what}: a coupling takes two joints or more; got {dict(joint)!r}")
        coefficients = [float(finite(c, 1, f"{what}: the coefficient of {name!r}")[0]) for name, c in joint.items()]
        if not all(coefficients):
            raise ModelError(f"{what}: a coefficient is zero; leave that joint out of {dict(joint)!r}")
        return LinearCoupling(tuple(joint), np.array(coefficients), float(finite(offset, 1, f"{what}: offset")[0]))
    leaders = (to,) if isinstance(to, str) else tuple(to) if isinstance(to, Sequence) else ()
    if not isinstance(joint, str) or not leaders or not all(isinstance(name, str) for name in leaders):
        raise ModelError(f"{what}: name the joint that follows, and with to= the one that leads; got {joint!r}, {to!r}")
    if joint in leaders:
        raise ModelError(f"{what}: joint {joint!r} cannot follow itself")
    what = f"{what}: joint {joint!r}"
    if sum(given is not None for given in (ratio, poly, function)) != 1:
        raise ModelError(f"{what} needs exactly one of ratio=, poly= and function=")
    if function is not None:
        if not callable(function) or offset != 0.0:
            raise ModelError(f"{what}: function= takes a function of the leaders, which includes any offset")
        coupling = FunctionCoupling((joint, *leaders), function)
        _ = coupling.follower  # traces the function
        return coupling
    if len(leaders) != 1:
        raise ModelError(f"{what} follows several joints; give function=, or a mapping of joints to coefficients")
    if poly is not None:
        if offset != 0.0:
            raise ModelError(f"{what}: the offset of a polynomial is its first coefficient; leave offset= out")
        numbers = finite(poly, np.size(poly), f"{what}: poly")
        if len(numbers) < 2 or not numbers[1:].any():
            raise ModelError(f"{what}: poly= needs the coefficients of a polynomial that is not constant, lowest first")
        return PolynomialCoupling((joint, *leaders), numbers)
    slope = float(finite(ratio, 1, f"{what}: ratio")[0])
    if slope == 0.0:
        raise ModelError(f"{what}: the ratio is zero, so it never moves; make it a fixed joint")
    return LinearCoupling((joint, *leaders), np.array([1.0, -slope]), float(finite(offset, 1, f"{what}: offset")[0]))


def axes_of(kind: JointKind, axis: Any, axes: Any, owner: str) -> tuple[tuple[float, ...], ...]:
    """Unit axes."""
    if axis is not None and kind.axes != 1:
        fix = "pass axes=(first, second)" if kind.axes == 2 else "leave it out"
        raise ModelError(f"{owner}: a {kind.name} joint takes no axis=; {fix}")
    if axes is not None and kind.axes != 2:
        raise ModelError(f"{owner}: only a universal joint takes axes=; this one is {kind.name}")
    if kind.axes == 0:
        return ()
    if kind.axes == 1:
        return (Z if axis is None else direction(axis, owner),)
    if axes is not None and not isinstance(axes, (Sequence, np.ndarray)):
        raise ModelError(f"{owner}: axes is a pair of directions, (first, second); got {axes!r}")
    given = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)) if axes is None else tuple(axes)
    if len(given) != 2:
        raise ModelError(f"{owner}: a universal joint takes two axes, got {len(given)}")
    first, second = (direction(one, owner) for one in given)
    if length(np.cross(first, second)) < 1e-6:
        raise ModelError(f"{owner}: the two axes of a universal joint are parallel; use a revolute joint")
    return first, second


def pitch_of(kind: JointKind, pitch: Any, owner: str) -> float:
    """Advance of a helical joint [m/rad]; zero for others."""
    if kind.name != "helical":
        if pitch is not None:
            raise ModelError(f"{owner}: only a helical joint takes pitch=; this one is {kind.name}")
        return 0.0
    if pitch is None:
        raise ModelError(f"{owner}: a helical joint needs pitch=, its advance in metres per radian")
    return float(finite(pitch, 1, f"{owner}: pitch")[0])


def finite(values: Any, count: int, what: str, *, each: bool = False) -> Array:
    """`count` finite numbers; one number stands for all of them, unless each has to be given."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} {values!r} is not made of numbers") from None
    if array.shape != (count,) and (each or array.shape not in ((), (1,))):
        raise ModelError(f"{what} has shape {array.shape}, must be ({count},)")
    if not np.isfinite(array).all():
        raise ModelError(f"{what} {values!r} has NaN or infinite entries")
    return np.full(count, array)


def non_negative(values: Any, count: int, owner: str, name: str) -> Array:
    """As `finite`, none below zero."""
    if isinstance(values, float) and 0.0 <= values < math.inf:
        return constant(float(values) + 0.0, count)  # many joints have the same
    what = f"{owner}: {name}"
    array = finite(values, count, what)
    if (array < 0.0).any():
        raise ModelError(f"{what} {values!r} is negative")
    return frozen(array, (count,))
