"""Functions of q by their texts on dual numbers, Λ⁻¹ of tasks, and what leads from a configuration to another.

OfState             value, and its rates along all unit directions in one batch
InverseInertia      dΛ⁻¹ = dJ M⁻¹Jᵀ + (dJ M⁻¹Jᵀ)ᵀ − J M⁻¹ dM M⁻¹Jᵀ, and that once more
OnManifold          recursions on dual numbers, in `algorithms/kinematics/manifold.py`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kinetree.algorithms.kinematics import manifold
from kinetree.bridges.differentiable import Arrays, Differentiable, Robot, model_of
from kinetree.errors import IrreversibleError
from kinetree.language.algorithm import Algorithm
from kinetree.model.population import Population
from kinetree.runtime.bound import quiet
from kinetree.runtime.forward_derivatives import second
from kinetree.runtime.function import Function
from kinetree.runtime.gradients import Rows


class OfState(Differentiable):
    """A function of q, and of other vectors such as velocities.

    Args:
        name: Its name.
        robot: The model, or a population.
        function: The model's function.
        choice: What it takes besides arrays, such as frames.
        arrays: The library whose arrays it takes.
    """

    def __init__(
        self,
        name: str,
        robot: Robot,
        function: Function[..., Any],
        choice: Sequence[Any],
        arrays: Arrays,
    ) -> None:
        self._function, self._choice = function, choice
        if isinstance(robot, Population) and function._guard is not None:
            robot.require_invertible()
        binding = function.bound(*choice).binding
        given = [(operand.name, *operand.shape) for operand in binding.inputs]
        results = [operand.shape for operand in binding.outputs]
        bundle = None if binding.bundle is tuple else binding.bundle
        super().__init__(name, robot, arrays, given, results, bundle)

    @cached_property
    def _second(self) -> Function[..., Any]:
        return second(self._function)

    def value(self, *arrays: Any) -> Any:
        """The results, (…, size)."""
        return self._run(self._function, *arrays)

    def change(self, *arrays: Any) -> Any:
        """Their change along a direction for each argument, (…, size)."""
        given, directions, fixed = self.groups("change", arrays)
        return self._rate(given, self._tangents(given, directions), fixed)

    @quiet
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients of the results times weights, by the text backwards; of matrices, that of their products."""
        given, (weights,), fixed = self.groups("gradients", arrays)
        by_q, *rest = self._backwards(given, weights, fixed) or self._slopes(given, weights, fixed)
        return self.by_components(given[0], by_q), *rest

    @quiet
    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        """Changes of these gradients along a direction for each argument."""
        given, (weights,), steps, fixed = self.groups("curvature", arrays)
        q, tangents = given[0], self._tangents(given, steps)
        by_q, *rest = self._slopes(given, weights, fixed, tangents)
        by_q = self.by_components(q, by_q)
        if not self.is_plain:  # the tangent map changes as well
            slope = self._slopes(given, weights, fixed)[0]
            by_q = by_q + self.by_components_change(q, slope, steps[0])
        return by_q, *rest

    @quiet
    def bend(self, *arrays: Any) -> Any:
        """The change of `change` along steps."""
        given, directions, steps, fixed = self.groups("bend", arrays)
        turned = [self.tangent_change(given[0], directions[0], steps[0]), *(0.0 * x for x in steps[1:])]
        first, along = self._tangents(given, directions), self._tangents(given, steps)
        return self._second_rate(given, first, along, turned, fixed)

    def _backwards(self, given: Sequence[Any], weights: Any, fixed: Sequence[Any]) -> Sequence[Any] | None:
        """Gradients along the tangent, unless the text cannot be run backwards."""
        rows = self._function.vjp.rows(*self._choice, constants=bool(fixed))
        if rows is not None:
            return self._by_rows(rows, given, weights, fixed)
        try:
            bound = self._function.vjp.bound(*self._choice, constants=bool(fixed))
        except IrreversibleError:
            return None
        parts = self.shaped(weights)
        found = self._arrays.run(bound, *given, *(parts if isinstance(parts, tuple) else (parts,)), *fixed)
        return found if isinstance(found, (list, tuple)) else [found]

    def _by_rows(self, rows: Rows, given: Sequence[Any], weights: Any, fixed: Sequence[Any]) -> list[Any]:
        """Gradients of matrices: of their product with each row of weights, in one batch."""
        xp, count, parts = self._arrays.numpy, math.prod(rows.shape), self.shaped(weights)
        every, batch = parts if isinstance(parts, tuple) else (parts,), tuple(weights.shape[:-1])
        known = dict(zip((*self.names, "constants"), self._wide([*given, *fixed], count)))
        for (name, shape), part in zip(rows.taken.items(), every, strict=True):
            known[name] = part.reshape((*batch, count, *shape))
        units = xp.eye(count, dtype=weights.dtype).reshape((count, *rows.shape))
        known[rows.weight] = xp.broadcast_to(units, (*batch, *units.shape))
        found = self._arrays.run(rows.bound, *(known[operand.name] for operand in rows.bound.binding.inputs))
        several = found if isinstance(found, (list, tuple)) else [found]
        ones = xp.broadcast_to(xp.ones(count, dtype=weights.dtype), (*batch, count))
        return [self._arrays.apply(xp.swapaxes(each, -1, -2), ones) for each in several]

    def _rate(self, given: Sequence[Any], along: Sequence[Any], fixed: Sequence[Any]) -> Any:
        """The change of the results along tangents."""
        return self._run(self._function.jvp, *given, *along, *fixed)

    def _second_rate(
        self, given: Sequence[Any], first: Sequence[Any], along: Sequence[Any], turned: Sequence[Any], fixed: Any
    ) -> Any:
        """The change of `_rate` with directions `first`, which turn, along tangents."""
        return self._run(self._second, *given, *first, *along, *turned, *fixed)

    def _slopes(self, given: Sequence[Any], weights: Any, fixed: Sequence[Any], along: Any = None) -> list[Any]:
        """Products of weights with the rates along all unit tangents, or with changes of these along a tangent."""
        sizes = [self.robot.nv, *self.sizes[1:]]
        count = sum(sizes)
        state, units, constants = self._wide(given, count), self._units(sizes, weights), self._wide(fixed, count)
        if along is None:
            rates = self._rate(state, units, constants)
        else:
            rates = self._second_rate(state, units, self._wide(along, count), [0.0 * x for x in units], constants)
        return self._split_slopes(rates, weights, sizes)

    def _tangents(self, given: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        return [self.tangent(given[0], directions[0]), *directions[1:]]

    def _run(self, function: Any, *arrays: Any) -> Any:
        bound = function.bound(*self._choice, constants=self.population is not None)
        return self._flat(self._arrays.run(bound, *arrays), arrays[0].shape[:-1])


class InverseInertia(OfState):
    """Λ⁻¹ = J M⁻¹ Jᵀ of tasks."""

    def _backwards(self, given: Sequence[Any], weights: Any, fixed: Sequence[Any]) -> None:
        """A matrix."""

    def __init__(self, robot: Robot, tasks: Any, arrays: Arrays) -> None:
        super().__init__("inverse_inertia", robot, tasks.inverse_inertia, (), arrays)
        self._jacobian, self._rows = tasks.jacobian, self.results[0][0]

    def _rate(self, given: Sequence[Any], along: Sequence[Any], fixed: Sequence[Any]) -> Any:
        (q,), (dq,) = given, along
        J, M_inverse, J1, M1 = self._terms(q, dq, fixed)
        S = M_inverse @ self._T(J)
        return self._flat(self._both(J1 @ S - 0.5 * self._T(S) @ M1 @ S), q.shape[:-1])

    def _second_rate(self, given: Any, first: Any, along: Any, turned: Any, fixed: Any) -> Any:
        (q,), (dq,), (step,), (change,) = given, first, along, turned
        J, M_inverse, J1, M1 = self._terms(q, dq, fixed)
        *_, J2, M2 = self._terms(q, step, fixed)
        J12 = self._matrix(second(self._jacobian), (self._rows, self.robot.nv), q, dq, step, change)
        M12 = self._matrix(second(self.robot.mass_matrix), M1.shape[-2:], q, dq, step, change, *fixed)
        S = M_inverse @ self._T(J)
        S2 = M_inverse @ (self._T(J2) - M2 @ S)
        half = J12 @ S + J1 @ S2 - 0.5 * self._T(S) @ M12 @ S - self._T(S2) @ M1 @ S
        return self._flat(self._both(half), q.shape[:-1])

    def _terms(self, q: Any, dq: Any, fixed: Sequence[Any]) -> tuple[Any, ...]:
        """J and M⁻¹, and the changes of J and M."""
        shape, nv = (self._rows, self.robot.nv), self.robot.nv
        mass, identity = self.robot.mass_matrix, self._arrays.numpy.eye(nv, dtype=q.dtype)
        batch = q.shape[:-1]
        wide = [self._arrays.numpy.broadcast_to(x[..., None, :], (*batch, nv, x.shape[-1])) for x in (q, *fixed)]
        units = self._arrays.numpy.broadcast_to(identity, (*batch, nv, nv))
        M_inverse = self._matrix(self.robot.mass_matrix_solve, (nv,), wide[0], units, *wide[1:])
        J, J1 = self._matrix(self._jacobian, shape, q), self._matrix(self._jacobian.jvp, shape, q, dq)
        return J, M_inverse, J1, self._matrix(mass.jvp, (nv, nv), q, dq, *fixed)

    def _matrix(self, function: Any, shape: tuple[int, ...], q: Any, *arrays: Any) -> Any:
        constants = len(arrays) >= len(function.algorithm.inputs)
        return self._arrays.run(function.bound(constants=constants), q, *arrays).reshape((*q.shape[:-1], *shape))

    def _both(self, half: Any) -> Any:
        return half + self._T(half)

    def _T(self, matrix: Any) -> Any:
        return self._arrays.numpy.swapaxes(matrix, -1, -2)


class OnManifold(Differentiable):
    """`Model.integrate` of the components of q and a step, or `Model.difference` of two configurations."""

    def __init__(self, robot: Robot, name: str, arrays: Arrays) -> None:
        model, self._steps = model_of(name, robot), name == "integrate"
        given, result = [("q", model.nq), ("v", model.nv)], model.nq
        if not self._steps:
            given, result = [("q0", model.nq), ("q1", model.nq)], model.nv
        super().__init__(name, model, arrays, given, [(result,)])
        self._value: Any = model.integrate if self._steps else model.difference

    def _recursion(self, which: str, *arrays: Any) -> Any:
        recursion: Algorithm = getattr(manifold, f"{self.name}_{which}")
        return self._map(recursion, *arrays)

    def _times(self, arrays: Any) -> list[Any]:
        """The time that a step takes, where it is asked for."""
        xp = self._arrays.numpy
        return [xp.ones(arrays[0].shape[:-1], dtype=arrays[0].dtype)] if self._steps else []

    def value(self, *arrays: Any) -> Any:
        """The configuration reached, or the velocity that leads there in one second."""
        return self._arrays.run(self._value.bound(), *arrays, *self._times(arrays))

    def change(self, *arrays: Any) -> Any:
        """Its change along a direction for each argument."""
        return self._recursion("change", *arrays[:2], *self._times(arrays), *arrays[2:])

    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients of the value times weights."""
        return tuple(self._recursion("gradients", *arrays))

    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        """Changes of these gradients."""
        return tuple(self._recursion("curvature", *arrays))
