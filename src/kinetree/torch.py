"""Inverse and forward dynamics as differentiable functions of PyTorch tensors, on the CPU.

    import kinetree.torch

    forward_dynamics = kinetree.torch.forward_dynamics(robot)
    a = forward_dynamics(q, v, tau)           # float64 tensors with leading batch axes, which broadcast
    a.sum().backward()

Reverse mode (`backward`, `torch.func.grad`, `jacrev`) and forward mode (`torch.func.jvp`, `jacfwd`) run the O(n)
recursions of `vjp` and `jvp`; a `torch.func.vmap` is one batched call.

Derivatives with respect to q are with respect to its numbers, as PyTorch understands them: four for a quaternion, whose
length changes nothing. Steps along them leave the unit quaternions; `robot.normalize` brings them back. Derivatives
along the tangent are `robot.forward_dynamics.jvp` and `.vjp`. Derivatives cannot be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model.differentiable import (
    Differentiable,
    frames_of,
    refuse,
    refuse_complex,
    refuse_second_derivatives,
)
from kinetree.model.model import Model

try:
    import torch
except ImportError as error:
    raise ImportError('kinetree.torch needs PyTorch: pip install "kinetree[torch]"') from error


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a, f_ext=None)`: joint forces, (…, nv), as `Model.inverse_dynamics`, differentiable in all of them."""
    call = _caller(robot, "inverse_dynamics")

    def inverse_dynamics(q: Any, v: Any, a: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint forces, (…, nv)."""
        return call(q, v, a, f_ext)

    return inverse_dynamics


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau, f_ext=None)`: joint accelerations, (…, nv), as `Model.forward_dynamics`, likewise."""
    call = _caller(robot, "forward_dynamics")

    def forward_dynamics(q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint accelerations, (…, nv)."""
        return call(q, v, tau, f_ext)

    return forward_dynamics


def _caller(robot: Model, name: str) -> Callable[..., Any]:
    made = cache(lambda frames: Differentiable(robot, name, frames))
    made(())  # raises now if there is no such function

    def call(q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> Any:
        function = made(frames_of(name, f_ext))
        tensors, batch = function.arguments(q, v, x, f_ext, _real)
        # From here on all have the same batch axes; PyTorch itself differentiates the broadcast.
        dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()  # as for torch.sin of whole numbers
        return _Value.apply(function, *(tensor.to(dtype).expand(*batch, tensor.shape[-1]) for tensor in tensors))

    return call


def _real(name: str, given: Any) -> Any:
    """A dense tensor of real numbers on the CPU."""
    if not isinstance(given, torch.Tensor):
        raise refuse(name, given, "give a tensor: torch.as_tensor(…)")
    if given.is_complex():
        raise refuse_complex(name)
    if given.device.type != "cpu" or given.layout != torch.strided:
        raise InputError(f"{name} is {given.layout} on {given.device}; give a dense tensor on the CPU")
    return given


class _Kernel(torch.autograd.Function):  # type: ignore[misc]
    """What the three functions below share: vmapped axes become batch axes, in front."""

    @classmethod
    def vmap(cls, info: Any, axes: Any, function: Differentiable, *tensors: Any) -> Any:
        fronted = [
            tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
            for tensor, axis in zip(tensors, axes[1:], strict=True)
        ]
        results = cls.apply(function, *fronted)
        return results, tuple(0 for _ in results) if isinstance(results, tuple) else 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _output: Any) -> None:
        ctx.function, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    backward = jvp = staticmethod(refuse_second_derivatives)


class _Value(_Kernel):
    @staticmethod
    def forward(function: Differentiable, *tensors: Any) -> Any:
        return _tensor(function.value(*map(_array, tensors)), tensors[0].dtype)

    @staticmethod
    def backward(ctx: Any, weights: Any) -> Any:
        return None, *_Gradients.apply(ctx.function, *ctx.saved_tensors, weights)

    @staticmethod
    def jvp(ctx: Any, _: Any, *directions: Any) -> Any:
        given = zip(directions, ctx.saved_tensors, strict=True)
        steps = (torch.zeros_like(tensor) if step is None else step for step, tensor in given)
        return _Change.apply(ctx.function, *ctx.saved_tensors, *steps)


class _Gradients(_Kernel):
    @staticmethod
    def forward(function: Differentiable, *tensors: Any) -> Any:
        return tuple(_tensor(part, tensors[0].dtype) for part in function.gradients(*map(_array, tensors)))


class _Change(_Kernel):
    @staticmethod
    def forward(function: Differentiable, *tensors: Any) -> Any:
        return _tensor(function.change(*map(_array, tensors)), tensors[0].dtype)


def _array(tensor: Any) -> Any:
    return np.ascontiguousarray(tensor.detach().to(torch.float64).numpy())


def _tensor(array: Any, dtype: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)
