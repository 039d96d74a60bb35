"""Inverse and forward dynamics as differentiable functions of PyTorch tensors, on the CPU.

    import ramify.torch

    forward_dynamics = ramify.torch.forward_dynamics(robot)
    a = forward_dynamics(q, v, tau)           # float64 tensors with leading batch axes, which broadcast
    a.sum().backward()

Reverse mode (`backward`) and forward mode (`torch.func.jvp`) run the O(n) recursions of `vjp` and `jvp`. Gradients with
respect to q are with respect to its numbers; a change of a quaternion's length changes nothing. Derivatives cannot be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ramify.model.model import Model

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise ImportError('ramify.torch needs PyTorch: pip install "ramify[torch]"') from error


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a)`: joint forces, (…, nv), as `Model.inverse_dynamics`."""
    return _differentiable(robot, robot.inverse_dynamics)


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau)`: joint accelerations, (…, nv), as `Model.forward_dynamics`."""
    return _differentiable(robot, robot.forward_dynamics)


def _differentiable(robot: Model, function: Any) -> Callable[..., Any]:
    class Dynamics(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(q: Any, v: Any, x: Any) -> Any:
            return _tensor(function(_array(q), _array(v), _array(x)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, _output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, w: Any) -> Any:
            q, v, x = map(_array, ctx.saved_tensors)
            by_q, by_v, by_x = function.vjp(q, v, x, _array(w))
            by_q = np.einsum("...ij,...i->...j", robot.tangent_map(q), by_q)
            return tuple(_summed(g, t) for g, t in zip((by_q, by_v, by_x), ctx.saved_tensors, strict=True))

        @staticmethod
        def jvp(ctx: Any, dq: Any, dv: Any, dx: Any) -> Any:
            q, v, x = map(_array, ctx.saved_tensors)
            steps = [np.zeros(1) if d is None else _array(d) for d in (dq, dv, dx)]
            tangent = np.einsum("...ij,...j->...i", robot.tangent_map(q), np.broadcast_to(steps[0], q.shape))
            dv, dx = (np.broadcast_to(step, value.shape) for step, value in zip(steps[1:], (v, x), strict=True))
            return _tensor(function.jvp(q, v, x, tangent, dv, dx))

    def call(q: Any, v: Any, x: Any) -> Any:
        return Dynamics.apply(q, v, x)

    call.__name__, call.__doc__ = function.name, f"`{function.name}` of {robot.name!r}, differentiable."
    return call


def _array(tensor: Any) -> Any:
    return np.ascontiguousarray(tensor.detach().numpy(), dtype=np.float64)


def _tensor(array: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))


def _summed(gradient: Any, like: Any) -> Any:
    """A gradient summed over the batch axes along which its tensor was broadcast."""
    return _tensor(gradient).sum_to_size(like.shape).to(like.dtype)
