"""Dynamics as functions of PyTorch tensors: values, gradients in both modes, broadcasting, torch.func."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from kinetree import zoo
from kinetree.errors import SecondDerivativeError, SingularMechanismError, UnknownNameError
from tests.bridges.cases import FUNCTIONS, FUNCTIONS_OF_STATES, of_state, population, pulley, robot, sample, singular
from tests.oracle import oracle
from tests.tolerance import refused

torch = oracle("torch")

module = import_module("kinetree.torch")

# PyTorch's own, when forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def bridge(name: str, model: Any) -> Any:
    return getattr(module, name)(model)


def tensors(model: Any, grad: bool = False) -> tuple[Any, ...]:
    """The sample as tensors; the wrenches come last, by frame."""
    s = sample(model)
    q, v, x = (torch.tensor(array, requires_grad=grad) for array in (s.q, s.v, s.x))
    return q, v, x, {frame: torch.tensor(wrench, requires_grad=grad) for frame, wrench in s.f_ext.items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    s, model = sample(robot()), robot()
    q, v, x, f_ext = tensors(model)
    expected = getattr(model, name)(s.q, s.v, s.x, f_ext=s.f_ext)
    np.testing.assert_array_equal(bridge(name, model)(q, v, x, f_ext).numpy(), expected)
    np.testing.assert_array_equal(bridge(name, model)(q, v, x).numpy(), getattr(model, name)(s.q, s.v, s.x))


@pytest.mark.parametrize("kind", ["floating", "every kind"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_modes_against_differences(name: str, kind: str) -> None:
    """With respect to all arguments, wrenches too, which broadcast against each other."""
    q, v, x, f_ext = tensors(robot(kind), grad=True)
    function, frames = bridge(name, robot(kind)), tuple(f_ext)

    def call(q: Any, v: Any, x: Any, *wrenches: Any) -> Any:
        return function(q, v, x, dict(zip(frames, wrenches, strict=True)))

    arrays = (q, v, x, *f_ext.values())
    assert torch.autograd.gradcheck(call, arrays, atol=1e-5, rtol=1e-5, check_forward_ad=True, fast_mode=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians(name: str) -> None:
    """jacfwd and jacrev, alone and vmapped, are the matrices of `linearize`."""
    model, s = robot(), sample(robot())
    q, v, x, _ = tensors(model)
    x = x[0, 0]
    lin = model.linearize(s.q, s.v, **{"a" if name == "inverse_dynamics" else "tau": x.numpy()})
    expected = (lin[0] @ model.tangent_map(s.q), lin[1], lin[2])
    function = bridge(name, model)
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        alone = jacobian(function, argnums=(0, 1, 2))(q[1], v, x)
        batched = torch.func.vmap(jacobian(function, argnums=(0, 1, 2)), (0, None, None))(q, v, x)
        for one, several, exact in zip(alone, batched, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), exact[1], rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(several.numpy(), exact, rtol=1e-11, atol=1e-11)


def test_gradients_are_those_of_the_model() -> None:
    """`tangent_map` leads from tangents to numbers."""
    model, s = robot("every kind"), sample(robot("every kind"))
    q, v, x, _ = tensors(model, grad=True)
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 2, model.nv))
    (bridge("inverse_dynamics", model)(q, v, x) * torch.tensor(weights)).sum().backward()
    by_q, by_v, _ = model.inverse_dynamics.vjp(s.q, s.v, s.x, weights)
    expected = np.einsum("bij,abi->bj", model.tangent_map(s.q), by_q)
    np.testing.assert_allclose(q.grad.numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(v.grad.numpy(), by_v.sum(axis=(0, 1)), rtol=1e-12, atol=1e-12)


def test_single_precision_and_missing_gradients() -> None:
    model = robot()
    q = torch.tensor(model.neutral(), dtype=torch.float32)
    tau = torch.zeros(model.nv, dtype=torch.float32, requires_grad=True)
    a = bridge("forward_dynamics", model)(q, torch.zeros(model.nv), tau)
    assert a.dtype == torch.float32
    a.sum().backward()
    assert q.grad is None
    assert tau.grad.dtype == torch.float32
    expected = model.mass_matrix_inverse(model.neutral()).sum(axis=-1)
    np.testing.assert_allclose(tau.grad.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_robots_in_float32() -> None:
    """float32 tensors go to float32 kernels, whose bits are those of the robot's functions."""
    model, s = robot().astype("float32"), sample(robot())
    arrays = [np.asarray(array, dtype=np.float32) for array in (s.q, s.v, s.x[0, 0])]
    q, v, tau = map(torch.tensor, arrays)
    function = bridge("forward_dynamics", model)
    np.testing.assert_array_equal(function(q, v, tau).numpy(), model.forward_dynamics(*arrays))
    np.testing.assert_array_equal(
        torch.compile(function, backend="eager")(q, v, tau).numpy(), function(q, v, tau).numpy()
    )
    wide = function(q.double(), v.double(), tau.double())
    assert wide.dtype == torch.float64
    np.testing.assert_array_equal(wide.numpy(), model.forward_dynamics(*arrays))
    tau.requires_grad_(True)
    function(q, v, tau).sum().backward()
    expected = model.forward_dynamics.vjp(*arrays, np.ones(model.nv))[2].sum(axis=0)
    assert tau.grad.dtype == torch.float32
    np.testing.assert_allclose(tau.grad.numpy(), expected, rtol=1e-5, atol=1e-5)
    matrix = torch.func.jacrev(function, argnums=2)(q[0], v, tau.detach())
    np.testing.assert_allclose(matrix.numpy(), model.mass_matrix_inverse(arrays[0][0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32", "bfloat16"])
def test_types_are_promoted(dtype: str) -> None:
    """Whole numbers beside floats are floats, and alone PyTorch's default."""
    model = zoo.double_pendulum()
    function = bridge("forward_dynamics", model)
    q = torch.ones(2, dtype=getattr(torch, dtype))
    v, tau = (torch.tensor([x, 0.7], dtype=torch.float64) for x in (0.3, 0.5))
    expected = model.forward_dynamics(np.ones(2), v.numpy(), tau.numpy())
    for call in (function, torch.func.vmap(function)):
        batch = (lambda x: x[None]) if call is not function else (lambda x: x)
        result = call(batch(q), batch(v), batch(tau))
        assert result.dtype == torch.float64
        np.testing.assert_array_equal(result.reshape(2).numpy(), expected)
    alone = function(q, q, q)
    assert alone.dtype == (q.dtype if q.dtype.is_floating_point else torch.get_default_dtype())
    expected = model.forward_dynamics(np.ones(2), np.ones(2), np.ones(2))
    np.testing.assert_allclose(alone.to(torch.float64).numpy(), expected, rtol=1e-2 if dtype == "bfloat16" else 1e-6)


def test_arguments_have_the_names_of_the_model_s() -> None:
    model = robot()
    q, v, x, f_ext = tensors(model)
    inverse, forward = bridge("inverse_dynamics", model), bridge("forward_dynamics", model)
    assert torch.equal(inverse(q=q, v=v, a=x, f_ext=f_ext), inverse(q, v, x, f_ext))
    assert torch.equal(forward(q, v, tau=x), forward(q, v, x))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.numpy(), r"forward_dynamics: tau is a numpy.ndarray; pass a tensor"),
        (lambda x: x.tolist(), r"tau is a builtins.list; pass a tensor"),
        (lambda x: x * 1j, "tau is complex; pass real numbers"),
        (lambda x: x.to_sparse(), "tau is torch.sparse_coo on cpu; pass a dense tensor"),
        (lambda x: x.to("meta"), "on meta; pass a dense tensor on the CPU"),
        (lambda x: torch.zeros(4, x.shape[-1]), r"batch shapes do not broadcast: q \(2, .*tau \(4, "),
        (lambda x: x.sum(), r"tau has shape \(\), expected"),
    ],
)
def test_what_is_no_tensor_of_real_numbers(spoil: Any, message: str) -> None:
    model = robot()
    q, v, x, _ = tensors(model)
    refused(message, bridge("forward_dynamics", model), q, v, spoil(x))


