"""Steps and motions of simulators in JAX and PyTorch: the bits of `Simulator`, gradients of `step.vjp`, differences."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import InputError, SecondDerivativeError, UnsupportedError
from tests.laws.test_step_gradients import Case
from tests.mechanisms import hopper
from tests.oracle import oracle
from tests.tolerance import Array, assert_near

jax, torch = oracle("jax"), oracle("torch")
jax.config.update("jax_enable_x64", True)
IN_JAX, IN_TORCH = import_module("kinetree.jax"), import_module("kinetree.torch")

# PyTorch's own, when forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@cache
def case(name: str) -> tuple[simulation.Simulator, list[Array], str]:
    """A simulator, q, v, tau of a step whose modes are certain, and a frame to push.

    A floating robot whose foot slides, with dry friction and stops, springs and dampers; one that is held, with
    projection; one that falls; and one on a height field, whose steps are no compiled functions.
    """
    if name == "contact":
        own = Case("legs", "midpoint")
        return own.sim, [own.q, own.v, own.tau], own.frame
    robot = hopper()
    rng = np.random.default_rng(3)
    q, v, tau = robot.random_configuration(rng), *rng.normal(size=(2, 7))
    options: dict[str, Any] = {}
    if name == "held":
        options = {"constraints": [kt.Task("foot", "position")], "at": robot.random_configuration(rng), "dt": 1e-2}
        q = options["at"]
    if name == "both":
        options = {"constraints": [kt.Task("body", "orientation")], "at": robot.neutral(), "dt": 1e-2}
        options["contacts"] = [simulation.Points("foot", (0.0, 0.0, -0.05))]
        q, v = np.array([0.0, 0.0, 0.349, 1.0, 0.0, 0.0, 0.0, 0.0]), np.r_[0.0, 0.0, 0.0, 1.0, 0.1, -1.0, 0.1]
    if name == "terrain":
        field = simulation.HeightField(np.array([[0.0, 0.3], [0.1, 0.2]]) - 0.5, size=(4.0, 4.0))
        q, v = np.array([0.0, 0.0, 0.0, 1.0, 0.05, 0.1, 0.0, 0.02]), np.r_[0.1, 0.2, 0.3, 0.5, 0.1, -1.0, 0.1]
        q[2] = -0.1
        options = {"contacts": [simulation.Points("foot", (0.1, 0.0, -0.05))], "ground": field, "dt": 1e-2}
    return simulation.Simulator(robot, **options), [q, v, tau], "foot"


CASES = ["contact", "held", "free", "terrain", "both"]


def matrices(sim: simulation.Simulator, given: list[Array], f_ext: Any) -> tuple[Array, Array]:
    """Derivatives of tangents and velocities after a step, with respect to components of q, v and tau."""
    A, B, modes = sim.discretize(*given, f_ext=f_ext)
    assert (modes.certain & modes.unique).all()
    n = sim.robot.nv
    whole = np.concatenate([A[:, :n] @ sim.robot.tangent_map(given[0]), A[:, n:], B], axis=-1)
    return whole[:n], whole[n:]


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    """Values, both modes, against `discretize`; the configuration after the step is on the manifold."""
    sim, given, frame = case(name)
    f_ext = {frame: np.random.default_rng(0).normal(size=6)}
    robot, function = sim.robot, IN_JAX.step(sim)
    q, v, info = sim.step(*given, f_ext=f_ext)
    found = jax.jit(function)(*given, f_ext)
    for actual, expected in zip(found, (q, v, info.residual), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), expected)
    of_q, of_v = matrices(sim, given, f_ext)
    for jacobian in (jax.jacfwd, jax.jacrev):
        by_q, by_v, _ = jacobian(function, argnums=(0, 1, 2, 3))(*given, f_ext)
        *plain, by_wrench = by_v
        assert_near(np.concatenate(plain, axis=-1), of_v, 1e-9 * np.abs(of_v).max())
        assert_near(robot.tangent_map(q) @ np.concatenate(by_q[:3], axis=-1), of_q, 1e-9 * np.abs(of_q).max())
        h = 1e-6
        ends = (sim.step(*given, f_ext={frame: f_ext[frame] + s * h * np.ones(6)})[1] for s in (1.0, -1.0))
        ahead, behind = ends
        assert_near(np.asarray(by_wrench[frame]).sum(axis=-1), (ahead - behind) / (2 * h), 1e-7)
    of_tensors = IN_TORCH.step(sim)
    tensors = [torch.tensor(x, requires_grad=True) for x in given]
    push = {frame: torch.tensor(f_ext[frame])}
    after = of_tensors(*tensors, push)
    for actual, expected in zip(after, (q, v, info.residual), strict=True):
        np.testing.assert_array_equal(actual.detach().numpy(), expected)
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        parts = jacobian(lambda *x: of_tensors(*x, push)[1], argnums=(0, 1, 2))(*(x.detach() for x in tensors))
        assert_near(torch.cat(parts, dim=-1).numpy(), of_v, 1e-9 * np.abs(of_v).max())


@pytest.mark.parametrize("name", CASES)
def test_motions(name: str) -> None:
    """Values of `rollout`; gradients of all states are those of `rollout.vjp`, in batches, and in both libraries."""
    sim, (q, v, _), _ = case(name)
    rng = np.random.default_rng(1)
    robot, steps = sim.robot, 6
    taus = rng.normal(size=(2, steps, robot.nv))
    path = sim.rollout(q, v, taus)
    weights = rng.normal(size=path.q.shape), rng.normal(size=path.v.shape)
    simulate = IN_JAX.simulate(sim)
    for actual, expected in zip(jax.jit(simulate)(q, v, taus), path[1:], strict=True):
        np.testing.assert_array_equal(np.asarray(actual), expected)

    def total(q: Any, v: Any, taus: Any) -> Any:
        found = simulate(q, v, taus)
        return (found[0] * weights[0]).sum() + (found[1] * weights[1]).sum()

    by_q, by_v, by_tau = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(q, v, taus)
    given = [torch.tensor(x, requires_grad=True) for x in (q, v, taus)]
    found = IN_TORCH.simulate(sim)(*given)
    for actual, expected in zip(found, path[1:], strict=True):
        np.testing.assert_array_equal(actual.detach().numpy(), expected)
    sum((x * torch.tensor(w)).sum() for x, w in zip(found, weights, strict=False)).backward()
    for one, other in zip((by_q, by_v, by_tau), given, strict=True):
        scale = np.abs(np.asarray(one)).max()
        assert_near(other.grad.numpy(), np.asarray(one), 1e-11 * scale)
    # the same along one direction: forward mode of PyTorch, and differences
    along = torch.tensor(rng.normal(size=taus.shape))

    def weighed(t: Any) -> Any:
        path = IN_TORCH.simulate(sim)(given[0].detach(), given[1].detach(), t)
        return sum((x * torch.tensor(w)).sum() for x, w in zip(path, weights, strict=False))

    _, change = torch.func.jvp(weighed, (given[2].detach(),), (along,))
    assert_near(change.detach().numpy(), (np.asarray(by_tau) * along.numpy()).sum(), 1e-10 * np.abs(by_tau).max())


def test_gradients_of_motions_against_differences() -> None:
    sim, (q, v, _), _ = case("contact")
    taus = np.random.default_rng(2).normal(size=(4, 7))
    simulate = IN_JAX.simulate(sim)
    slope = np.asarray(jax.jacrev(lambda t: simulate(q, v, t)[1][-1])(taus))
    d, h = np.random.default_rng(3).normal(size=taus.shape), 1e-5
    ends = [sim.rollout(q, v, taus + s * h * d).v[-1] for s in (1.0, -1.0)]
    assert_near(np.tensordot(slope, d, 2), (ends[0] - ends[1]) / (2 * h), 1e-6 * np.abs(slope).max())


def test_batches_and_vmaps_are_one_call() -> None:
    """With the bits of batches of the simulator; a gradient of a vmap is a vmap of gradients."""
    sim, (q, v, tau), _ = case("contact")
    step = IN_JAX.step(sim)
    taus = tau + np.random.default_rng(0).normal(size=(3, 2, tau.size))
    expected = sim.step(q, v, taus)
    mapped = jax.jit(jax.vmap(jax.vmap(step, (None, None, 0)), (None, None, 0)))(q, v, taus)
    for i in range(2):
        np.testing.assert_array_equal(np.asarray(mapped[i]), expected[i])
        np.testing.assert_array_equal(np.asarray(step(q, v, taus)[i]), expected[i])
    text = jax.jit(jax.vmap(step, (None, None, 0))).lower(q, v, taus[0]).as_text()
    assert text.count("custom_call @kinetree.step") == 1
    each = jax.vmap(jax.grad(lambda t: step(q, v, t)[1].sum()))(taus[0])
    whole = jax.grad(lambda t: step(q, v, t)[1].sum())(taus[0])
    np.testing.assert_array_equal(np.asarray(each), np.asarray(whole))
    assert torch.func.vmap(IN_TORCH.step(sim), (None, None, 0))(*map(torch.tensor, (q, v, taus[0])))[0].shape == (2, 8)


def test_populations() -> None:
    """Each robot's gradients are its own: of masses, armature, damping and friction."""
    robot = hopper()
    rng = np.random.default_rng(2)
    theta = robot.inertial_parameters * rng.uniform(0.8, 1.5, (3, 2, 1))
    options: dict[str, Any] = {"contacts": [simulation.Points("foot", (0.0, 0.0, -0.05))], "dt": 1e-2}
    options |= {"damping": True, "friction": True}
    joints = {what: rng.uniform(0.1, 1.0, (3, 7)) for what in ("armature", "damping", "friction")}
    q, v = np.array([0.0, 0.0, 0.349, 1.0, 0.0, 0.0, 0.0, 0.0]), np.r_[0.1, 0.2, 0.3, 1.0, 0.1, -1.0, 0.1]
    taus = rng.normal(size=(4, 7))
    world = simulation.Simulator(robot.population(theta, **joints), **options)
    alone = []
    for i, own in enumerate(map(robot.with_inertial_parameters, theta)):
        for what, values in joints.items():
            own = getattr(own, f"with_{what}")(values[i])
        alone.append(simulation.Simulator(own, **options))
    found = jax.jacrev(lambda t: IN_JAX.simulate(world)(q, v, t)[1][:, -1])(taus)
    tensor = torch.tensor(taus, requires_grad=True)
    end = IN_TORCH.simulate(world)(torch.tensor(q), torch.tensor(v), tensor)[1]
    np.testing.assert_array_equal(end.detach().numpy(), world.rollout(q, v, taus).v)
    (by_torch,) = torch.autograd.grad(end[:, -1].sum(), tensor)
    expected = np.stack([jax.jacrev(lambda t: IN_JAX.simulate(one)(q, v, t)[1][-1])(taus) for one in alone])  # noqa: B023
    assert_near(np.asarray(found), expected, 1e-9)
    assert_near(by_torch.numpy(), expected.sum(axis=(0, 1)), 1e-8)


