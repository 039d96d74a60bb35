"""Terms of a cost: ½ Σ w r² of residuals r on the nodes of a horizon, each a function on batches of nodes.

A term is bound to a robot as parts, by what their residuals depend on. Entries of the tangents themselves need no
Jacobian; rows of the configuration have one; what depends on everything has three.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from kinetree.errors import DifferencesWarning, InputError
from kinetree.model.model import Model
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.operands import Operand
from kinetree.runtime.texts import recorded
from kinetree.spatial.value import Array

#: Steps of central differences: cube root of the rounding.
_STEP = 6e-6
_Given = ParamSpec("_Given")


class Foot(NamedTuple):
    """A foot: its frame, what is held of it, at which steps, (T,), and where its forces are among all."""

    frame: str
    rows: str
    held: Array
    part: slice


class Scope(NamedTuple):
    """What terms are made for: a robot, the number of its inputs, and its feet."""

    robot: Model
    nu: int
    feet: Sequence[Foot] = ()


class Part(NamedTuple):
    """Some rows of a term, for a robot.

    Attributes:
        of: What residuals are: entries of the tangents of "q", "v" or "u"; "rows" that depend on q; rows of the "force"
            at feet; or on "all".
        size: Number of rows.
        residual: From q, v, u and the target to r, (…, T + 1, size); of forces, from the force in the place of u.
        rows: The same, and derivatives: by q, or by q, v and u, where None is zero.
        entries: The tangents that entries are of; all by default.
        matrix: Of forces, A in r = A λ − target, (size, nf).
        text: The same for one node, as a text of `kinetree.runtime.texts` on q, v, u and the target, and whether
            derivatives are wanted: r, or a list of r and these. None if it runs in Python.
        target: Shape of a target of one node; None if it takes none, or the shape is not known.
        bend: A text on q, the target, s = w r and a matrix, to which it adds Σ s ∂²r/∂q²; None if differences have to
            do.
    """

    of: str
    size: int
    residual: Callable[[Array, Array, Array, Any], Array]
    rows: Callable[[Array, Array, Array, Any], tuple[Any, ...]] | None = None
    entries: slice = slice(None)
    matrix: Array = np.zeros((0, 0))
    text: Callable[..., Any] | None = None
    target: tuple[int, ...] | None = None
    bend: Callable[..., Any] | None = None


def texted(
    scope: Scope, of: str, size: int, target: tuple[int, ...] | None, text: Callable[..., Any],
    entries: slice = slice(None), bend: Callable[..., Any] | None = None,
) -> Part:  # fmt: skip
    """A part whose functions run a text; see `Part`."""
    nq, nv, nu = scope.robot.nq, scope.robot.nv, scope.nu
    inputs = [Operand("q", (nq,)), Operand("v", (nv,)), Operand("u", (nu,))]
    inputs += [] if target is None else [Operand("target", target)]
    by = {"rows": [(size, nv)], "all": [(size, nv), (size, nv), (size, nu)]}.get(of, [])
    outputs = [Operand("r", (size,)), *(Operand(f"by_{i}", shape) for i, shape in enumerate(by))]

    @cache
    def made(rows: bool) -> Compiled:
        def run(run: Any, q: Any, v: Any, u: Any, aim: Any = None) -> list[Any]:
            found = text(run, q, v, u, aim, rows)
            return found if isinstance(found, list) else [found]

        return recorded("term", inputs, outputs if rows else outputs[:1], run)

    def residual(*x: Any) -> Array:
        found: Array = made(False)(*x[: len(inputs)])
        return found

    def rows(*x: Any) -> tuple[Any, ...]:
        found = made(True)(*x[: len(inputs)])
        return found if isinstance(found, tuple) else (found,)

    return Part(of, size, residual, rows if by else None, entries, text=text, target=target, bend=bend)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CostTerm:
    """What all terms have: a weight, perhaps an interval within which residuals cost nothing, and a name."""

    weight: Any = 1.0
    last: Any = None
    impact: Any = None
    lower: Any = None
    upper: Any = None
    nodes: Sequence[int] | None = None
    name: str = "term"
    hard: bool = False

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(name, str):
            raise InputError(f"the name of a term, or of its frame, is a string; got {name!r}")
        for field in ("weight", "last", "impact", "lower", "upper"):
            given = getattr(self, field)
            if given is not None or field == "weight":  # a copy: a term does not change with the user's array
                array = np.array(arguments.numbers(f"term {name!r}", field, given), dtype=np.float64)
                if np.isnan(array).any():
                    raise InputError(f"term {name!r}: {field} has NaN entries")
                object.__setattr__(self, field, array)
        if self.nodes is not None:
            nodes = np.array(arguments.numbers(f"term {name!r}", "nodes", self.nodes, "fiub"))
            if nodes.size and nodes.dtype.kind not in "iu":
                mask = "; np.flatnonzero(mask) are those of a mask" if nodes.dtype.kind == "b" else ""
                raise InputError(f"nodes of term {name!r} are numbers of nodes, such as [0, 50, -1]{mask}")
            object.__setattr__(self, "nodes", np.array(nodes, dtype=np.intp))

    def __repr__(self) -> str:
        return f"<term {self.name!r}{', hard' * self.hard}>"

    def parts(self, scope: Scope) -> list[Part]:
        """What it consists of."""
        raise NotImplementedError

    def target(self, robot: Model, given: Any) -> Any:
        """What its parts take as a target."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class Term(CostTerm):
    """A cost ½ Σ w r² of your own residual.

    Args:
        fun: Called with q (…, T + 1, nq), v (…, T + 1, nv) and u (…, T + 1, nu), zero at the last node; returns the
            residual r, (…, T + 1, size), or (r, r_x, r_u) with derivatives (…, T + 1, size, 2 nv) along tangents of
            (q, v), and (…, T + 1, size, nu). Without derivatives they come from central differences, and a warning
            says so.
        size: Number of rows of the residual.
        weight: Weights at the nodes before the last, per second: a number, (size,) or (T + 1, size).
        last: Weight at the last node: a number or (size,); by default `weight`.
        impact: Weight at impacts, which take no time: a number or (size,); zero by default.
        lower: Residuals within [lower, upper] cost nothing; numbers or (size,).
        upper: See `lower`.
        nodes: The nodes where it is in force, such as [0, 50, -1]; all by default.
        name: Its name, for targets, `plan.costs` and messages.
        hard: Whether residuals must be within [lower, upper], or zero without bounds, where weights are not zero. The
            weight is then that of a penalty to begin with, and not per second.
    """

    fun: Callable[..., Any]
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.fun):
            raise InputError(f"term {self.name!r}: {self.fun!r} is not a function of q, v and u")
        try:
            inspect.signature(self.fun).bind(None, None, None)
        except ValueError:  # some functions do not say what they take
            pass
        except TypeError as error:
            raise InputError(f"term {self.name!r} is called as function(q, v, u): {error}") from None
        checked_size(self.name, self.size)

    def parts(self, scope: Scope) -> list[Part]:
        """What it consists of."""
        return [Part("all", self.size, self._residual, lambda *x: self._rows(scope.robot, *x))]

    def target(self, robot: Model, given: Any) -> Any:
        """What its parts take as a target."""
        del robot
        if given is not None:
            raise InputError(f"term {self.name!r} is a function of your own, which takes no target")
        return None

    def _call(self, q: Array, v: Array, u: Array) -> tuple[Any, ...]:
        found = self.fun(q, v, u)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        nv, nu, batch = v.shape[-1], u.shape[-1], q.shape[:-1]
        wanted = (*batch, self.size), (*batch, self.size, 2 * nv), (*batch, self.size, nu)
        if len(found) not in (1, 3):
            raise InputError(f"term {self.name!r} returns r or (r, r_x, r_u), got {len(found)} arrays")
        arrays: list[Any] = []
        for name, given, shape in zip(("r", "r_x", "r_u"), found, wanted, strict=False):
            if given is None and name != "r":
                arrays.append(None)
                continue
            array = np.asarray(arguments.numbers(f"term {self.name!r}", name, given), dtype=np.float64)
            if array.shape != shape:
                raise InputError(f"term {self.name!r}: {name} has shape {array.shape}, expected {shape}")
            arrays.append(array)
        return tuple(arrays)

    def _residual(self, q: Array, v: Array, u: Array, _target: Any) -> Array:
        residual: Array = self._call(q, v, u)[0]
        return residual

    def _rows(self, robot: Model, q: Array, v: Array, u: Array, _target: Any) -> tuple[Any, ...]:
        r, *given = self._call(q, v, u)
        nv = v.shape[-1]
        if given:
            by_x, by_u = given
            return r, *((None, None) if by_x is None else (by_x[..., :nv], by_x[..., nv:])), by_u
        warnings.warn(
            f"term {self.name!r} has no derivatives: they come from central differences; return (r, r_x, r_u)",
            DifferencesWarning,
            stacklevel=2,
        )
        return r, *differences(robot, lambda *x: self._call(*x)[0], q, v, u)