def test_robots_that_have_no_such_function() -> None:
    refused("takes a kinetree.Model, got str", bridge, "inverse_dynamics", "robot")
    with pytest.raises(SingularMechanismError):
        bridge("forward_dynamics", singular())
    model = robot()
    q, v, x, _ = tensors(model)
    refused("f_ext is a list; pass a dictionary", bridge("forward_dynamics", model), q, v, x, [1])


def test_what_cannot_be_done() -> None:
    model = robot()
    q, v, x, _ = tensors(model, grad=True)
    function = bridge("forward_dynamics", model)
    refused(r"forward_dynamics: tau has shape \(3, 1, 4\), expected \(..., 13\)", function, q, v, x[..., :4])
    refused("'nope'", function, q, v, x, {"nope": torch.zeros(6)}, error=UnknownNameError)
    (gradient,) = torch.autograd.grad(function(q, v, x).sum(), q, create_graph=True)
    (twice,) = torch.autograd.grad((gradient**2).sum(), q, create_graph=True)
    refused("second derivatives cannot", twice.sum().backward, error=SecondDerivativeError)


def test_second_derivatives_with_coupled_joints() -> None:
    model = pulley()
    q, v, x = (torch.ones(1, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradgradcheck(bridge("forward_dynamics", model), (q, v, x))
    bent = torch.func.jacfwd(torch.func.jacfwd(bridge("forward_dynamics", model)))(q, v, x)
    one, still = np.ones(1), np.zeros(1)
    expected = model.forward_dynamics.hvp(one, one, one, one, one, still, still).dq
    np.testing.assert_allclose(bent.detach().numpy().reshape(-1), expected, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_double_backward(name: str) -> None:
    """Where numbers of q are tangents, against `hvp` and against differences."""
    model = zoo.chain(3, seed=0)
    rng = np.random.default_rng(5)
    arrays = rng.uniform(-1.0, 1.0, (4, 2, model.nv))
    q, v, x, w = (torch.tensor(array, requires_grad=True) for array in arrays)
    function = bridge(name, model)
    assert torch.autograd.gradgradcheck(lambda *inputs: function(*inputs), (q, v, x), (w,))
    gradients = torch.autograd.grad((function(q, v, x) * w).sum(), (q, v, x), create_graph=True)
    directions = rng.uniform(-1.0, 1.0, (3, 2, model.nv))
    along = sum((g * torch.from_numpy(d)).sum() for g, d in zip(gradients, directions, strict=True))
    twice = torch.autograd.grad(along, (q, v, x))
    for actual, expected in zip(twice, getattr(model, name).hvp(*arrays, *directions), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_with_quaternions_and_wrenches(name: str) -> None:
    """Double backward against differences, and all combinations of `torch.func` against it."""
    model = robot()
    q, v, x, f_ext = tensors(model)
    point = torch.cat([q[0], v, x[0, 0], f_ext["tip0"]])
    sizes = [model.nq, model.nv, model.nv, 6]
    function, w = bridge(name, model), torch.linspace(-1.0, 1.0, model.nv, dtype=torch.float64)

    def total(point: Any) -> Any:
        q, v, x, wrench = torch.split(point, sizes)
        return function(q, v, x, {"tip0": wrench}) @ w

    assert torch.autograd.gradgradcheck(total, (point.requires_grad_(),))
    expected = torch.autograd.functional.hessian(total, point)
    jacfwd, jacrev, point = torch.func.jacfwd, torch.func.jacrev, point.detach()
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            torch.testing.assert_close(outer(inner(total))(point), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", FUNCTIONS_OF_STATES)
def test_functions_of_states(name: str) -> None:
    """Values have the bits of the model; both modes, and second derivatives, agree with differences."""
    function, own, given = of_state(name, module, robot())
    found, expected = function(*map(torch.tensor, given)), own(*given)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)
    arrays = [torch.tensor(x[0], requires_grad=True) for x in given]
    assert torch.autograd.gradcheck(function, arrays, atol=1e-6, rtol=1e-6, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, arrays, atol=1e-5, rtol=1e-5, fast_mode=True)


def test_functions_of_states_under_transforms() -> None:
    """All combinations of modes, vmapped, and `torch.compile` in one graph."""
    function, _, given = of_state("velocity", module, robot())
    q, v = map(torch.tensor, given)
    jacfwd, jacrev = torch.func.jacfwd, torch.func.jacrev
    expected = jacrev(jacrev(function, argnums=0), argnums=(0, 1))(q[0], v[0])
    for outer, inner in ((jacfwd, jacfwd), (jacfwd, jacrev), (jacrev, jacfwd)):
        found = torch.func.vmap(outer(inner(function, argnums=0), argnums=(0, 1)))(q, v)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one[0], other, rtol=1e-11, atol=1e-11)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, v), function(q, v))


def test_integrate_and_difference() -> None:
    """On quaternions; `difference` takes back what `integrate` does."""
    model = robot()
    rng = np.random.default_rng(2)
    q, v = model.random_configuration(rng, (2,)), rng.uniform(-1.0, 1.0, (3, 1, model.nv))
    integrate, difference = module.integrate(model), module.difference(model)
    at, rate = torch.tensor(q, requires_grad=True), torch.tensor(v, requires_grad=True)
    np.testing.assert_array_equal(integrate(at, rate, 0.1).detach().numpy(), model.integrate(q, v * 0.1))
    times = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    for function, arrays in ((integrate, (at, rate, times)), (difference, (at, at.detach().flip(0).requires_grad_()))):
        assert torch.autograd.gradcheck(function, arrays, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, arrays, fast_mode=True)
    back = torch.func.jacrev(lambda v: difference(at[0].detach(), integrate(at[0].detach(), v)))(0.3 * rate[0, 0])
    torch.testing.assert_close(back, torch.eye(model.nv, dtype=torch.float64))


def test_a_step_is_the_model_s() -> None:
    model = robot()
    rng = np.random.default_rng(3)
    arrays = model.random_configuration(rng), *rng.uniform(-1.0, 1.0, (2, model.nv))
    tensors_ = [torch.tensor(x, requires_grad=True) for x in arrays]
    step = module.step(model)
    for actual, expected in zip(step(*tensors_, 1e-3), model.step(*arrays, 1e-3), strict=True):
        np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-14, atol=1e-14)
    assert torch.autograd.gradcheck(lambda *x: step(*x, 1e-2), tensors_, fast_mode=True)
    single = [x.detach().float() for x in tensors_]
    assert [x.dtype for x in step(*single, 1e-3)] == [torch.float32] * 2


