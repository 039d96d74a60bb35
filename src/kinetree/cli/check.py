"""`kinetree check`: laws of mechanics that the functions of any robot must obey, and comparison with other libraries.

URDF is compared with Pinocchio, MJCF with MuJoCo, each on the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinetree import interop
from kinetree.errors import KinetreeError, SingularMechanismError
from kinetree.io.document import Document
from kinetree.io.options import Diagnostics
from kinetree.io.source import Source, usd_file
from kinetree.model.model import Model
from kinetree.model.singularity import require_invertible
from kinetree.spatial.value import Array

#: Bound on the error, in units of n·eps. Forces are compared, so the condition number of M does not enter.
SLACK = 16.0


@dataclass(frozen=True)
class Check:
    """An error and its bound."""

    residual: float  # worst relative error; NaN if a result is NaN
    tolerance: float  # error that rounding can explain

    @property
    def passed(self) -> bool:
        """Whether the residual is within tolerance; a residual of NaN is not."""
        return self.residual <= self.tolerance

    def worse(self, other: Check) -> Check:
        """Of two checks of the same thing, the one that fails or comes closer to failing."""
        return other if not other.passed or (self.passed and other.excess > self.excess) else self

    @property
    def excess(self) -> float:
        """The error in units of its bound."""
        return self.residual / self.tolerance


def forward_against_inverse(robot: Model, q: Array, v: Array, tau: Array) -> Check:
    """Map joint forces to accelerations and back; errors are relative to the largest force of each sample."""
    returned = robot.inverse_dynamics(q, v, robot.forward_dynamics(q, v, tau))
    scale = np.maximum(_peaks(tau), _peaks(robot.bias_forces(q, v)))
    residual = float((_peaks(returned - tau) / scale).max())
    return Check(residual, SLACK * robot.nv * float(np.finfo(np.float64).eps))


def _peaks(forces: Array) -> Array:
    """The largest entry of each sample."""
    peaks: Array = np.abs(forces).max(axis=-1)
    return peaks


_EPS = float(np.finfo(np.float64).eps)

# Step of central differences [s], and their truncation error.
_STEP, _DIFFERENCE = 1e-5, 1e-6


@dataclass(frozen=True, eq=False)
class States:
    """Random states of a robot: q, (batch, nq); v and a, (batch, nv), where a doubles as joint forces."""

    robot: Model
    q: Array
    v: Array
    a: Array

    @classmethod
    def random(cls, robot: Model, seed: int, count: int) -> States:
        """States drawn within the limits."""
        rng = np.random.default_rng(seed)
        v, a = rng.uniform(-1.0, 1.0, (2, count, robot.nv))
        return cls(robot, robot.random_configuration(rng, count), v, a)

    def parts(self, most: int) -> Iterator[States]:
        """The same states in chunks of at most `most`."""
        for start in range(0, len(self.q), most):
            chosen = slice(start, start + most)
            yield States(self.robot, self.q[chosen], self.v[chosen], self.a[chosen])

    @property
    def rounding(self) -> float:
        """Relative rounding error of results that do not involve M⁻¹."""
        return SLACK * max(self.robot.nv, 6) * _EPS


def _positive_definite(s: States) -> Check:
    require_invertible(s.robot.mechanism)
    values = np.linalg.eigvalsh(s.robot.mass_matrix(s.q))
    return Check(float(np.max(-values[:, 0] / values[:, -1])), s.rounding)


def _equation_of_motion(s: States) -> Check:
    M, h = s.robot.mass_matrix(s.q), s.robot.bias_forces(s.q, s.v)
    return _compare(_times(M, s.a) + h, s.robot.inverse_dynamics(s.q, s.v, s.a), s.rounding)


def _kinetic_energy(s: States) -> Check:
    kinetic, _ = s.robot.energy(s.q, s.v)
    return _compare(0.5 * np.sum(s.v * _times(s.robot.mass_matrix(s.q), s.v), axis=-1), kinetic, s.rounding)


def _coriolis(s: States) -> Check:
    h, g = s.robot.bias_forces(s.q, s.v), s.robot.gravity_forces(s.q)
    return _compare(_times(s.robot.coriolis_matrix(s.q, s.v), s.v) + g, h, s.rounding)


def _power(s: States) -> Check:
    """The rate of change of energy equals the power of the joint forces; by central differences."""
    tau = s.robot.inverse_dynamics(s.q, s.v, s.a)

    def energy(dt: float) -> Array:
        there = s.robot.energy(s.robot.integrate(s.q, s.v + 0.5 * dt * s.a, dt), s.v + dt * s.a)
        return there.kinetic + there.potential

    ahead, behind = energy(_STEP), energy(-_STEP)
    scale = np.abs(ahead).max() / _STEP * _EPS  # error due to cancellation
    return _compare((ahead - behind) / (2.0 * _STEP), np.sum(tau * s.v, axis=-1), _DIFFERENCE + 10.0 * scale)


def _inverse(s: States) -> Check:
    M, W = s.robot.mass_matrix(s.q), s.robot.mass_matrix_inverse(s.q)
    return Check(float(np.max(np.abs(M @ W - np.eye(s.robot.nv)))), s.rounding * float(np.max(np.linalg.cond(M))))


def _solve(s: States) -> Check:
    M = s.robot.mass_matrix(s.q)
    x = s.robot.mass_matrix_solve(s.q, s.a)
    return _compare(_times(M, x), s.a, s.rounding * float(np.max(np.linalg.cond(M))))


def _twist(s: States) -> Check:
    frame = s.robot.frames[-1]
    return _compare(_times(s.robot.jacobian(s.q, frame), s.v), s.robot.velocity(s.q, s.v, frame), s.rounding)


#: All laws. Errors are relative to the largest entry, or absolute if that is below one.
LAWS: dict[str, Callable[[States], Check]] = {
    "M is positive definite: −λmin/λmax": _positive_definite,
    "M a + h = inverse dynamics": _equation_of_motion,
    "½ vᵀM v = kinetic energy": _kinetic_energy,
    "C v + g = bias forces": _coriolis,
    "rate of energy = power of joint forces": _power,
    "J v = twist of the last frame": _twist,
    "M M⁻¹ = 1": _inverse,
    "M (M⁻¹ x) = x": _solve,
    "inverse undoes forward dynamics": lambda s: forward_against_inverse(s.robot, s.q, s.v, s.a),
}


def obeyed(states: States, law: str) -> Check | str:
    """The result of checking a law, or why it does not apply to this robot."""
    try:
        return LAWS[law](states)
    except SingularMechanismError as error:
        return str(error)
    except np.linalg.LinAlgError:  # a matrix has non-finite entries
        return Check(float("nan"), states.rounding)


def _times(matrix: Array, vector: Array) -> Array:
    product: Array = np.einsum("...ij,...j->...i", matrix, vector)
    return product


def _compare(actual: Array, expected: Array, tolerance: float) -> Check:
    """Largest difference, relative to the largest entry or to one."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    return Check(float(np.max(np.abs(actual - expected), initial=0.0)) / scale, tolerance)


