"""Dynamics: forward and inverse, the mass matrix and its factors, momentum, energy, and inertial parameters.

Laws that straight-line code has to obey as well are checked on the engine "specialized" too.
"""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics import mass_factors
from kinetree.language.algorithm import Algorithm
from kinetree.language.setup import Variants
from kinetree.tasks.recursions import TaskFunction
from tests.laws.cases import ENGINES, LWA, SPECIALIZED, Case, H, cases, model, times, transposed
from tests.tolerance import Array, assert_close, bound, condition, peak
from tests.trees import mixed, random_mechanism


@pytest.mark.parametrize("case", [*cases(), *SPECIALIZED], ids=str)
def test_forward_and_inverse_dynamics_undo_each_other(case: Case) -> None:
    q, v, x = case.state
    a, tau = (case.on(function, q, v, x) for function in ("forward_dynamics", "inverse_dynamics"))
    assert_close(case.on("inverse_dynamics", q, v, a), x, case.solving_tolerance, peak(x, case.on("bias_forces", q, v)))
    assert_close(case.on("forward_dynamics", q, v, tau), x, case.solving_tolerance)


@pytest.mark.parametrize("case", [*cases(), *SPECIALIZED], ids=str)
def test_inverse_dynamics_is_affine_in_acceleration(case: Case) -> None:
    q, v, a = case.state
    M = case.on("mass_matrix", q)
    expected = times(M, a) + case.on("bias_forces", q, v)
    scale = peak(expected, times(np.abs(M), np.abs(a)))
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
    # one wrench serves a whole batch
    frame, wrench = case.frames[-1], np.arange(1.0, 7.0)
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


@pytest.mark.parametrize("case", [*cases(), *SPECIALIZED], ids=str)
def test_kinetic_energy(case: Case) -> None:
    """T = ½ vᵀ M v."""
    q, v, _ = case.state
    M = case.on("mass_matrix", q)
    kinetic, _ = case.on("energy", q, v)
    assert_close(kinetic, np.einsum("...i,...ij,...j->...", v, M, v) / 2, case.tolerance)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_columns_are_inverse_dynamics_of_unit_accelerations(case: Case) -> None:
    q, v, _ = case.state
    M = case.on("mass_matrix", q)
    rng = np.random.default_rng(3)
    for i in rng.choice(case.robot.nv, size=min(2, case.robot.nv), replace=False):
        a = np.zeros_like(v)
        a[..., i] = 1.0
        still = np.zeros_like(v)
        column = case.on("inverse_dynamics", q, still, a) - case.on("gravity_forces", q)
        assert_close(M[..., i], column, case.tolerance, peak(case.on("gravity_forces", q), M))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_inverse_and_solve(case: Case) -> None:
    """M (M⁻¹ x) = x, with M⁻¹ and without forming it; both matrices are symmetric bit for bit."""
    q, _, x = case.state
    M, inverse, solution = (
        case.on("mass_matrix", q),
        case.on("mass_matrix_inverse", q),
        case.on("mass_matrix_solve", q, x),
    )
    assert_close(M @ inverse, np.broadcast_to(np.eye(case.robot.nv), M.shape), case.solving_tolerance)
    assert_close(times(M, solution), x, case.solving_tolerance)
    assert_close(solution, times(inverse, x), case.solving_tolerance, peak(inverse))
    for matrix in (M, inverse):
        np.testing.assert_array_equal(matrix, transposed(matrix))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_inverse_of_deep_trees(seed: int, engine: str) -> None:
    """With many ancestors and siblings, for which M and M⁻¹ have recursions of their own."""
    robot = random_mechanism("deep", mixed(40, seed), seed, branching=0.15, reach=0.1, armature=0.5).kinetree()
    q = robot.random_configuration(seed)
    M, inverse = (getattr(robot, name).engine(engine)(q) for name in ("mass_matrix", "mass_matrix_inverse"))
    assert_close(M @ inverse, np.eye(robot.nv), bound(robot.nv, condition(M)))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_determinant_is_the_product_of_hinge_inertias(case: Case) -> None:
    """det M = ∏ det D(k), [J11] Corollary 6.1."""
    q, _, _ = case.state
    sign, logarithm = np.linalg.slogdet(case.on("mass_matrix", q))
    assert np.all(sign == 1.0)
    assert_close(case.on("mass_matrix_log_determinant", q), logarithm, case.solving_tolerance, peak(logarithm))
    if np.all(np.abs(logarithm) < 100):
        determinant = case.on("mass_matrix_determinant", q)
        assert_close(determinant / np.exp(logarithm), np.ones(case.shape), case.solving_tolerance)


