"""Parameters of robots as arguments in JAX and PyTorch: the bits of `robot.parameters`, both modes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.bridges.interface import Bridge
from kinetree.errors import InputError, SecondDerivativeError, UnsupportedError
from tests.bridges.cases import robot
from tests.oracle import oracle
from tests.tolerance import Array, assert_near

jax, torch = oracle("jax"), oracle("torch")
jax.config.update("jax_enable_x64", True)
IN_JAX, IN_TORCH = import_module("kinetree.jax"), import_module("kinetree.torch")

# PyTorch's own, when forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

#: Names, arguments after the parameters, and whether there are frames.
FUNCTIONS = {
    "inverse_dynamics": ("qvx", False), "forward_dynamics": ("qvx", False), "bias_forces": ("qv", False),
    "energy": ("qv", False), "mass_matrix": ("q", False), "mass_matrix_solve": ("qx", False), "pose": ("q", True),
    "velocity": ("qv", True), "jacobian": ("q", True), "center_of_mass": ("q", False),
}  # fmt: skip


def test_both_libraries_have_the_same_functions() -> None:
    offered = {name for name in vars(Bridge) if not name.startswith("_")}
    assert set(IN_JAX.__all__) == set(IN_TORCH.__all__) == offered
    for name in offered:
        assert getattr(IN_JAX, name).__doc__ == getattr(Bridge, name).__doc__


def case(name: str) -> tuple[Any, tuple[str, ...], list[Array]]:
    """Parameters of a floating robot with quaternions, frames, and arguments in batches that broadcast."""
    model = robot()
    one, two, three = (body.name for body in model.bodies[1:4])
    parameters = model.parameters(mass=one, com=two, position=[one, three], rotation=two, armature=three, gravity=True)
    inputs, framed = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    drawn = {"q": model.random_configuration(rng, (2,)), "v": rng.uniform(-1.0, 1.0, model.nv)}
    drawn["x"] = rng.uniform(-1.0, 1.0, (2, model.nv))
    p = parameters.values * rng.uniform(0.9, 1.1, (3, 1, len(parameters))) + 0.01
    return parameters, ("tip0",) * framed, [p, *(drawn[i] for i in inputs)]


def flat(found: Any, stack: Any) -> Any:
    return stack(found) if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_parameters(name: str) -> None:
    from jax.test_util import check_grads

    parameters, frames, given = case(name)
    expected = parameters.function(name)(*given, *frames)
    function = getattr(IN_JAX, name)(parameters, *frames)
    np.testing.assert_array_equal(flat(jax.jit(function)(*given), np.stack), flat(expected, np.stack))
    check_grads(lambda *x: flat(function(*x), jax.numpy.stack), given, 1, ["fwd", "rev"], atol=1e-5, rtol=1e-5)
    of_tensors = getattr(IN_TORCH, name)(parameters, *frames)
    tensors = [torch.tensor(x, requires_grad=True) for x in given]
    np.testing.assert_array_equal(flat(of_tensors(*tensors), torch.stack).detach().numpy(), flat(expected, np.stack))
    assert torch.autograd.gradcheck(of_tensors, tensors, fast_mode=True, check_forward_ad=True, atol=1e-5, rtol=1e-5)


def test_a_robot_for_each_sample() -> None:
    """A vmap over parameters: what each robot computes by itself."""
    parameters, _, (p, q, v, x) = case("forward_dynamics")
    mapped = jax.jit(jax.vmap(IN_JAX.forward_dynamics(parameters), (0, None, None, None)))(p[:, 0], q[0], v, x[0])
    for one, found in zip(p[:, 0], mapped, strict=True):
        assert_near(np.asarray(found), parameters.model(one).forward_dynamics(q[0], v, x[0]), 1e-10)


def test_gradients_through_a_rollout() -> None:
    """With respect to masses and lengths, against differences of rollouts of other robots."""
    arm = kt.zoo.double_pendulum()
    link = arm.bodies[-1].name
    parameters = arm.parameters(mass=True, position=link)
    start, still, taus = np.array([0.3, 0.4]), np.zeros(2), np.random.default_rng(1).uniform(-1.0, 1.0, (20, 2))
    step, moved = IN_JAX.step(parameters), IN_TORCH.step(parameters)

    def end(p: Any) -> Any:
        return jax.lax.scan(lambda state, tau: (step(p, *state, tau, 1e-2), None), (start, still), taus)[0][0].sum()

    def by_model(p: Any) -> float:
        q, v, model = start, still, parameters.model(p)
        for tau in taus:
            q, v = model.step(q, v, tau, 1e-2)
        return float(q.sum())

    p, h = np.array(parameters.values), 1e-6
    differences = [(by_model(p + h * e) - by_model(p - h * e)) / (2 * h) for e in np.eye(len(p))]
    assert_near(np.asarray(jax.jit(jax.grad(end))(p)), np.array(differences), 1e-8)
    given = torch.tensor(p, requires_grad=True)
    q, v = torch.tensor(start), torch.tensor(still)
    for tau in taus:
        q, v = moved(given, q, v, torch.tensor(tau), 1e-2)
    q.sum().backward()
    assert_near(given.grad.numpy(), np.array(differences), 1e-8)


def test_what_functions_of_parameters_lack() -> None:
    parameters, _, (p, q, v, x) = case("forward_dynamics")
    function = IN_JAX.forward_dynamics(parameters)
    with pytest.raises(UnsupportedError, match="tasks of parameters: use jacobian and mass_matrix_solve"):
        IN_JAX.inverse_inertia(parameters, "tip0")
    with pytest.raises(InputError, match=r"forward_dynamics takes \(p, q, v, tau\)"):
        function(q, v, x)
    with pytest.raises(InputError, match=r"forward_dynamics: p has shape"):
        function(p[..., :3], q, v, x)
    with pytest.raises(SecondDerivativeError, match="cannot be differentiated again"):
        jax.hessian(lambda v: function(p[0, 0], q[0], v, x[0]).sum())(v)
