"""Comparison with another library on the same file: URDF with Pinocchio, MJCF with MuJoCo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinetree import interop
from kinetree.cli.check import Check
from kinetree.cli.laws import States
from kinetree.errors import KinetreeError, SingularMechanismError
from kinetree.loading.diagnostics import Diagnostics
from kinetree.loading.document import Document
from kinetree.loading.source import Source, usd_file
from kinetree.spatial.value import Array

#: Relative difference allowed between two correct libraries on any robot.
TOLERANCE = 1e-9

# Most links listed in a note.
_LISTED = 5

#: A result, or why there is none.
Outcome = Check | str


def compared(path: Path, states: States, floating_base: bool, notes: dict[str, None]) -> Iterator[tuple[str, Outcome]]:
    """Compare a robot with the results of another library on the same file.

    Args:
        path: URDF or MJCF.
        states: States of the robot as loaded by Kinetree.
        floating_base: Whether it was loaded with a floating base.
        notes: Collects notes for the user about the comparison, without duplicates.

    Yields:
        What was compared, and the result.
    """
    if usd_file(path) is not None:
        yield "comparison with another library", "neither Pinocchio nor MuJoCo reads USD"
        return
    source = Source.of(path)
    if source.root.rpartition(":")[2] == "sdf":
        yield "comparison with another library", "neither Pinocchio nor MuJoCo reads SDF"
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
    q, v, a = other.to_q(s.q), other.to_v(s.v), other.to_a(s.a)
    tau = other.to_tau(s.a)

    def poses(i: int) -> Array:
        pin.framesForwardKinematics(model, data, q[i])
        return other.read_poses(data)

    def mass_matrix(i: int) -> Array:
        upper: Array = np.triu(pin.crba(model, data, q[i]))
        return np.asarray(upper + np.triu(upper, 1).T)

    def inverse(i: int) -> Array:
        return np.array(pin.rnea(model, data, q[i], v[i], a[i]))

    def forward(i: int) -> Array:
        return np.array(pin.aba(model, data, q[i], v[i], tau[i]))

    samples = range(len(q))
    yield "poses of frames", _agree(s.robot.pose(s.q, other.frames), [poses(i) for i in samples])
    yield "mass matrix", _agree(other.to_matrix(s.robot.mass_matrix(s.q)), [mass_matrix(i) for i in samples])
    yield (
        "inverse dynamics",
        _agree(other.to_tau(s.robot.inverse_dynamics(s.q, s.v, s.a)), [inverse(i) for i in samples]),
    )
    yield "forward dynamics", _forward(s, other, [forward(i) for i in samples])


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
    yield "forward dynamics", _forward(s, other, accelerations)


def _forward(s: States, other: interop.Counterpart, expected: list[Array]) -> Outcome:
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
