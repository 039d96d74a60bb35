"""Kinetree's functions as differentiable functions of PyTorch tensors, on the CPU.

    import kinetree.torch

    forward_dynamics = kinetree.torch.forward_dynamics(robot)
    a = forward_dynamics(q, v, tau)           # tensors with leading batch axes, which broadcast
    a.sum().backward()

The functions are those of `kinetree.jax`. Reverse mode (`backward`, `torch.func.grad`, `jacrev`) and forward mode
(`torch.func.jvp`, `jacfwd`) run the recursions of `vjp` and `jvp`; a `torch.func.vmap` is one batched call. Results
have the type of the tensors; functions compute in the type of the robot, and float32 tensors go to the kernels of
`robot.astype("float32")` as they are.

Derivatives with respect to q are taken with respect to its components: four for a quaternion, whose length has no
effect. Gradient steps leave the unit quaternions; `integrate` and `step` never do. For derivatives along the tangent,
use `robot.forward_dynamics.jvp` and `.vjp`. Second derivatives (double backward, `torch.func.hessian`) exist for all
functions; third derivatives raise `SecondDerivativeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from kinetree.bridges.differentiable import Differentiable, NumPy, refuse, refuse_complex, refuse_third_derivatives
from kinetree.bridges.interface import Bridge
from kinetree.bridges.simulation import SimulatedMotion
from kinetree.errors import InputError
from kinetree.simulation import Simulator

try:
    import torch
except ImportError as error:
    raise ImportError('kinetree.torch needs PyTorch: pip install "kinetree[torch]"') from error


class _Library:
    """PyTorch, whose operations run kernels on the memory of tensors."""

    arrays = NumPy()

    def function(self, function: Differentiable) -> Callable[..., Any]:
        """The function of tensors."""
        registered = _Registered(function)

        def call(*given: Any) -> Any:
            tensors = registered.arguments(given)
            if torch.compiler.is_compiling():
                found = _OPERATIONS.value(registered.number, tensors)
            elif _forward_mode():
                found = _Value.apply(registered, *tensors)
            # the operation itself, without its dispatch overhead
            elif any(tensor.requires_grad for tensor in tensors):
                found = _Eager.apply(registered, *tensors)
            else:
                found = _compute("value", registered.number, tensors)
            return function.shaped(found)

        return call

    def motion(self, sim: Simulator, step: Callable[..., Any]) -> Callable[..., Any]:
        """States and residuals of the steps of a simulator, and their gradients, by its rollouts.

        Where friction is an argument, step by step.
        """
        made: dict[int, Callable[..., Any]] = {}

        def moved(q: Any, v: Any, tau: Any, *friction: Any) -> Any:
            steps = tau.shape[-2]
            if friction:
                path = [step(q, v, tau[..., 0, :], None, *friction)] if steps else []
                for i in range(1, steps):
                    path.append(step(*path[-1][:2], tau[..., i, :], None, *friction))
                first = [x.expand_as(y) for x, y in zip((q, v, torch.zeros(())), path[0], strict=True)]
                return tuple(torch.stack(x, dim=d) for x, d in zip(zip(first, *path), (-2, -2, -1), strict=True))
            if steps not in made:
                made[steps] = self.function(SimulatedMotion(sim, steps))
            return made[steps](q, v, tau.reshape(*tau.shape[:-2], -1))

        return moved

    def array(self, name: str, given: Any) -> Any:
        """A dense tensor of real numbers on the CPU."""
        if not isinstance(given, torch.Tensor):
            raise refuse(name, given, "pass a tensor: torch.as_tensor(…)")
        if given.is_complex():
            raise refuse_complex(name)
        if given.device.type != "cpu" or given.layout != torch.strided:
            raise InputError(f"{name} is {given.layout} on {given.device}; pass a dense tensor on the CPU")
        return given


class _Registered:
    """A function and the number that identifies it to PyTorch's operations in this process."""

    def __init__(self, function: Differentiable) -> None:
        self.function = function
        self._sizes, self._dtype = function.sizes, _type(function)
        self._fixed = [torch.tensor(array) for array in function.fixed]
        self.number = len(_REGISTERED)
        _REGISTERED.append(function)

    def arguments(self, given: Sequence[Any]) -> list[Any]:
        """Dense tensors of one type with the same batch axes. PyTorch itself differentiates the broadcasting."""
        if not self._fixed and _are_plain(given, self._sizes, self._dtype):
            return list(given)
        tensors, batch = self.function.arguments(given, _library.array)
        dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()  # as torch.sin does for integers
        found = [tensor.to(dtype).expand(*batch, tensor.shape[-1]) for tensor in tensors]
        return found + [tensor.expand(*batch, tensor.shape[-1]) for tensor in self._fixed]


