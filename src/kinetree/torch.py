"""Inverse and forward dynamics as differentiable functions of PyTorch tensors, on the CPU.

    import kinetree.torch

    forward_dynamics = kinetree.torch.forward_dynamics(robot)
    a = forward_dynamics(q, v, tau)           # tensors with leading batch axes, which broadcast
    a.sum().backward()

Reverse mode (`backward`, `torch.func.grad`, `jacrev`) and forward mode (`torch.func.jvp`, `jacfwd`) run the O(n)
recursions of `vjp` and `jvp`; a `torch.func.vmap` is one batched call. Results have the type of the tensors; functions
compute in the type of the robot, and float32 tensors go to the kernels of `robot.astype("float32")` as they are.

Derivatives with respect to q are taken with respect to its components: four for a quaternion, whose length has no
effect. Gradient steps leave the unit quaternions; `robot.normalize` projects back. For derivatives along the tangent,
use `robot.forward_dynamics.jvp` and `.vjp`. Second derivatives (double backward, `torch.func.hessian`) run the O(n)
recursion of `hvp`; third derivatives raise `SecondDerivativeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

from kinetree.errors import InputError
from kinetree.model.differentiable import Differentiable, frames_of, refuse, refuse_complex, refuse_third_derivatives
from kinetree.model.model import Model

try:
    import torch
except ImportError as error:
    raise ImportError('kinetree.torch needs PyTorch: pip install "kinetree[torch]"') from error


def inverse_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, a, f_ext=None)`: joint forces, (…, nv), as `Model.inverse_dynamics`, differentiable in all arguments."""
    call = _caller(robot, "inverse_dynamics")

    def inverse_dynamics(q: Any, v: Any, a: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint forces, (…, nv)."""
        return call(q, v, a, f_ext)

    return inverse_dynamics


def forward_dynamics(robot: Model) -> Callable[..., Any]:
    """`f(q, v, tau, f_ext=None)`: joint accelerations, (…, nv), as `Model.forward_dynamics`, differentiable too."""
    call = _caller(robot, "forward_dynamics")

    def forward_dynamics(q: Any, v: Any, tau: Any, f_ext: Mapping[str, Any] | None = None) -> Any:
        """Joint accelerations, (…, nv)."""
        return call(q, v, tau, f_ext)

    return forward_dynamics


def _caller(robot: Model, name: str) -> Callable[..., Any]:
    made: dict[tuple[str, ...], _Registered] = {
        (): _Registered(Differentiable(robot, name))
    }  # raises here if the function does not exist for this robot

    def call(q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> Any:
        frames = frames_of(name, f_ext)
        registered = made.get(frames)
        if registered is None:
            registered = made[frames] = _Registered(Differentiable(robot, name, frames))
        tensors = registered.arguments(q, v, x, f_ext)
        if torch.compiler.is_compiling():
            return _OPERATIONS.value(registered.number, tensors)
        if _forward_mode():
            return _Value.apply(registered, *tensors)
        # the operation itself, without its dispatch overhead
        if any(tensor.requires_grad for tensor in tensors):
            return _Eager.apply(registered, *tensors)
        return _compute("value", registered.number, tensors)

    return call


class _Registered:
    """A function and the number that identifies it to PyTorch's operations in this process."""

    def __init__(self, function: Differentiable) -> None:
        self.function = function
        self._sizes, self._dtype = function.sizes, _type(function)
        self.number = len(_REGISTERED)
        _REGISTERED.append(function)

    def arguments(self, q: Any, v: Any, x: Any, f_ext: Mapping[str, Any] | None) -> list[Any]:
        """Dense tensors of one type with the same batch axes. PyTorch itself differentiates the broadcasting."""
        given = [q, v, x]
        if f_ext is None and _are_plain(given, self._sizes, self._dtype):
            return given
        tensors, batch = self.function.arguments(q, v, x, f_ext, _real)
        dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()  # as torch.sin does for integers
        return [tensor.to(dtype).expand(*batch, tensor.shape[-1]) for tensor in tensors]


def _are_plain(given: list[Any], sizes: tuple[int, ...], dtype: Any) -> bool:
    """Whether arguments need no checks or conversion: tensors of the robot's type with the same batch axes."""
    if not all(type(tensor) is torch.Tensor for tensor in given):
        return False
    batch = given[0].shape[:-1]
    return all(
        tensor.dtype is dtype and tensor.is_cpu and tensor.layout is torch.strided
        and tensor.shape == (*batch, size)
        for tensor, size in zip(given, sizes, strict=True)
    )  # fmt: skip


#: Entries are never removed, since compiled programs refer to them by number.
_REGISTERED: list[Differentiable] = []


def _forward_mode() -> bool:
    """Whether transforms or dual numbers are active, for which operations have no forward-mode formula."""
    transforms: bool = torch._C._are_functorch_transforms_active()
    return transforms or torch.autograd.forward_ad._current_level >= 0


def _real(name: str, given: Any) -> Any:
    """A dense tensor of real numbers on the CPU."""
    if not isinstance(given, torch.Tensor):
        raise refuse(name, given, "pass a tensor: torch.as_tensor(…)")
    if given.is_complex():
        raise refuse_complex(name)
    if given.device.type != "cpu" or given.layout != torch.strided:
        raise InputError(f"{name} is {given.layout} on {given.device}; pass a dense tensor on the CPU")
    return given


# Operations registered with PyTorch, opaque to `torch.compile`. They take the number of a function, and its arrays:
#
#     value(q, v, x, *wrenches)                              the function itself
#     gradients(q, v, x, *wrenches, weights)                 of the weighted value, with respect to each argument
#     change(q, v, x, *wrenches, dq, dv, dx, *pushes)        of the value along a direction
#     curvature(q, v, x, *wrenches, weights, dq, …)          change of the gradients along a direction

_LIBRARY = torch.library.Library("kinetree", "DEF")
_OPERATIONS = torch.ops.kinetree
_ONE, _SEVERAL = ("value", "change"), ("gradients", "curvature")


def _compute(name: str, number: int, tensors: list[Any]) -> Any:
    """The result of an operation, without PyTorch's dispatch."""
    function = _REGISTERED[number]
    result = getattr(function, name)(*_arrays(function, tensors))
    return _tensor(result, tensors) if name in _ONE else [_tensor(part, tensors) for part in result]


def _fake(name: str, _number: int, tensors: list[Any]) -> Any:
    """Empty tensors of the shapes of an operation's results."""

    def like(tensor: Any) -> Any:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    if name in _ONE:
        return like(tensors[1])  # velocities
    # of n arguments and the weights, or of 2n + 1 arrays
    return [like(tensor) for tensor in (tensors[:-1] if name == "gradients" else tensors[: len(tensors) // 2])]


# Backward formulas, from a function `run` that computes any of the operations, what was saved, and what is passed back.


def _backward_of_value(run: Callable[..., Any], _: Differentiable, saved: Any, weights: Any) -> Any:
    return run("gradients", *saved, weights)


def _backward_of_gradients(run: Callable[..., Any], function: Differentiable, saved: Any, *directions: Any) -> Any:
    """Gradients are linear in the weights; their derivative with respect to the arguments is the curvature."""
    *arguments, weights = saved
    function.require_curvature()
    steps = _filled(directions, arguments)
    return *run("curvature", *arguments, weights, *steps), run("change", *arguments, *steps)


def _backward_of_change(run: Callable[..., Any], function: Differentiable, saved: Any, weights: Any) -> Any:
    half = len(saved) // 2
    arguments, directions = saved[:half], saved[half:]
    function.require_curvature()
    return *run("curvature", *arguments, weights, *directions), *run("gradients", *arguments, weights)


_BACKWARD: dict[str, Callable[..., Any]] = {
    "value": _backward_of_value,
    "gradients": _backward_of_gradients,
    "change": _backward_of_change,
    "curvature": refuse_third_derivatives,
}


def _keep(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001 - PyTorch calls by these names
    ctx.number, tensors = inputs
    ctx.save_for_backward(*tensors)


def _register(name: str) -> None:
    """Register an operation with its formulas."""

    def backward(ctx: Any, passed: Any) -> Any:
        def run(other: str, *tensors: Any) -> Any:
            return getattr(_OPERATIONS, other)(ctx.number, tensors)

        weights = passed if name in _SEVERAL else [passed]
        return None, [*_BACKWARD[name](run, _REGISTERED[ctx.number], ctx.saved_tensors, *weights)]

    _LIBRARY.define(f"{name}(int function, Tensor[] arrays) -> Tensor{'[]' if name in _SEVERAL else ''}")
    _LIBRARY.impl(name, partial(_compute, name), "CPU")
    torch.library.register_fake(f"kinetree::{name}", partial(_fake, name))
    torch.library.register_autograd(f"kinetree::{name}", backward, setup_context=_keep)


for _name in _BACKWARD:
    _register(_name)


class _Eager(torch.autograd.Function):  # type: ignore[misc]
    """The value outside transforms and compiled programs, and its gradients unless they are differentiated again."""

    @staticmethod
    def forward(ctx: Any, registered: _Registered, *tensors: Any) -> Any:
        ctx.number = registered.number
        ctx.save_for_backward(*tensors)
        return _compute("value", registered.number, [tensor.detach() for tensor in tensors])

    @staticmethod
    def backward(ctx: Any, weights: Any) -> Any:
        arguments = [*ctx.saved_tensors, weights]
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or _forward_mode():
            return None, *_OPERATIONS.gradients(ctx.number, arguments)
        return None, *_compute("gradients", ctx.number, [tensor.detach() for tensor in arguments])


# Transforms (`torch.func`) and forward mode need formulas that operations cannot have.


class _Kernel(torch.autograd.Function):  # type: ignore[misc]
    """An operation as a function of tensors, whose vmapped axes become leading batch axes."""

    name: str

    @classmethod
    def forward(cls, registered: _Registered, *tensors: Any) -> Any:
        result = getattr(_OPERATIONS, cls.name)(registered.number, tensors)
        return tuple(result) if cls.name in _SEVERAL else result

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _output: Any) -> None:
        ctx.registered, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @classmethod
    def backward(cls, ctx: Any, *passed: Any) -> Any:
        run = partial(_applied, ctx.registered)
        return None, *_BACKWARD[cls.name](run, ctx.registered.function, ctx.saved_tensors, *passed)

    @classmethod
    def vmap(cls, info: Any, axes: Any, registered: _Registered, *tensors: Any) -> Any:
        fronted = [
            tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
            for tensor, axis in zip(tensors, axes[1:], strict=True)
        ]
        results = cls.apply(registered, *fronted)
        return results, tuple(0 for _ in results) if isinstance(results, tuple) else 0


class _Value(_Kernel):
    name = "value"

    @staticmethod
    def jvp(ctx: Any, _: Any, *directions: Any) -> Any:
        return _Change.apply(ctx.registered, *ctx.saved_tensors, *_filled(directions, ctx.saved_tensors))


class _Gradients(_Kernel):
    name = "gradients"

    @staticmethod
    def jvp(ctx: Any, _: Any, *directions: Any) -> Any:
        *arguments, _weights = ctx.saved_tensors
        ctx.registered.function.require_curvature()
        *steps, dweights = _filled(directions, ctx.saved_tensors)
        bent = _Curvature.apply(ctx.registered, *ctx.saved_tensors, *steps)
        added = _Gradients.apply(ctx.registered, *arguments, dweights)
        return tuple(one + other for one, other in zip(bent, added, strict=True))


class _Change(_Kernel):
    name = "change"

    @staticmethod
    def jvp(ctx: Any, _: Any, *directions: Any) -> Any:
        """Component by component, since the curvature is that of a weighted sum: n calls in a batch."""
        half = len(ctx.saved_tensors) // 2
        arguments, along = ctx.saved_tensors[:half], ctx.saved_tensors[half:]
        ctx.registered.function.require_curvature()
        steps = _filled(directions, ctx.saved_tensors)
        v = arguments[1]
        units = torch.eye(v.shape[-1], dtype=v.dtype).reshape(-1, *(1 for _ in v.shape[:-1]), v.shape[-1])
        repeated = [tensor.expand(v.shape[-1], *tensor.shape) for tensor in (*arguments, *steps[:half])]
        weights = units.expand(v.shape[-1], *v.shape)
        bent = _Curvature.apply(ctx.registered, *repeated[:half], weights, *repeated[half:])
        components = sum((part * d).sum(dim=-1) for part, d in zip(bent, along, strict=True))
        return components.movedim(0, -1) + _Change.apply(ctx.registered, *arguments, *steps[half:])


class _Curvature(_Kernel):
    name = "curvature"
    jvp = staticmethod(refuse_third_derivatives)


_KERNELS = {kernel.name: kernel for kernel in (_Value, _Gradients, _Change, _Curvature)}


def _applied(registered: _Registered, name: str, *tensors: Any) -> Any:
    return _KERNELS[name].apply(registered, *tensors)


def _filled(directions: Any, tensors: Any) -> list[Any]:
    """Directions, with zeros for missing ones."""
    return [torch.zeros_like(t) if d is None else d for d, t in zip(directions, tensors, strict=True)]


def _type(function: Differentiable) -> Any:
    """The type that a function computes in."""
    return getattr(torch, function.robot.dtype.name)


def _arrays(function: Differentiable, tensors: list[Any]) -> list[Any]:
    """Tensors as NumPy arrays of the type that a function computes in."""
    dtype = _type(function)
    # by force: also if signs are flipped lazily, or if zeros are not stored
    return [(tensor if tensor.dtype is dtype else tensor.to(dtype)).numpy(force=True) for tensor in tensors]


def _tensor(array: Any, tensors: list[Any]) -> Any:
    """A result as a tensor of the arguments' type."""
    tensor, dtype = torch.from_numpy(array), tensors[0].dtype
    return tensor if tensor.dtype is dtype else tensor.to(dtype)