#: Relative difference allowed between two correct libraries on any robot.
TOLERANCE = 1e-9

# Most links listed in a note.
_LISTED = 5

#: A result, or why there is none.
Outcome = Check | str


def compared(path: Path, states: States, floating_base: bool, notes: dict[str, None]) -> Iterator[tuple[str, Outcome]]:
    """Compare a robot with another library on the same file; yields what, and the result. `notes` are for the user."""
    source = Source.of(path) if usd_file(path) is None else None
    if source is None or source.root.rpartition(":")[2] == "sdf":
        unread = "USD" if source is None else "SDF"
        yield "comparison with another library", f"neither Pinocchio nor MuJoCo reads {unread}"
        return
    library = "MuJoCo" if source.root.startswith("mujoco") else "Pinocchio"
    try:
        if library == "MuJoCo":
            results = _with_mujoco(path, states)
        else:
            results = _with_pinocchio(_completed(source, notes), states, floating_base)
        for what, check in results:
            yield f"{what} as in {library}", check
    except ModuleNotFoundError:
        yield f"comparison with {library}", f"{library} is not installed"
    except (KinetreeError, ValueError, RuntimeError) as error:
        yield f"comparison with {library}", str(error)


def _completed(source: Source, notes: dict[str, None]) -> str:
    """URDF source with all six numbers in each <inertia>.

    Pinocchio reads files with urdfdom. If a product of inertia is missing, urdfdom reports an error, keeps the mass
    and drops the whole inertia. Kinetree treats missing products as zero, so both are compared with zeros filled in.
    """
    from lxml import etree

    root = Document(source, Diagnostics(source.file), {}).root
    incomplete = []
    for inertia in root.iterfind("link/inertial/inertia"):
        if missing := [name for name in ("ixy", "ixz", "iyz") if name not in inertia.attrib]:
            inertia.attrib.update(dict.fromkeys(missing, "0"))
            incomplete.append(repr(inertia.getparent().getparent().get("name")))
    if incomplete:
        listed = ", ".join(incomplete[:_LISTED]) + (
            f" and {len(incomplete) - _LISTED} more" if incomplete[_LISTED:] else ""
        )
        notes[
            f"<inertia> lacks ixy, ixz or iyz in link {listed}. Kinetree takes them as zero; urdfdom, and with it "
            "Pinocchio and ROS, drops such an inertia. Write the zeros into the file. Compared as if they were there."
        ] = None
    return str(etree.tostring(root, encoding="unicode"))