def _are_plain(given: Sequence[Any], sizes: tuple[int, ...], dtype: Any) -> bool:
    """Whether arguments need no checks or conversion: tensors of the robot's type with the same batch axes."""
    if len(given) != len(sizes) or not all(type(tensor) is torch.Tensor for tensor in given):
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


# Operations registered with PyTorch, opaque to `torch.compile`. They take the number of a function, and its arrays, of
# which those that are fixed come last:
#
#     value(arguments)                              the function itself
#     gradients(arguments, weights)                 of the weighted value, with respect to each argument
#     change(arguments, directions)                 of the value along a direction
#     bend(arguments, directions, steps)            change of the change along steps
#     curvature(arguments, weights, directions)     change of the gradients along a direction

_LIBRARY = torch.library.Library("kinetree", "DEF")
_OPERATIONS = torch.ops.kinetree
_ONE, _SEVERAL = ("value", "change", "bend"), ("gradients", "curvature")


def _compute(name: str, number: int, tensors: list[Any]) -> Any:
    """The result of an operation, without PyTorch's dispatch."""
    function = _REGISTERED[number]
    result = getattr(function, name)(*_arrays(function, tensors))
    return _tensor(result, tensors) if name in _ONE else [_tensor(part, tensors) for part in result]


def _fake(name: str, number: int, tensors: list[Any]) -> Any:
    """Empty tensors of the shapes of an operation's results."""
    function, first = _REGISTERED[number], tensors[0]
    if name in _ONE:
        return first.new_empty((*first.shape[:-1], function.size))
    return [first.new_empty((*first.shape[:-1], size)) for size in function.sizes]


# Backward formulas, from a function `run` that computes any of the operations, the function, what was saved, in groups
# with what is fixed last, and what is passed back. They give the gradients of each array.


def _backward_of_value(run: Callable[..., Any], _: Differentiable, saved: Any, weights: Any) -> Any:
    given, fixed = saved
    return run("gradients", *given, weights, *fixed)


def _backward_of_gradients(run: Callable[..., Any], function: Differentiable, saved: Any, *directions: Any) -> Any:
    """Gradients are linear in the weights; their derivative with respect to the arguments is the curvature."""
    given, weights, fixed = saved
    function.require_curvature()
    steps = _filled(directions, given)
    return *run("curvature", *given, *weights, *steps, *fixed), run("change", *given, *steps, *fixed)


def _backward_of_change(run: Callable[..., Any], function: Differentiable, saved: Any, weights: Any) -> Any:
    given, directions, fixed = saved
    function.require_curvature()
    bent = run("curvature", *given, weights, *directions, *fixed)
    return *bent, *run("gradients", *given, weights, *fixed)


_BACKWARD: dict[str, Callable[..., Any]] = {
    "value": _backward_of_value,
    "gradients": _backward_of_gradients,
    "change": _backward_of_change,
    "bend": refuse_third_derivatives,
    "curvature": refuse_third_derivatives,
}


def _passed_back(name: str, run: Callable[..., Any], function: Differentiable, saved: Any, passed: Any) -> list[Any]:
    """Gradients of all arrays of an operation; none of what is fixed."""
    found = _BACKWARD[name](run, function, function.groups(name, saved), *passed)
    return [*found, *(None for _ in function.fixed)]