def differences(robot: Model, residual: Callable[..., Array], q: Array, v: Array, u: Array) -> tuple[Array, ...]:
    """Derivatives of a residual along the tangents of q, v and u, by central differences in one batch each."""
    found = []
    for which, size in enumerate((v.shape[-1], v.shape[-1], u.shape[-1])):
        steps = _STEP * np.eye(size).reshape(size, *(1,) * (q.ndim - 1), size)
        ends = []
        for sign in (1.0, -1.0):
            x = [np.broadcast_to(each, (size, *each.shape)) for each in (q, v, u)]
            x[which] = robot.integrate(x[0], sign * steps) if which == 0 else x[which] + sign * steps
            ends.append(residual(*x))
        found.append(np.moveaxis((ends[0] - ends[1]) / (2.0 * _STEP), 0, -1))
    return tuple(found)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BuiltIn(CostTerm):
    """A term whose parts are made for a robot, and which may have a target."""

    make: Callable[[Scope], list[Part]]
    #: From a robot and what the user gave, or None, to an array whose last axes are those of one node.
    aim: Callable[[Model, Any], Array | None]
    #: The number of axes of a target at one node.
    axes: int = 1
    #: The target unless `solve` is given one.
    default: Any = None
    #: Whether there is none.
    awaited: bool = False
    #: The function that made it, and its arguments; set by `remade`.
    origin: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _called, self.origin

    def parts(self, scope: Scope) -> list[Part]:
        """What it consists of."""
        return self.make(scope)

    def target(self, robot: Model, given: Any) -> Any:
        """What its parts take as a target."""
        return self.aim(robot, self.default if given is None else given)