def test_friction_as_an_argument() -> None:
    """Other values, alone and in batches, are those of other simulators; gradients are those of `step.vjp`."""
    own = Case("legs", "midpoint")
    sim, given = own.sim, [own.q, own.v, own.tau]
    taus, mu = np.tile(own.tau, (3, 1)), np.array([[0.5, 0.7], [0.3, 0.7]])
    others = [own.made(friction=one[0] - 0.5) for one in mu]
    for module, array in ((IN_JAX, jax.numpy.asarray), (IN_TORCH, torch.tensor)):
        found = module.step(sim)(*map(array, given), friction=array(mu))[1]
        path = module.simulate(sim)(array(own.q), array(own.v), array(taus), friction=array(mu))
        for i, other in enumerate(others):
            np.testing.assert_array_equal(np.asarray(found[i]), other.step(*given)[1])
            for one, exact in zip(path, other.rollout(own.q, own.v, taus)[1:], strict=True):
                np.testing.assert_array_equal(np.asarray(one[i]), exact)
    weights = np.random.default_rng(0).normal(size=7)
    expected = others[1].step.vjp(*given, 0 * weights, weights).friction
    assert np.abs(expected).max() > 1e-3
    push = {own.frame: np.zeros(6)}
    for frames in (None, push):
        by_mu = jax.grad(lambda x: IN_JAX.step(sim)(*given, frames, friction=x)[1] @ weights)(mu[1])  # noqa: B023
        assert_near(np.asarray(by_mu), expected, 1e-12)
    along = jax.jvp(lambda x: IN_JAX.step(sim)(*given, friction=x)[1] @ weights, (mu[1],), (np.array([1.0, 2.0]),))[1]
    assert_near(np.asarray(along), expected @ [1.0, 2.0], 1e-12)
    tensor = torch.tensor(mu[1], requires_grad=True)
    states = IN_TORCH.simulate(sim)(*map(torch.tensor, (own.q, own.v, taus)), friction=tensor)
    (by_torch,) = torch.autograd.grad(states[1].sum(), tensor)
    whole = jax.grad(lambda x: IN_JAX.simulate(sim)(own.q, own.v, taus, friction=x)[1].sum())(mu[1])
    assert_near(by_torch.numpy(), np.asarray(whole), 1e-11)
    for name in ("free", "terrain"):
        with pytest.raises(UnsupportedError, match="friction is an argument of compiled steps with contacts"):
            IN_JAX.step(case(name)[0])(*case(name)[1], friction=np.ones(1))