def _with_pinocchio(urdf: str, s: States, floating_base: bool) -> Iterator[tuple[str, Outcome]]:
    import pinocchio as pin

    root = [pin.JointModelFreeFlyer()] if floating_base else []
    model = pin.buildModelFromXML(urdf, *root)
    model.gravity.linear = s.robot.gravity.copy()
    other, data = interop.pinocchio(s.robot, model), model.createData()
    poses, masses, inverse, forward = [], [], [], []
    for q, v, a, tau in zip(other.to_q(s.q), other.to_v(s.v), other.to_a(s.a), other.to_tau(s.a)):
        pin.framesForwardKinematics(model, data, q)
        poses.append(other.read_poses(data))
        upper: Array = np.triu(pin.crba(model, data, q))
        masses.append(upper + np.triu(upper, 1).T)
        inverse.append(np.array(pin.rnea(model, data, q, v, a)))
        forward.append(np.array(pin.aba(model, data, q, v, tau)))
    yield "poses of frames", _agree(s.robot.pose(s.q, other.frames), poses)
    yield "mass matrix", _agree(other.to_matrix(s.robot.mass_matrix(s.q)), masses)
    yield "inverse dynamics", _agree(other.to_tau(s.robot.inverse_dynamics(s.q, s.v, s.a)), inverse)
    yield "forward dynamics", _forward_dynamics(s, other, forward)


def _with_mujoco(path: Path, s: States) -> Iterator[tuple[str, Outcome]]:
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    # switch off what Kinetree does not model
    for flag in (off.mjDSBL_CONSTRAINT, off.mjDSBL_SPRING, off.mjDSBL_DAMPER, off.mjDSBL_ACTUATION):
        model.opt.disableflags |= flag
    model.opt.density = model.opt.viscosity = 0.0
    model.body_gravcomp[:] = 0.0
    other, data = interop.mujoco(s.robot, model), mujoco.MjData(model)
    poses, masses, bias, accelerations = [], [], [], []
    for q, v, tau in zip(s.q, s.v, s.a):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = other.to_q(q), other.to_v(v, q), other.to_tau(tau, q)
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        poses.append(other.read_poses(data))
        masses.append(M)
        bias.append(np.array(data.qfrc_bias))
        accelerations.append(np.array(data.qacc))
    yield "poses of frames", _agree(s.robot.pose(s.q, other.frames), poses)
    yield "mass matrix", _agree(other.to_matrix(s.robot.mass_matrix(s.q), s.q), masses)
    yield "bias forces", _agree(other.bias_forces(s.q, s.v), bias)
    yield "forward dynamics", _forward_dynamics(s, other, accelerations)


def _forward_dynamics(s: States, other: interop.Counterpart, expected: list[Array]) -> Outcome:
    try:
        a = other.to_a(s.robot.forward_dynamics(s.q, s.v, s.a), s.v, s.q)
    except SingularMechanismError as error:
        return str(error)
    condition = float(np.max(np.linalg.cond(s.robot.mass_matrix(s.q))))
    return _agree(a, expected, max(TOLERANCE, s.rounding * condition))


def _agree(actual: Any, expected: list[Array], tolerance: float = TOLERANCE) -> Check:
    """Largest difference, relative to the largest entry of each sample or to one."""
    differences = [
        float(np.max(np.abs(one - other), initial=0.0)) / max(1.0, float(np.max(np.abs(other), initial=0.0)))
        for one, other in zip(actual, expected)
    ]
    return Check(float(np.max(differences)), tolerance)