#: Robots with axes at right angles, some of which do not feel each other: rounding decides how exactly.
SYMMETRIC = ("humanoid24", "asimo35")


@pytest.mark.parametrize("case", cases(), ids=str)
def test_sparsity_is_topology(case: Case) -> None:
    """Entries of joints of which neither supports the other are exactly zero; on random trees no other block is."""
    q, _, _ = case.state
    M = case.on("mass_matrix", q)
    mechanism = case.robot.mechanism
    starts, topology = mechanism.v_starts, mechanism.topology
    related = np.zeros((case.robot.nv, case.robot.nv), dtype=bool)
    for node, parent in enumerate(mechanism.parents):
        columns = slice(starts[node], starts[node + 1])
        if parent >= 0:  # what supports the parent supports the node
            related[:, columns] = related[:, starts[parent] : starts[parent] + 1]
        related[columns, columns] = True
        if len(topology) < 100 and case.name not in SYMMETRIC:
            for ancestor in topology.support(node):
                rows = slice(starts[ancestor], starts[ancestor + 1])
                assert np.all(np.any(M[..., rows, columns] != 0.0, axis=(-1, -2)))
    assert np.all(M[..., ~(related | related.T)] == 0.0)


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_rate_minus_twice_coriolis_is_skew(case: Case) -> None:
    """xᵀ (Ṁ − 2C) x = 0 for every x: the Coriolis matrix does no work of its own."""
    q, v, _ = case.state
    rate = case.exact("mass_matrix", q + 1j * H * case.q_rate).imag / H
    C = case.on("coriolis_matrix", q, v)
    difference = rate - 2.0 * C
    assert_close(difference, -transposed(difference), case.tolerance, peak(rate, C))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_coriolis_matrix_gives_the_velocity_part_of_the_bias(case: Case) -> None:
    q, v, _ = case.state
    C = case.on("coriolis_matrix", q, v)
    bias = case.on("bias_forces", q, v)
    gravity = case.on("gravity_forces", q)
    scale = peak(bias, gravity, times(np.abs(C), np.abs(v)))
    assert_close(times(C, v) + gravity, bias, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(long=False), ids=str)
def test_factors_replace_articulated_sweeps(case: Case) -> None:
    robot, (q, v, x), frames = case.robot, case.state, list(case.frames)
    tasks = robot.tasks(frames, reference=LWA)
    sites = tasks.core.recursions.sites

    def run(algorithm: Algorithm, *inputs: object) -> object:
        return TaskFunction("factors", robot.mechanism.at(sites), algorithm, sites).engine(case.engine)(*inputs)

    factors, place, mobility = run(mass_factors.mass_factors, q)
    J = tasks.jacobian(q)
    poses = robot.pose(q, frames)
    assert_close(place[..., :9].reshape(*poses.shape[:-2], 3, 3), poses[..., :3, :3], case.tolerance)
    assert_close(place[..., 9:12], poses[..., :3, 3], case.tolerance)
    assert_close(mobility, tasks.inverse_inertia(q), case.solving_tolerance)

    accelerations = run(mass_factors.factored_accelerations, factors, v, x)
    expected = robot.forward_dynamics(q, v, x)
    scale = float(np.abs(robot.mass_matrix_inverse(q)).max() * np.abs(robot.bias_forces(q, v)).max())
    assert_close(accelerations, expected, case.solving_tolerance, scale=max(scale, peak(expected)))

    twists = run(mass_factors.factored_twists, factors, v, place)
    assert_close(twists, robot.velocity(q, v, frames, LWA), case.tolerance)

    wrench = np.random.default_rng(5).normal(size=twists.shape)
    after = run(mass_factors.factored_impulses, factors, v, place, wrench)
    pushed = np.einsum("...rn,...r->...n", J, wrench.reshape(*wrench.shape[:-2], -1))
    gained = np.linalg.solve(robot.mass_matrix(q), pushed[..., None])[..., 0]
    assert_close(after, v + gained, case.solving_tolerance, scale=peak(gained))


