"""Inverse and forward dynamics as functions of coordinates, with derivatives with respect to these coordinates.

These are the functions that automatic differentiation needs; `kinetree.jax` and `kinetree.torch` wrap them. To these
libraries, a configuration is a vector of nq numbers, four for a quaternion, without a tangent space. The dynamics are
defined for quaternions of any nonzero length and do not depend on the length, so derivatives along it are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np

from kinetree.algorithms.kinematics.manifold import component_change, component_gradient, component_gradient_change
from kinetree.errors import InputError, SecondDerivativeError
from kinetree.language.algorithm import Algorithm
from kinetree.model.model import Model
from kinetree.model.singularity import require_invertible
from kinetree.runtime.arguments import require_shape
from kinetree.runtime.bound import quiet
from kinetree.runtime.function import Function
from kinetree.spatial.reproducible import apply
from kinetree.spatial.value import Array


class Arrays(Protocol):
    """The operations that differentiation needs from an array library."""

    def run(self, bound: Any, *arrays: Any) -> Any:
        """Call the result of `Function.bound`."""

    def apply(self, matrix: Any, vector: Any) -> Any:
        """Matrices times vectors."""

    def transpose(self, matrix: Any) -> Any:
        """Swap the last two axes."""

    def stack(self, vectors: Sequence[Any]) -> Any:
        """Stack vectors as the rows of a matrix."""


class NumPy:
    """NumPy arrays."""

    def run(self, bound: Any, *arrays: Array) -> Any:
        return bound(*arrays)

    def apply(self, matrix: Array, vector: Array) -> Array:
        return apply(matrix, vector)

    def transpose(self, matrix: Array) -> Array:
        return np.swapaxes(matrix, -1, -2)

    def stack(self, vectors: Sequence[Array]) -> Array:
        return np.stack(vectors, axis=-2)


class Differentiable:
    """A function of q, v, x (accelerations or joint forces) and wrenches on frames, with common batch axes.

    Args:
        robot: The model.
        name: "inverse_dynamics" or "forward_dynamics".
        frames: Frames on which wrenches act.
        arrays: The library whose arrays it takes.
    """

    def __init__(self, robot: Model, name: str, frames: Sequence[str] = (), arrays: Arrays | None = None) -> None:
        if not isinstance(robot, Model):
            raise InputError(f"{name} takes a kinetree.Model, got {type(robot).__name__}")
        if name == "forward_dynamics":
            # raised here because a compiled program would turn it into another error
            require_invertible(robot.mechanism)
        self.robot, self.name, self.frames = robot, name, tuple(frames)
        for frame in self.frames:
            robot.site(frame)  # raises if there is none
        self._function = getattr(robot, name)
        self._arrays = NumPy() if arrays is None else arrays
        self._bound: dict[Algorithm, Any] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the last axes of its arguments."""
        return (self.robot.nq, self.robot.nv, self.robot.nv, *(6 for _ in self.frames))

    @property
    def size(self) -> int:
        """Length of the last axis of its value."""
        return self.robot.nv

    def arguments(
        self, q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None, converted: Callable[[str, Any], Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """The arguments as a flat tuple, wrenches last, in the order of `frames`; and their common batch shape.

        `converted` converts an argument, given with its name, to an array of the library, and raises if it cannot.
        """
        given = (q, v, x, *((f_ext or {})[frame] for frame in self.frames))
        third = "a" if self.name == "inverse_dynamics" else "tau"
        names = [f"{self.name}: {name}" for name in ("q", "v", third, *map(repr, self.frames))]
        arrays = tuple(converted(name, array) for name, array in zip(names, given, strict=True))
        shapes = [tuple(array.shape) for array in arrays]
        for name, shape, size in zip(names, shapes, self.sizes, strict=True):
            require_shape(name, shape, (size,))
        try:
            batch = np.broadcast_shapes(*(shape[:-1] for shape in shapes))
        except ValueError:
            listed = ", ".join(f"{name.rpartition(': ')[2]} {shape}" for name, shape in zip(names, shapes))
            raise InputError(f"{self.name}: batch shapes do not broadcast: {listed}") from None
        return arrays, batch

    def value(self, q: Any, v: Any, x: Any, *wrenches: Any) -> Any:
        """Joint forces or accelerations, (…, nv)."""
        return self._run(self._function, (q, v, x), wrenches)

    @quiet
    def change(self, *arrays: Any) -> Any:
        """Directional derivative of the value, (…, nv); takes the arguments, then a direction for each."""
        half = len(arrays) // 2
        q, v, x, *wrenches = arrays[:half]
        dq, dv, dx, *pushes = arrays[half:]
        added = self._forces(q, pushes)
        inverse = self.name == "inverse_dynamics"
        direction = (self._tangent(q, dq), dv, dx if inverse else dx + added)
        change = self._run(self._function.jvp, (q, v, x, *direction), wrenches)
        return change - added if inverse else change

    @quiet
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients of the weighted value with respect to each argument; takes the arguments, then the weights."""
        q, v, x, *wrenches, weights = arrays
        by_q, by_v, by_x = self._run(self._function.vjp, (q, v, x, weights), wrenches)
        lever = -weights if self.name == "inverse_dynamics" else by_x
        return self._by_components(q, by_q), by_v, by_x, *(self._velocity(q, lever, frame) for frame in self.frames)

    @quiet
    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        """Directional derivatives of the gradients; takes the arguments of `gradients`, then a direction for each.

        The weighted value depends on the wrenches f through leverᵀ Jᵀ f, where the lever is −w for inverse dynamics and
        M⁻¹w for forward dynamics.
        """
        half = len(arrays) // 2
        q, v, x, *wrenches = arrays[:half]
        weights = arrays[half]
        dq, dv, dx, *pushes = arrays[half + 1 :]
        inverse = self.name == "inverse_dynamics"
        tangent = self._tangent(q, dq)
        direction = (tangent, dv, dx if inverse else dx + self._forces(q, pushes))
        by_q, by_v, by_x = self._run(self._function.hvp, (q, v, x, weights, *direction), wrenches)
        if self._is_plain and not self.frames:
            return by_q, by_v, by_x
        slope, _, lever = self._run(self._function.vjp, (q, v, x, weights), wrenches)
        if inverse:
            lever = -weights
        if self.frames:
            by_q = by_q + self._lever_slope(q, v, x, lever, pushes)
        by_wrenches = []
        for frame in self.frames:
            rate = self._arrays.run(self.robot.jacobian_rate.bound(frame, "local"), q, tangent)
            turned = self._arrays.apply(rate, lever)
            by_wrenches.append(turned if inverse else turned + self._velocity(q, by_x, frame))
        by_components = self._by_components(q, by_q)
        if not self._is_plain:  # the tangent map changes as well
            by_components = by_components + self._run_map(component_gradient_change, q, slope, dq)
        return by_components, by_v, by_x, *by_wrenches

    def require_curvature(self) -> None:
        """Raise unless there are second derivatives."""
        self._function.hvp.require()

    def _tangent(self, q: Any, dq: Any) -> Any:
        """The tangent for a change of the components of q."""
        return dq if self._is_plain else self._run_map(component_change, q, dq)

    def _by_components(self, q: Any, by_q: Any) -> Any:
        """The gradient with respect to the components of q, from that along the tangent."""
        return by_q if self._is_plain else self._run_map(component_gradient, q, by_q)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the components of q are tangents: no quaternions or planar joints."""
        q = self.robot.random_configuration(0)
        return self.robot.nq == self.robot.nv and np.array_equal(self.robot.tangent_map(q), np.eye(self.robot.nv))

    def _run_map(self, algorithm: Algorithm, *arrays: Any) -> Any:
        """Run a recursion with `tangent_map(q)`."""
        if algorithm not in self._bound:
            function = Function[..., Any](algorithm.name, self.robot.mechanism, algorithm)
            self._bound[algorithm] = function.bound()
        return self._arrays.run(self._bound[algorithm], *arrays)

    def _lever_slope(self, q: Any, v: Any, x: Any, lever: Any, pushes: Sequence[Any]) -> Any:
        """Gradient of leverᵀ Jᵀ f along the tangent: what wrenches add to that of inverse dynamics."""
        gradient, state = self.robot.inverse_dynamics.vjp, (q, v, x, -lever)
        with_wrenches, *_ = self._run(gradient, state, pushes)
        without, *_ = self._arrays.run(gradient.bound(), *state)
        return with_wrenches - without

    def _velocity(self, q: Any, lever: Any, frame: str) -> Any:
        """J times a lever."""
        return self._arrays.run(self.robot.velocity.bound(frame), q, lever)

    def _forces(self, q: Any, pushes: Sequence[Any]) -> Any:
        """Joint forces due to wrenches on all frames."""
        return sum((self._force(q, frame, push) for frame, push in zip(self.frames, pushes, strict=True)), start=0.0)

    def _run(self, function: Any, arrays: Sequence[Any], wrenches: Sequence[Any]) -> Any:
        stacked = (self._arrays.stack(wrenches),) if wrenches else ()
        return self._arrays.run(function.bound(self.frames), *arrays, *stacked)

    def _force(self, q: Any, frame: str, wrench: Any) -> Any:
        """Joint forces due to a wrench on a frame, Jᵀ f."""
        jacobian = self._arrays.run(self.robot.jacobian.bound(frame), q)
        return self._arrays.apply(self._arrays.transpose(jacobian), wrench)


def frames_of(name: str, f_ext: Any) -> tuple[str, ...]:
    """The frames on which wrenches act in a call of a function."""
    if f_ext is not None and not isinstance(f_ext, Mapping):
        raise InputError(f"{name}: f_ext is a {type(f_ext).__name__}; pass a dictionary of wrenches by frame")
    return tuple(f_ext or ())


def refuse(name: str, array: Any, wanted: str) -> InputError:
    """The error for an argument of the wrong array library."""
    kind = type(array)
    return InputError(f"{name} is a {kind.__module__.partition('.')[0]}.{kind.__name__}; {wanted}")


def refuse_complex(name: str) -> InputError:
    """The error for an argument whose imaginary part would be lost."""
    return InputError(f'{name} is complex; pass real numbers (complex ones: robot.….engine("reference"))')


def refuse_second_derivatives(*_: Any, **__: Any) -> NoReturn:
    """Raise where a library would differentiate a derivative that is not differentiable."""
    raise SecondDerivativeError(
        "this derivative cannot be differentiated again. Second derivatives exist for inverse and forward dynamics, "
        "the mass matrix, poses, integration and steps; along tangents, use robot.inverse_dynamics.hvp or "
        "robot.forward_dynamics.hvp"
    )


def refuse_third_derivatives(*_: Any, **__: Any) -> NoReturn:
    """Raise where a library would differentiate a second derivative."""
    raise SecondDerivativeError("second derivatives of dynamics cannot be differentiated again")