def remade(make: Callable[_Given, CostTerm]) -> Callable[_Given, CostTerm]:
    """A function that makes terms, which are pickled as its arguments."""

    @wraps(make)
    def made(*given: _Given.args, **options: _Given.kwargs) -> CostTerm:
        # the user's arrays may change
        kept: Any = [_kept(x) for x in given], {name: _kept(x) for name, x in options.items()}
        term = make(*kept[0], **kept[1])
        object.__setattr__(term, "origin", (made, *kept))
        return term

    return made


def _kept(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _called(make: Callable[..., CostTerm], given: list[Any], options: dict[str, Any]) -> CostTerm:
    return make(*given, **options)


def checked_size(name: str, size: Any) -> None:
    """Raise unless this is a number of rows."""
    arguments.whole(f"term {name!r}: size", size, what="a positive number of rows")


def curved_blocks(robot: Model) -> list[tuple[int, int]]:
    """First velocity and number of velocities of each joint whose coordinates are not numbers."""
    rates = np.random.default_rng(0).uniform(0.5, 1.0, robot.nv)
    curved = np.abs(robot.dintegrate(robot.neutral(), rates)[1] - np.eye(robot.nv)).max(axis=0, initial=0.0) > 0.0
    return [
        (joint.v_start, joint.nv) for joint in robot.joints if curved[joint.v_start : joint.v_start + joint.nv].any()
    ]


def shaped(name: str, given: Any, shape: tuple[int, ...], what: str) -> Array:
    """A target whose last axes are those of one node."""
    if given is None:
        raise InputError(f"term {name!r} has no target: pass targets={{{name!r}: …}} to solve, {what} {shape}")
    array = numbers_of_target(name, given)
    if array.shape[max(array.ndim - len(shape), 0) :] != shape:
        many = ", ".join(map(str, shape))
        raise InputError(f"the target of {name!r} has shape {array.shape}; {what} is {shape}, or (…, T + 1, {many})")
    return array


def numbers_of_target(name: str, given: Any) -> Array:
    """A target as an array."""
    return np.asarray(arguments.numbers("solve", f"the target of {name!r}", given), dtype=np.float64)