def _keep(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001 - PyTorch calls by these names
    ctx.number, tensors = inputs
    ctx.save_for_backward(*tensors)


def _register(name: str) -> None:
    """Register an operation with its formulas."""

    def backward(ctx: Any, passed: Any) -> Any:
        def run(other: str, *tensors: Any) -> Any:
            return getattr(_OPERATIONS, other)(ctx.number, tensors)

        weights = passed if name in _SEVERAL else [passed]
        return None, _passed_back(name, run, _REGISTERED[ctx.number], ctx.saved_tensors, weights)

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
        function = _REGISTERED[ctx.number]
        given, fixed = function.groups("value", ctx.saved_tensors)
        arguments, none = [*given, weights, *fixed], [None for _ in fixed]
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or _forward_mode():
            return None, *_OPERATIONS.gradients(ctx.number, arguments), *none
        return None, *_compute("gradients", ctx.number, [tensor.detach() for tensor in arguments]), *none


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
        return None, *_passed_back(cls.name, run, ctx.registered.function, ctx.saved_tensors, passed)

    @classmethod
    def saved(cls, ctx: Any, directions: Any) -> tuple[list[list[Any]], list[list[Any]], list[Any]]:
        """Groups of arrays, of directions for each, and what is fixed."""
        *groups, fixed = ctx.registered.function.groups(cls.name, ctx.saved_tensors)
        *along, _ = ctx.registered.function.groups(cls.name, _filled(directions, ctx.saved_tensors))
        return groups, along, fixed

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

    @classmethod
    def jvp(cls, ctx: Any, _: Any, *directions: Any) -> Any:
        (given,), (along,), fixed = cls.saved(ctx, directions)
        return _Change.apply(ctx.registered, *given, *along, *fixed)


class _Gradients(_Kernel):
    name = "gradients"

    @classmethod
    def jvp(cls, ctx: Any, _: Any, *directions: Any) -> Any:
        (given, weights), (steps, change), fixed = cls.saved(ctx, directions)
        ctx.registered.function.require_curvature()
        bent = _Curvature.apply(ctx.registered, *given, *weights, *steps, *fixed)
        added = _Gradients.apply(ctx.registered, *given, *change, *fixed)
        return tuple(one + other for one, other in zip(bent, added, strict=True))


class _Change(_Kernel):
    name = "change"

    @classmethod
    def jvp(cls, ctx: Any, _: Any, *directions: Any) -> Any:
        (given, along), (steps, turned), fixed = cls.saved(ctx, directions)
        ctx.registered.function.require_curvature()
        bent = _Bend.apply(ctx.registered, *given, *along, *steps, *fixed)
        return bent + _Change.apply(ctx.registered, *given, *turned, *fixed)


class _Bend(_Kernel):
    name = "bend"
    jvp = staticmethod(refuse_third_derivatives)


class _Curvature(_Kernel):
    name = "curvature"
    jvp = staticmethod(refuse_third_derivatives)


_KERNELS = {kernel.name: kernel for kernel in (_Value, _Gradients, _Change, _Bend, _Curvature)}


def _applied(registered: _Registered, name: str, *tensors: Any) -> Any:
    return _KERNELS[name].apply(registered, *tensors)


def _filled(directions: Any, tensors: Any) -> list[Any]:
    """Directions, with zeros for missing ones."""
    return [torch.zeros_like(t) if d is None else d for d, t in zip(directions, tensors, strict=True)]


def _type(function: Differentiable) -> Any:
    """The type that a function computes in."""
    return getattr(torch, function.dtype.name)


def _arrays(function: Differentiable, tensors: list[Any]) -> list[Any]:
    """Tensors as NumPy arrays of the type that a function computes in."""
    dtype = _type(function)
    # by force: also if signs are flipped lazily, or if zeros are not stored
    return [(tensor if tensor.dtype is dtype else tensor.to(dtype)).numpy(force=True) for tensor in tensors]


def _tensor(array: Any, tensors: list[Any]) -> Any:
    """A result as a tensor of the arguments' type."""
    tensor, dtype = torch.from_numpy(array), tensors[0].dtype
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


_library = _Library()
_bridge = Bridge(_library)

inverse_dynamics = _bridge.inverse_dynamics
forward_dynamics = _bridge.forward_dynamics
mass_matrix = _bridge.mass_matrix
mass_matrix_solve = _bridge.mass_matrix_solve
mass_matrix_log_determinant = _bridge.mass_matrix_log_determinant
bias_forces = _bridge.bias_forces
gravity_forces = _bridge.gravity_forces
energy = _bridge.energy
pose = _bridge.pose
velocity = _bridge.velocity
acceleration = _bridge.acceleration
jacobian = _bridge.jacobian
center_of_mass = _bridge.center_of_mass
centroidal_momentum_matrix = _bridge.centroidal_momentum_matrix
tasks = _bridge.tasks
inverse_inertia = _bridge.inverse_inertia
integrate = _bridge.integrate
difference = _bridge.difference
step = _bridge.step
simulate = _bridge.simulate

__all__ = [
    "acceleration",
    "bias_forces",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "difference",
    "energy",
    "forward_dynamics",
    "gravity_forces",
    "integrate",
    "inverse_dynamics",
    "inverse_inertia",
    "jacobian",
    "mass_matrix",
    "mass_matrix_log_determinant",
    "mass_matrix_solve",
    "pose",
    "simulate",
    "step",
    "tasks",
    "velocity",
]
