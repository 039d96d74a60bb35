"""Forward and inverse dynamics of a flexible arm, against the number of its modes and against its rigid counterpart."""

from __future__ import annotations

from typing import Any

import numpy as np

import kinetree as kt
from benchmarks.table import Table
from benchmarks.timing import race

BATCH = 1024
POOL = 64
#: Bending modes of each link; none: rigid links.
MODES = (0, 1, 2, 4, 6)
LENGTH, EI, RHO_A = 1.0, 200.0, 0.8


def arm(modes: int, links: int = 3) -> kt.Model:
    """Links that bend in two planes, behind hinges of alternating axes, and a tool."""
    builder, parent, at = kt.Builder(f"{modes} modes per link"), "world", 0.0
    for i in range(links):
        axis = (0.0, 1.0, 0.0) if i % 2 else (0.0, 0.0, 1.0)
        place = np.eye(3), (at, 0.0, 0.0)
        if modes:
            beam = kt.Beam(LENGTH, EI, RHO_A, modes=modes, planes="z" if i % 2 else "y", axial_inertia=1e-4)
            builder.add_flexible(f"link{i}", beam, parent=parent, joint="revolute", axis=axis, placement=place)
            parent = f"link{i}/tip"
        else:
            thin, wide = 1e-4, RHO_A * LENGTH**3 / 12.0
            solid: dict[str, Any] = {"com": (LENGTH / 2.0, 0, 0), "inertia": np.diag([thin, wide, wide])}
            builder.add_body(f"link{i}", parent=parent, axis=axis, placement=place, mass=RHO_A * LENGTH, **solid)
            parent, at = f"link{i}", LENGTH
    place = np.eye(3), (at, 0.0, 0.0)
    builder.add_body("tool", parent=parent, axis=(1, 0, 0), placement=place, mass=0.5, inertia=1e-3 * np.eye(3))
    return builder.build()


def table(seconds: float) -> Table:
    """A single call, and a sample of a batch."""
    found = Table(
        "Flexible arm: three links",
        ["modes per link", "nv", "inverse dynamics", "forward dynamics", "over rigid", f"of {BATCH}", "over rigid"],
    )
    rigid: dict[str, float] = {}
    for modes in MODES:
        robot = arm(modes)
        rng = np.random.default_rng(0)
        q, v, tau = robot.neutral(), *rng.normal(size=(2, robot.nv))
        many = np.stack([q] * BATCH), *rng.normal(size=(2, BATCH, robot.nv))
        contenders: dict[str, Any] = {
            "inverse": (robot.inverse_dynamics, [(q, v, tau)] * POOL),
            "forward": (robot.forward_dynamics, [(q, v, tau)] * POOL),
            "batch": (robot.forward_dynamics, [many]),
        }
        times = race(contenders, seconds)
        times["batch"] /= BATCH
        rigid = rigid or times
        found.add(
            str(modes or "rigid"),
            str(robot.nv),
            *(f"{times[name] * 1e6:.2f} µs" for name in ("inverse", "forward")),
            f"{times['forward'] / rigid['forward']:.1f}",
            f"{times['batch'] * 1e6:.3f} µs",
            f"{times['batch'] / rigid['batch']:.1f}",
        )
    return found
