"""Inverse and forward dynamics with wrenches on frames: the O(n) recursions of `jvp`, `vjp` and `hvp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kinetree.bridges.differentiable import Arrays, Differentiable, Robot, model_of
from kinetree.errors import InputError
from kinetree.model.singularity import require_invertible
from kinetree.runtime.bound import quiet


class Dynamics(Differentiable):
    """A function of q, v, x (accelerations or joint forces) and wrenches on frames.

    Args:
        robot: The model, or a population.
        name: "inverse_dynamics" or "forward_dynamics".
        frames: Frames on which wrenches act.
        arrays: The library whose arrays it takes.
    """

    def __init__(self, robot: Robot, name: str, frames: Sequence[str], arrays: Arrays) -> None:
        model, self.frames = model_of(name, robot), tuple(frames)
        self._inverse = name == "inverse_dynamics"
        for frame in self.frames:
            model.site(frame)  # raises if there is none
        given = [("q", model.nq), ("v", model.nv), ("a" if self._inverse else "tau", model.nv)]
        given += [(repr(frame), 6) for frame in self.frames]
        super().__init__(name, robot, arrays, given, [(model.nv,)])
        if not self._inverse:
            # raised here because a compiled program would turn it into another error
            require = partial(require_invertible, model.mechanism)
            (require if self.population is None else self.population.require_invertible)()
        self._function = getattr(model, name)

    def value(self, *arrays: Any) -> Any:
        """Joint forces or accelerations, (…, nv)."""
        (q, v, x, *wrenches), fixed = self.groups("value", arrays)
        return self._run(self._function, (q, v, x), wrenches, fixed)

    @quiet
    def change(self, *arrays: Any) -> Any:
        """Directional derivative of the value, (…, nv)."""
        (q, v, x, *wrenches), (dq, dv, dx, *pushes), fixed = self.groups("change", arrays)
        added = self._forces(q, pushes)
        direction = (self.tangent(q, dq), dv, dx if self._inverse else dx + added)
        change = self._run(self._function.jvp, (q, v, x, *direction), wrenches, fixed)
        return change - added if self._inverse else change

    @quiet
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients of the weighted value with respect to each argument."""
        (q, v, x, *wrenches), (weights,), fixed = self.groups("gradients", arrays)
        by_q, by_v, by_x = self._run(self._function.vjp, (q, v, x, weights), wrenches, fixed)
        lever = -weights if self._inverse else by_x
        return self.by_components(q, by_q), by_v, by_x, *(self._velocity(q, lever, frame) for frame in self.frames)

    @quiet
    def curvature(self, *arrays: Any) -> tuple[Any, ...]:
        """Directional derivatives of the gradients.

        The weighted value depends on the wrenches f through leverᵀ Jᵀ f, where the lever is −w for inverse dynamics and
        M⁻¹w for forward dynamics.
        """
        (q, v, x, *wrenches), (weights,), (dq, dv, dx, *pushes), fixed = self.groups("curvature", arrays)
        tangent = self.tangent(q, dq)
        direction = (tangent, dv, dx if self._inverse else dx + self._forces(q, pushes))
        by_q, by_v, by_x = self._run(self._function.hvp, (q, v, x, weights, *direction), wrenches, fixed)
        if self.is_plain and not self.frames:
            return by_q, by_v, by_x
        slope, _, lever = self._run(self._function.vjp, (q, v, x, weights), wrenches, fixed)
        if self._inverse:
            lever = -weights
        if self.frames:
            by_q = by_q + self._lever_slope(q, v, x, lever, pushes, fixed)
        by_wrenches = []
        for frame in self.frames:
            rate = self._arrays.run(self.robot.jacobian_rate.bound(frame, "local"), q, tangent)
            turned = self._arrays.apply(rate, lever)
            by_wrenches.append(turned if self._inverse else turned + self._velocity(q, by_x, frame))
        by_components = self.by_components(q, by_q)
        if not self.is_plain:  # the tangent map changes as well
            by_components = by_components + self.by_components_change(q, slope, dq)
        return by_components, by_v, by_x, *by_wrenches

    def require_curvature(self) -> None:
        """Raise unless there are second derivatives."""
        self._function.hvp.require()

    def _lever_slope(self, q: Any, v: Any, x: Any, lever: Any, pushes: Sequence[Any], fixed: Sequence[Any]) -> Any:
        """Gradient of leverᵀ Jᵀ f along the tangent: what wrenches add to that of inverse dynamics."""
        gradient, state = self.robot.inverse_dynamics.vjp, (q, v, x, -lever)
        with_wrenches, *_ = self._run(gradient, state, pushes, fixed)
        without, *_ = self._arrays.run(gradient.bound(constants=bool(fixed)), *state, *fixed)
        return with_wrenches - without

    def _velocity(self, q: Any, lever: Any, frame: str) -> Any:
        """J times a lever."""
        return self._arrays.run(self.robot.velocity.bound(frame), q, lever)

    def _forces(self, q: Any, pushes: Sequence[Any]) -> Any:
        """Joint forces due to wrenches on all frames."""
        return sum((self._force(q, frame, push) for frame, push in zip(self.frames, pushes, strict=True)), start=0.0)

    def _run(self, function: Any, arrays: Sequence[Any], wrenches: Sequence[Any], fixed: Sequence[Any]) -> Any:
        stacked = (self._arrays.numpy.stack(wrenches, axis=-2),) if wrenches else ()
        return self._arrays.run(function.bound(self.frames, constants=bool(fixed)), *arrays, *stacked, *fixed)

    def _force(self, q: Any, frame: str, wrench: Any) -> Any:
        """Joint forces due to a wrench on a frame, Jᵀ f."""
        jacobian = self._arrays.run(self.robot.jacobian.bound(frame), q)
        return self._arrays.apply(self._arrays.numpy.swapaxes(jacobian, -1, -2), wrench)


def frames_of(name: str, f_ext: Any) -> tuple[str, ...]:
    """The frames on which wrenches act in a call of a function."""
    if f_ext is not None and not isinstance(f_ext, Mapping):
        raise InputError(f"{name}: f_ext is a {type(f_ext).__name__}; pass a dictionary of wrenches by frame")
    return tuple(f_ext or ())