def bodies(case: Case, q: Array, v: Array) -> list[tuple[float, Array, Array, Array, Array]]:
    """Mass, centre, its velocity, angular velocity and rotational inertia of each body, all in world axes."""
    frames = [body.name for body in case.robot.bodies if body.mass > 0.0]
    poses = case.on("pose", q, frames)
    velocities = case.on("velocity", q, v, frames, reference="local_world_aligned")
    found = []
    for i, body in enumerate(body for body in case.robot.bodies if body.mass > 0.0):
        R, p = poses[..., i, :3, :3], poses[..., i, :3, 3]
        angular, linear = velocities[..., i, :3], velocities[..., i, 3:]
        arm = times(R, np.broadcast_to(body.com, p.shape))
        inertia = R @ body.inertia @ transposed(R)
        found.append((body.mass, p + arm, linear + np.cross(angular, arm), angular, inertia))
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_centre_of_mass(case: Case) -> None:
    """The weighted mean of centres; linear momentum is that of all mass there, and so is potential energy."""
    q, v, _ = case.state
    parts, centre, gravity = bodies(case, q, v), case.on("center_of_mass", q), case.robot.mechanism.gravity
    total = sum(mass for mass, *_ in parts)
    assert_close(centre, sum(mass * center for mass, center, *_ in parts) / total, case.tolerance)
    A, J = case.on("centroidal_momentum_matrix", q), case.on("center_of_mass_jacobian", q)
    assert_close(A[..., 3:, :], total * J, case.tolerance)
    _, potential = case.on("energy", q, v)
    assert_close(potential, -total * (centre @ gravity), case.tolerance, peak(total * np.abs(centre) * np.abs(gravity)))


@pytest.mark.parametrize("case", cases(long=False, complex_step=True), ids=str)
def test_jacobian_of_the_centre_of_mass(case: Case) -> None:
    q, v, _ = case.state
    moving = case.exact("center_of_mass", q + 1j * H * case.q_rate)
    J = case.on("center_of_mass_jacobian", q)
    assert J.shape == (*case.shape, 3, case.robot.nv)
    assert_close(times(J, v), moving.imag / H, case.tolerance, peak(moving.imag / H, J))


@pytest.mark.parametrize("case", cases(), ids=str)
def test_centroidal_momentum(case: Case) -> None:
    """A_G v is the momentum about the centre of mass, summed body by body."""
    q, v, _ = case.state
    parts = bodies(case, q, v)
    centre = case.on("center_of_mass", q)
    linear = sum(mass * velocity for mass, _, velocity, _, _ in parts)
    angular = sum(
        times(inertia, spin) + mass * np.cross(position - centre, velocity)
        for mass, position, velocity, spin, inertia in parts
    )
    expected = np.concatenate([angular, linear], axis=-1)
    A = case.on("centroidal_momentum_matrix", q)
    assert A.shape == (*case.shape, 6, case.robot.nv)
    # Positions enter as differences of world coordinates, which far from the origin have lost the digits already.
    scale = peak(expected, times(np.abs(A), np.abs(v))) * max(1.0, peak(centre))
    assert_close(times(A, v), expected, case.tolerance, scale)


