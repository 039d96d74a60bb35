"""Robots with a free base that fall on the floor of their own MJCF files, here and in MuJoCo.

    python -m benchmarks.drops <directory of MuJoCo Menagerie>

Robots start above their first keyframe, or their neutral configuration, raised until nothing overlaps, with the
damping, dry friction, springs and stops of their files. Position servos hold the joints where the keyframe has them:
springs and dampers, without limits of force; `--passive` leaves them out, so that limbs hang from their joints. What
files leave without damping and dry friction swings for ever, in MuJoCo, too.

    rest        when the fastest degree of freedom stays below 1 mm/s or 1 mrad/s
    speed       of the fastest degree of freedom at the end
    gained      the largest growth of energy, springs included, between two states 0.1 s apart
    below       the deepest contact on the way, and at the end
"""

from __future__ import annotations

import argparse
import re
import struct
import time
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

import kinetree as kt
from kinetree import simulation
from kinetree.errors import KinetreeError

#: Fastest degree of freedom of a robot that is at rest [rad/s or m/s].
REST = 1e-3
Array = np.ndarray[Any, np.dtype[np.float64]]


class Servos(NamedTuple):
    """Springs and dampers of all joints."""

    stiffness: Array
    damping: Array
    rest: Array


class Drop(NamedTuple):
    """What became of a robot: at each 0.1 s, the speed of its fastest degree of freedom, and the deepest contact."""

    speeds: Array
    below: Array
    gained: float
    residual: float
    converged: float
    seconds: float

    @property
    def rest(self) -> float:
        """When it came to rest [s]; infinite if it did not."""
        moving = np.flatnonzero(~(self.speeds < REST))
        return 0.0 if not len(moving) else 0.1 * (moving[-1] + 1) if moving[-1] + 1 < len(self.speeds) else np.inf


def servos(robot: kt.Model, model: mujoco.MjModel, passive: bool) -> Servos:
    """Springs, dampers and position servos of a file, as one spring and damper of each joint."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    stiffness, damping, rest = np.zeros(robot.nv), np.zeros(robot.nv), np.array(robot.neutral())
    for joint in robot.joints:
        if joint.nv != joint.type.nv:
            continue
        damping[joint.v_slice] = joint.damping
        if joint.spring is not None:
            stiffness[joint.v_slice] = joint.spring.stiffness
            rest[joint.q_slice] = joint.spring.reference
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, joint.name)
        if passive or number < 0 or joint.nv != 1:
            continue
        for i in range(model.nu):
            gain, (offset, kp, kd) = model.actuator_gainprm[i, 0], model.actuator_biasprm[i, :3]
            gear, on = model.actuator_gear[i, 0], model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
            if not on or model.actuator_trnid[i, 0] != number or model.actuator_biastype[i] != 1 or kp >= 0.0:
                continue
            held = -kp * gear * gear
            place = (gain * data.ctrl[i] + offset) / (-kp * gear)
            before = stiffness[joint.v_start]
            rest[joint.q_start] = (before * rest[joint.q_start] + held * place) / (before + held)
            stiffness[joint.v_start] = before + held
            damping[joint.v_start] += max(-kd * gear * gear, 0.0)
    return Servos(stiffness, damping, rest)


def dropped(robot: kt.Model, held: Servos, q: Array, seconds: float, dt: float) -> tuple[Array, Drop]:
    """Let a robot fall from above a configuration; returns where it began, and what became of it."""
    dry = np.zeros(robot.nv)
    for joint in robot.joints:
        if joint.nv == joint.type.nv:
            dry[joint.v_slice] = joint.friction
    stops = any(
        np.isfinite([joint.limits.lower, joint.limits.upper]).any() and joint.nv == joint.type.nv
        for joint in robot.joints
    )
    options: dict[str, Any] = {"friction": dry, "limits": stops}
    options |= {"constraints": robot.equalities, "at": q} if robot.equalities else {}
    world = simulation.Simulator(robot, contacts="discover", dt=dt, **held._asdict(), **options)
    still = np.zeros(robot.nv)
    for _ in range(3):  # many files without a keyframe begin inside their floor
        _, _, info = world.step(q, still)
        q[2] += float(np.max(info.penetration))
    q[2] += 0.1
    since = time.perf_counter()
    path = world.rollout(q, still, steps=round(seconds / dt), every=round(0.01 / dt))
    since = time.perf_counter() - since
    below = world.step(path.q, path.v)[2].penetration
    energy = np.array([float(sum(robot.energy(x, v))) for x, v in zip(path.q[::10], path.v[::10], strict=True)])
    off = robot.difference(np.broadcast_to(held.rest, path.q[::10].shape), path.q[::10])
    energy += 0.5 * (held.stiffness * off * off).sum(axis=-1)
    speeds = np.abs(path.v).max(axis=1)[1:].reshape(-1, 10).max(axis=1)
    deepest = below[1:].reshape(-1, 10).max(axis=1)
    residual = float(np.max(path.residual))
    found = Drop(speeds, deepest, float(np.diff(energy).max()), residual, float(np.mean(path.converged)), since)
    return q, found


def in_mujoco(model: mujoco.MjModel, start: Array, passive: bool, seconds: float) -> Drop:
    """The same in MuJoCo, with its own time step."""
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    if passive:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    data.qpos[:] = start
    data.qvel[:] = 0.0
    speeds, below, since = [], [], time.perf_counter()
    for _ in range(round(seconds / 0.1)):
        speed = depth = 0.0
        for _ in range(max(1, round(0.1 / model.opt.timestep))):
            mujoco.mj_step(model, data)
            speed = max(speed, float(np.abs(data.qvel).max()))
            depth = max(depth, -float(data.contact.dist.min(initial=0.0)))
        speeds.append(speed)
        below.append(depth)
    return Drop(np.array(speeds), np.array(below), np.nan, np.nan, np.nan, time.perf_counter() - since)


def peer_model(path: Path) -> mujoco.MjModel:
    """MuJoCo's model. Textures and meshes that a copy lacks, which are looks only, are replaced by small ones."""
    assets: dict[str, bytes] = {}
    while True:
        try:
            return mujoco.MjModel.from_xml_path(str(path), assets)
        except ValueError as error:  # noqa: PERF203
            missing = re.search(r"opening file '([^']*)'", str(error))
            if missing is None or Path(missing[1]).name in assets:
                raise
            assets[Path(missing[1]).name] = _STAND_INS[Path(missing[1]).suffix.lower()]


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


