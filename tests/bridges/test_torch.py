"""Dynamics as functions of PyTorch tensors: values, gradients in both modes, broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

import ramify as rf
from tests.trees import mixed, random_mechanism

torch = pytest.importorskip("torch")

import ramify.torch  # noqa: E402 (needs PyTorch)


@pytest.fixture(scope="module")
def robot() -> rf.Model:
    return random_mechanism("small", ["floating", "spherical", "planar", "revolute"], 3).ramify()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, when forward mode is first used
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_gradients(robot: rf.Model, name: str) -> None:
    rng = np.random.default_rng(0)
    q = torch.tensor(robot.random_configuration(rng, (2,)), requires_grad=True)
    v, x = (torch.tensor(rng.uniform(-1.0, 1.0, robot.nv), requires_grad=True) for _ in range(2))
    function = getattr(ramify.torch, name)(robot)
    result = function(q, v, x)
    np.testing.assert_array_equal(
        result.detach().numpy(), getattr(robot, name)(q.detach().numpy(), v.detach().numpy(), x.detach().numpy())
    )
    assert torch.autograd.gradcheck(function, (q, v, x), atol=1e-5, rtol=1e-5, check_forward_ad=True)


def test_single_precision_and_missing_gradients(robot: rf.Model) -> None:
    q = torch.tensor(robot.neutral(), dtype=torch.float32)
    tau = torch.zeros(robot.nv, dtype=torch.float32, requires_grad=True)
    ramify.torch.forward_dynamics(robot)(q, torch.zeros(robot.nv), tau).sum().backward()
    assert tau.grad is not None
    assert tau.grad.dtype == torch.float32


def test_every_kind_of_joint() -> None:
    robot = random_mechanism("every kind", mixed(10, 2), 2).ramify()
    rng = np.random.default_rng(1)
    q = torch.tensor(robot.random_configuration(rng), requires_grad=True)
    v, a, w = (torch.tensor(rng.uniform(-1.0, 1.0, robot.nv)) for _ in range(3))
    (ramify.torch.inverse_dynamics(robot)(q, v, a) * w).sum().backward()
    expected = robot.inverse_dynamics.vjp(q.detach().numpy(), v.numpy(), a.numpy(), w.numpy())[0]
    np.testing.assert_allclose(q.grad.numpy(), robot.tangent_map(q.detach().numpy()).T @ expected)