@pytest.mark.parametrize("case", cases(complex_step=True, names=("legged",)), ids=str)
def test_a_free_robot_keeps_its_angular_momentum(case: Case) -> None:
    """No joint torque changes the momentum about the centre of mass; gravity alone changes the linear one."""
    q, v, tau = case.state
    tau = tau.copy()
    tau[..., :6] = 0.0
    a = case.on("forward_dynamics", q, v, tau)
    moving = case.exact("centroidal_momentum_matrix", q + 1j * H * case.q_rate)
    rate = times(moving.imag / H, v) + times(moving.real, a)
    weight = sum(body.mass for body in case.robot.bodies) * case.robot.mechanism.gravity
    expected = np.concatenate([np.zeros((*case.shape, 3)), np.broadcast_to(weight, (*case.shape, 3))], axis=-1)
    scale = peak(expected, times(np.abs(moving.real), np.abs(a)))
    assert_close(rate, expected, case.solving_tolerance, scale)


LINEAR = ("one", "every kind", "every kind, armature", "forest", "10 km away", "humanoid24")


def armature(robot: kt.Model) -> np.ndarray:
    """Of all degrees of freedom."""
    return np.concatenate([np.broadcast_to(joint.armature, joint.nv) for joint in robot.joints])


@pytest.mark.parametrize("case", cases(long=False, complex_step=True, names=LINEAR), ids=str)
def test_regressor_times_parameters_is_inverse_dynamics(case: Case) -> None:
    q, v, a = case.state
    Y = case.on("regressor", q, v, a)
    theta = case.robot.inertial_parameters
    assert Y.shape == (*case.shape, case.robot.nv, len(case.robot.bodies), 10)
    expected = case.on("inverse_dynamics", q, v, a) - armature(case.robot) * a
    assert_close(np.tensordot(Y, theta, 2), expected, case.tolerance)


def test_a_payload_in_a_frame() -> None:
    """A body held in a frame adds its column's share."""
    robot = kt.zoo.humanoid24()
    frame = robot.bodies[-1].name
    rng = np.random.default_rng(0)
    q, (v, a) = robot.random_configuration(rng), rng.uniform(-1.0, 1.0, (2, robot.nv))
    loaded = robot.with_payload(frame, mass=2.0, com=(0.1, 0.0, 0.2), inertia=np.diag([0.02, 0.03, 0.04]))
    added = loaded.inverse_dynamics(q, v, a) - robot.inverse_dynamics(q, v, a)
    shift = np.array([[0.0, -0.2, 0.0], [0.2, 0.0, -0.1], [0.0, 0.1, 0.0]])
    J = np.diag([0.02, 0.03, 0.04]) - 2.0 * shift @ shift
    theta = np.array([2.0, 0.2, 0.0, 0.4, *J[np.triu_indices(3)]])
    Y = robot.regressor(q, v, a, [frame])
    assert_close(Y[:, 0] @ theta, added, 1e-13, float(np.max(np.abs(loaded.inverse_dynamics(q, v, a)))))


def test_bodies_behind_fixed_joints_count_as_their_own() -> None:
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.3), "inertia": np.diag([0.02, 0.02, 0.01])}
    builder = kt.Builder(name="arm").add_body("upper", parent="world", joint="revolute", axis=(0, 1, 0), **solid)
    builder.add_body("tool", parent="upper", joint="fixed", placement=(np.eye(3), (0.0, 0.2, 0.5)), **solid)
    robot = builder.build()
    q, v, a = np.array([0.3]), np.array([1.2]), np.array([-0.7])
    Y = robot.regressor(q, v, a)
    assert Y.shape == (1, len(robot.bodies), 10)
    assert_close(np.tensordot(Y, robot.inertial_parameters, 2), robot.inverse_dynamics(q, v, a), 1e-14)


@pytest.mark.parametrize("name", ["forest", "many tips", "10 km away"])
def test_mechanisms_share_their_kernels(name: str) -> None:
    """If this fails, choose other seeds in `cases.py`: kinds include the shapes of placements, which are random."""
    assert Variants.of(model(name).mechanism, ()).key == Variants.of(model("every kind").mechanism, ()).key
