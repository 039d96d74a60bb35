"""Terms from functions of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model.model import Model
from kinetree.ocp.terms import BuiltIn, CostTerm, Part, Scope, checked_size, curved_blocks, remade
from kinetree.runtime.matrix_products import product
from kinetree.spatial.value import Array

#: Steps of central differences.
_STEP = 1e-5


@remade
def jax_term(
    fun: Callable[..., Any], size: int, *, weight: Any = 1.0, last: Any = None, impact: Any = None, lower: Any = None,
    upper: Any = None, nodes: Any = None, name: str = "term",
) -> CostTerm:  # fmt: skip
    """A term whose residual is a function of JAX at one node, with derivatives by JAX.

    Args:
        fun: From q (nq,), v (nv,) and u (nu,) to the residual, (size,); u is zero at the last node.
        size: See `Term`.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        lower: See `Term`.
        upper: See `Term`.
        nodes: See `Term`.
        name: See `Term`.

    Raises:
        ImportError: JAX is not installed.
    """
    try:
        import jax
    except ImportError as error:
        raise ImportError('jax_term needs JAX: pip install "kinetree[jax]"') from error
    checked_size(name, size)
    # it was experimental before JAX 0.8
    double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    all_at_once = jax.jit(jax.vmap(fun))
    slopes = jax.jit(jax.vmap(jax.jacfwd(fun, argnums=(0, 1, 2))))

    def make(scope: Scope) -> list[Part]:
        robot, blocks = scope.robot, curved_blocks(scope.robot)

        def run(f: Any, *x: Array) -> Any:
            with double(True):
                return f(*(np.ascontiguousarray(each).reshape(-1, each.shape[-1]) for each in x))

        def away(q: Array, v: Array, u: Array, _target: Any) -> Array:
            return _nodes(run(all_at_once, q, v, u), q, size, name)

        def rows(q: Array, v: Array, u: Array, target: Any) -> tuple[Any, ...]:
            found = run(slopes, q, v, u)
            by = [np.asarray(x, dtype=np.float64).reshape(*q.shape[:-1], size, x.shape[-1]) for x in found]
            if robot.joint_constraints:
                by[0] = product(by[0], _components_along(robot, q))
            elif blocks:
                # components of q change with tangents as they must for tangent_map to give the tangents back
                by[0] = product(by[0], np.linalg.pinv(robot.tangent_map(q)))
            return away(q, v, u, target), *by

        return [Part("all", size, away, rows)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, lower=lower, upper=upper, nodes=nodes, name=name, make=make,
        aim=lambda *_: None,
    )  # fmt: skip


def _nodes(found: Any, q: Array, size: int, name: str) -> Array:
    if found.shape[1:] != (size,):
        raise InputError(f"term {name!r} returns a residual of shape {found.shape[1:]} at a node, expected ({size},)")
    return np.array(found, dtype=np.float64).reshape(*q.shape[:-1], size)


def _components_along(robot: Model, q: Array) -> Array:
    """Derivatives of the components of q along tangents, (…, nq, nv), of robots with loops: by differences."""
    units, ends = np.eye(robot.nv), []
    for step in (_STEP, -_STEP):
        wide = np.broadcast_to(q[..., None, :], (*q.shape[:-1], robot.nv, robot.nq))
        ends.append(robot.integrate(wide, np.broadcast_to(units, (*q.shape[:-1], *units.shape)), step))
    return np.ascontiguousarray(np.swapaxes(ends[0] - ends[1], -1, -2) / (2.0 * _STEP))