def test_rows_that_become_dependent() -> None:
    """An arm that is held at its tip, bent in one sample and stretched in another: as the simulator has it."""
    link: dict[str, Any] = {"mass": 1.0, "com": (0.2, 0.02, 0.03), "inertia": np.diag([0.03, 0.02, 0.04])}
    builder = kt.Builder("arm").add_body("a", **link).add_body("b", parent="a", axis=(0, 1, 0), **link)
    builder.add_body("c", parent="b", axis=(0, 1, 0), placement=(np.eye(3), (0.5, 0.0, 0.0)), **link)
    arm = builder.add_frame("tip", body="c", placement=(np.eye(3), (0.5, 0.0, 0.0))).build()
    q, v, tau = np.array([[0.3, 0.4, 0.8], [0.3, 0.4, 0.0]]), np.zeros(3), np.ones(3)
    sim = simulation.Simulator(arm, constraints=[kt.Task("tip", "position")], at=q[0], project=False)
    doubts = sim._steps.function(None, 1, False)(q, v, tau)[-1]
    np.testing.assert_array_equal(doubts > 0.0, [False, True])
    expected, weights = sim.step(q, v, tau)[1], np.array([1.0, 2.0, 3.0])
    exact = sim.step.vjp(q, v, tau, 0 * weights, weights)
    given = [torch.tensor(x, requires_grad=True) for x in (q, np.tile(v, (2, 1)), np.tile(tau, (2, 1)))]
    (IN_TORCH.step(sim)(*given)[1] * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(np.asarray(jax.jit(IN_JAX.step(sim))(q, v, tau)[1]), expected)
    slopes = jax.grad(lambda *x: (IN_JAX.step(sim)(*x)[1] * weights).sum(), argnums=(0, 1, 2))(
        *(x.detach().numpy() for x in given)
    )
    for one, other, own in zip(slopes, given, (exact.q, exact.v, exact.tau), strict=True):
        assert_near(np.asarray(one), own, 1e-12 * np.abs(own).max())
        assert_near(other.grad.numpy(), own, 1e-12 * np.abs(own).max())


def test_single_precision() -> None:
    """Arrays are converted on the way in and out: simulators compute in double precision."""
    sim, given, _ = case("contact")
    narrow = [x.astype(np.float32) for x in given]
    found = IN_JAX.step(sim)(*map(jax.numpy.asarray, narrow))
    assert all(x.dtype == np.float32 for x in found)
    np.testing.assert_array_equal(
        np.asarray(found[1]), sim.step(*(x.astype(np.float64) for x in narrow))[1].astype("f4")
    )
    assert IN_TORCH.step(sim)(*map(torch.tensor, narrow))[0].dtype == torch.float32


def test_torque_is_zero_by_default() -> None:
    sim, (q, v, _), _ = case("free")
    np.testing.assert_array_equal(np.asarray(IN_JAX.step(sim)(q, v)[1]), sim.step(q, v)[1])
    np.testing.assert_array_equal(IN_TORCH.step(sim)(torch.tensor(q), torch.tensor(v))[1].numpy(), sim.step(q, v)[1])


def test_what_simulators_cannot_do() -> None:
    sim, (q, v, tau), _ = case("contact")
    with pytest.raises(SecondDerivativeError, match="cannot be differentiated again"):
        jax.hessian(lambda t: IN_JAX.step(sim)(q, v, t)[1].sum())(tau)
    for module in (IN_JAX, IN_TORCH):
        with pytest.raises(InputError, match="simulate takes a Simulator, got Model"):
            module.simulate(sim.robot)
    with pytest.raises(InputError, match=r"simulate: tau has shape \(7,\); it takes \(…, T, 7\)"):
        IN_JAX.simulate(sim)(q, v, tau)
    rk4 = simulation.Simulator(sim.robot, method="rk4")
    np.testing.assert_array_equal(np.asarray(IN_JAX.step(rk4)(q, v, tau)[0]), rk4.step(q, v, tau)[0])
    with pytest.raises(InputError, match="derivatives of steps need one of the methods"):
        jax.grad(lambda t: IN_JAX.step(rk4)(q, v, t)[1].sum())(tau)


def test_discovered_contacts() -> None:
    """A box that lies on a floor is pushed: values, and gradients of both libraries, are those of `step`."""
    box = kt.zoo.box((0.1, 0.1, 0.1), 1.0).with_shapes([kt.geometry.Box("box", (0.1, 0.1, 0.1), friction=0.5)])
    scene = kt.Scene([kt.geometry.Plane("floor", (np.eye(3), (0.0, 0.0, -0.05)), friction=0.5)])
    sim = simulation.Simulator(box, contacts="discover", scene=scene)
    rng = np.random.default_rng(0)
    q, v, tau = box.neutral(), np.zeros(6), np.array([0.0, 0.0, 0.0, 8.0, 2.0, 0.0])
    w = 0.0 * v, rng.normal(size=6)
    expected = sim.step.vjp(q, v, tau, *w)
    assert np.abs(expected.tau).max() > 1e-4
    np.testing.assert_array_equal(np.asarray(IN_JAX.step(sim)(q, v, tau)[1]), sim.step(q, v, tau)[1])
    by_v, by_tau = jax.grad(lambda v, t: IN_JAX.step(sim)(q, v, t)[1] @ w[1], argnums=(0, 1))(v, tau)
    tensors = [torch.tensor(x, requires_grad=True) for x in (v, tau)]
    (IN_TORCH.step(sim)(torch.tensor(q), *tensors)[1] @ torch.tensor(w[1])).backward()
    for found in ((by_v, by_tau), [x.grad for x in tensors]):
        for one, exact in zip(found, (expected.v, expected.tau), strict=True):
            assert_near(np.asarray(one), exact, 1e-12 * np.abs(exact).max())
