"""Forward and inverse dynamics undo each other, keep the books of power, and obey virtual work."""

from __future__ import annotations

import numpy as np
import pytest

from tests.laws.cases import Case, cases
from tests.tolerance import assert_close

#: Step of complex-step derivatives: exact to rounding, because nothing is subtracted.
H = 1e-30


def peak(*arrays: np.ndarray) -> float:
    """The largest entry."""
    return max(float(np.max(np.abs(array), initial=0.0)) for array in arrays)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_inverse_of_forward_is_identity(case: Case) -> None:
    q, v, tau = case.state
    a = case.on("forward_dynamics", q, v, tau)
    scale = peak(tau, case.on("bias_forces", q, v))
    assert_close(case.on("inverse_dynamics", q, v, a), tau, case.solving_tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_forward_of_inverse_is_identity(case: Case) -> None:
    q, v, a = case.state
    tau = case.on("inverse_dynamics", q, v, a)
    assert_close(case.on("forward_dynamics", q, v, tau), a, case.solving_tolerance)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_inverse_dynamics_is_affine_in_acceleration(case: Case) -> None:
    q, v, a = case.state
    M = case.on("mass_matrix", q)
    expected = np.einsum("...ij,...j->...i", M, a) + case.on("bias_forces", q, v)
    scale = peak(expected, np.einsum("...ij,...j->...i", np.abs(M), np.abs(a)))
    assert_close(case.on("inverse_dynamics", q, v, a), expected, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_power_balance(case: Case) -> None:
    """d/dt (T + U) = vᵀτ."""
    q, v, a = case.state
    tau = case.on("inverse_dynamics", q, v, a)
    kinetic, potential = case.exact("energy", q + 1j * H * case.q_rate, v + 1j * H * a)
    power = np.sum(v * tau, axis=-1)
    assert_close((kinetic + potential).imag / H, power, case.tolerance, peak(np.sum(np.abs(v * tau), axis=-1)))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_external_forces_do_virtual_work(case: Case) -> None:
    """A wrench f at a frame takes Jᵀf off the joint forces; forward dynamics sees the same wrench."""
    q, v, a = case.state
    rng = np.random.default_rng(1)
    wrenches = {frame: rng.uniform(-2.0, 2.0, (*case.shape, 6)) for frame in case.frames}
    work = sum(
        np.einsum("...ij,...i->...j", case.on("jacobian", q, frame), wrench) for frame, wrench in wrenches.items()
    )
    free = case.on("inverse_dynamics", q, v, a)
    pushed = case.on("inverse_dynamics", q, v, a, f_ext=wrenches)
    assert_close(pushed, free - work, case.tolerance, peak(free, work))
    assert_close(case.on("forward_dynamics", q, v, pushed, f_ext=wrenches), a, case.solving_tolerance)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_one_wrench_serves_a_whole_batch(case: Case) -> None:
    q, v, a = case.state
    wrench = np.arange(1.0, 7.0)
    frame = case.frames[-1]
    alone = case.on("inverse_dynamics", q, v, a, f_ext={frame: wrench})
    each = case.on("inverse_dynamics", q, v, a, f_ext={frame: np.broadcast_to(wrench, (*case.shape, 6))})
    np.testing.assert_array_equal(alone, each)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_bias_is_inverse_dynamics_at_rest_acceleration(case: Case) -> None:
    q, v, _ = case.state
    zero = np.zeros_like(v)
    expected = case.on("inverse_dynamics", q, v, zero)
    assert_close(case.on("bias_forces", q, v), expected, case.tolerance)
    assert_close(case.on("gravity_forces", q), case.on("inverse_dynamics", q, zero, zero), case.tolerance)


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_gravity_is_the_gradient_of_potential_energy(case: Case) -> None:
    q, v, _ = case.state
    _, potential = case.exact("energy", q + 1j * H * case.q_rate, v)
    gravity = case.on("gravity_forces", q)
    scale = peak(np.sum(np.abs(gravity * v), axis=-1))
    assert_close(np.sum(gravity * v, axis=-1), potential.imag / H, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_results_have_the_shape_of_the_batch(case: Case) -> None:
    q, v, x = case.state
    nv = case.robot.nv
    for name in ("inverse_dynamics", "forward_dynamics"):
        assert case.on(name, q, v, x).shape == (*case.shape, nv)
    assert case.on("mass_matrix", q).shape == (*case.shape, nv, nv)
    kinetic, potential = case.on("energy", q, v)
    assert kinetic.shape == potential.shape == case.shape
    assert case.on("pose", q, list(case.frames)).shape == (*case.shape, len(case.frames), 4, 4)


def test_ten_kilometres_cost_no_digits() -> None:
    """Moving the whole robot changes the joints' dynamics by no more than rounding of its own size."""
    from dataclasses import replace

    from tests.tolerance import bound, condition
    from tests.trees import mixed, random_mechanism

    near = random_mechanism("near", mixed(10, 10), 10)
    offset = np.array([8192.0, -6144.0, 128.0])  # sums with it are exact, so that both robots are the same
    snapped = [
        replace(link, position=np.round(link.position * 2**30) / 2**30) if link.parent == "world" else link
        for link in near.links
    ]
    moved = [replace(link, position=link.position + offset) if link.parent == "world" else link for link in snapped]
    here, there = replace(near, links=tuple(snapped)).kinetree(), replace(near, links=tuple(moved)).kinetree()
    q = here.random_configuration(np.random.default_rng(0), (5,))
    v, x = np.random.default_rng(1).uniform(-1, 1, (2, 5, here.nv))
    kappa = condition(here.mass_matrix(q))
    for engine in ("reference", "native"):
        for name, arguments, factor in (
            ("mass_matrix", (q,), 1.0),
            ("mass_matrix_inverse", (q,), kappa),
            ("inverse_dynamics", (q, v, x), 1.0),
            ("forward_dynamics", (q, v, x), kappa),
            ("coriolis_matrix", (q, v), 1.0),
        ):
            far = getattr(there, name).engine(engine)(*arguments)
            assert_close(far, getattr(here, name).engine(engine)(*arguments), bound(here.nv, factor))