def test_operations_are_what_pytorch_expects() -> None:
    """Schemas, fake tensors, autograd registration and tracing, by PyTorch's own check."""
    model = zoo.chain(3, seed=0)
    function = bridge("forward_dynamics", model)
    rng = np.random.default_rng(6)
    q, v, x, w = (torch.tensor(array, requires_grad=True) for array in rng.uniform(-1.0, 1.0, (4, 2, model.nv)))
    function(q, v, x)
    number = len(module._REGISTERED) - 1
    operations = torch.ops.kinetree
    torch.library.opcheck(operations.value.default, (number, [q, v, x]))
    torch.library.opcheck(operations.gradients.default, (number, [q, v, x, w]))
    fixed = [tensor.detach() for tensor in (q, v, x, v, q, x, w)]
    torch.library.opcheck(operations.change.default, (number, fixed[:6]))
    torch.library.opcheck(operations.curvature.default, (number, fixed))


def test_torch_compile_sees_one_graph() -> None:
    model = zoo.chain(3, seed=0)
    function = bridge("forward_dynamics", model)
    rng = np.random.default_rng(7)
    q, v, tau = (torch.tensor(array, requires_grad=True) for array in rng.uniform(-1.0, 1.0, (3, model.nv)))

    def energy_after(q: Any, v: Any, tau: Any) -> Any:
        for _ in range(3):
            v = v + 1e-3 * function(q, v, tau)
            q = q + 1e-3 * v
        return (v * v).sum()

    explained = torch._dynamo.explain(energy_after)(q, v, tau)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    compiled = torch.compile(energy_after, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(energy_after(q, v, tau), (q, v, tau))
    for actual, exact in zip(torch.autograd.grad(compiled(q, v, tau), (q, v, tau)), expected, strict=True):
        torch.testing.assert_close(actual, exact, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_that_are_not_what_is_stored(name: str) -> None:
    """Signs that are flipped lazily, and zeros that are not stored: as arguments, weights and directions."""
    model = zoo.arm7()
    function = bridge(name, model)
    flipped = torch.imag(torch.conj(torch.complex(*torch.linspace(0.1, 1.4, 14, dtype=torch.float64).reshape(2, 7))))
    assert flipped.is_neg()
    plain = torch.tensor(flipped.tolist(), dtype=torch.float64)
    zeros = torch._efficientzerotensor(7, dtype=torch.float64)
    assert zeros._is_zerotensor()
    expected = getattr(model, name)(plain.numpy(), plain.numpy(), np.zeros(7))
    np.testing.assert_array_equal(function(flipped, flipped, zeros).numpy(), expected)

    def gradient(point: Any, weights: Any) -> Any:
        q = point.clone().requires_grad_()
        function(q, q, q).backward(weights)
        return q.grad.numpy()

    np.testing.assert_array_equal(gradient(plain, flipped), gradient(plain, plain))

    def change(point: Any, direction: Any) -> Any:
        return torch.func.jvp(lambda q: function(q, point, point), (point,), (direction,))[1].numpy()

    np.testing.assert_array_equal(change(flipped, flipped), change(plain, plain))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dynamics_of_populations(name: str) -> None:
    """Values have the bits of the population; both modes, and double backward, are those of each robot alone."""
    several, alone = population(robot())
    q, v, x, f_ext = tensors(robot())
    given = [q[0].requires_grad_(), v.requires_grad_(), x[0, 0].detach().requires_grad_(), f_ext["tip0"]]
    function = bridge(name, several)
    plain = [tensor.detach().numpy() for tensor in given[:3]]
    np.testing.assert_array_equal(function(*given[:3]).detach().numpy(), getattr(several, name)(*plain))

    def total(robot: Any, weights: Any) -> Any:
        call = bridge(name, robot)
        return lambda q, v, x, f: (call(q, v, x, {"tip0": f}) * weights).sum()

    w = torch.linspace(-1.0, 1.0, 3 * robot().nv, dtype=torch.float64).reshape(3, -1)
    assert torch.autograd.gradgradcheck(total(several, w), [*given[:3], given[3].requires_grad_()], fast_mode=True)
    for derivative in (torch.func.grad, torch.func.jacfwd):
        found = derivative(total(several, w), argnums=(0, 1, 2, 3))(*given)
        parts = [derivative(total(one, w[i]), argnums=(0, 1, 2, 3))(*given) for i, one in enumerate(alone)]
        for actual, *each in zip(found, *parts, strict=True):
            torch.testing.assert_close(actual, sum(each), rtol=1e-10, atol=1e-10)


def test_functions_of_populations() -> None:
    """In single precision, too."""
    several, alone = population(robot())
    q = torch.tensor(robot().random_configuration(0), requires_grad=True)
    found = module.mass_matrix(several)(q)
    expected = torch.stack([module.mass_matrix(one)(q) for one in alone])
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found.detach().numpy(), several.mass_matrix(q.detach().numpy()))
    slope, exact = (torch.autograd.grad((x**2).sum(), q)[0] for x in (found, expected))
    torch.testing.assert_close(slope, exact, rtol=1e-12, atol=1e-12)
    single = module.mass_matrix(several)(q.detach().float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), found, rtol=1e-5, atol=1e-5)