_CORNERS, _FACES = ((0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)), ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
_STAND_INS = {
    ".obj": "\n".join(
        [*(f"v {x} {y} {z}" for x, y, z in _CORNERS), *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in _FACES)]
    ).encode(),
    ".stl": bytes(80)
    + struct.pack("<I", len(_FACES))
    + b"".join(struct.pack("<12fH", 0, 0, 0, *(x for i in face for x in _CORNERS[i]), 0) for face in _FACES),
    ".png": b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(bytes(7) + bytes([255] * 7)))
    + _chunk(b"IEND", b""),
}


def loaded(path: Path) -> kt.Model:
    """A robot; its loops as constraints if they cannot be built in, or leave configurations without differences."""
    try:
        robot = kt.load(path)
        robot.difference(robot.neutral(), robot.neutral())
        return robot
    except KinetreeError:
        return kt.load(path, loops="multipliers")


def main() -> None:
    """Drop each robot whose scene has a free base, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--dt", type=float, default=1e-3)
    parser.add_argument("--passive", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    scenes = sorted(given.directory.glob("*/scene*.xml"))
    if not scenes:
        parser.error(f"{given.directory} has no <robot>/scene.xml; is it a copy of MuJoCo Menagerie?")
    print(
        f"{'robot':38}  nv   rest   speed  gained [J]  below [µm], end  residual  converged  time |"
        " MuJoCo rest   speed   below [µm], end  time [s]"
    )
    for path in scenes:
        name = str(path.relative_to(given.directory))
        if given.only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                robot = loaded(path)
                if robot.nv < 6 or robot.joints[0].nv != 6:
                    continue
                model = peer_model(path)
                keys = list(robot.keyframes.values())
                start = np.array(keys[0] if keys else robot.neutral())
                held = servos(robot, model, given.passive)
                start, ours = dropped(robot, held, start, given.seconds, given.dt)
                peer = kt.interop.mujoco(robot, model)
                theirs = in_mujoco(model, peer.to_q(start), given.passive, given.seconds)
            except (KinetreeError, ValueError) as error:
                print(f"{name:38}  {type(error).__name__}: {str(error)[:150]}", flush=True)
                continue
        print(
            f"{name:38} {robot.nv:3}  {ours.rest:5.1f}  {ours.speeds[-1]:.0e}    {ours.gained:8.1e}  "
            f"{1e6 * ours.below.max():7.0f}, {1e6 * ours.below[-1]:5.1f}   {ours.residual:.0e}  "
            f"{100 * ours.converged:7.2f} %  {ours.seconds:4.1f} |"
            f"  {theirs.rest:10.1f}  {theirs.speeds[-1]:.0e}  {1e6 * theirs.below.max():8.0f}, "
            f"{1e6 * theirs.below[-1]:5.0f}  {theirs.seconds:7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
