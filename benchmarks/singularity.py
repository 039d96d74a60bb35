"""Draws `docs/images/singularity.png`: Λ of an arm that passes through its stretched configuration.

python -m benchmarks.singularity
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

import kinetree as kt

mpl.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).parents[1] / "docs" / "images" / "singularity.png"
#: Wider than the default, so that the three can be told apart.
CUT = 1e-3


def arm() -> kt.Model:
    """Two links of half a metre in a plane."""
    builder = kt.Builder("arm", gravity=(0, 0, 0))
    for i, (parent, offset) in enumerate([("world", 0.0), ("link0", 0.5)]):
        placement = (np.eye(3), (offset, 0.0, 0.0))
        com, inertia = (0.25, 0.0, 0.0), np.diag([0.002, 0.02, 0.02])
        builder.add_body(
            f"link{i}", parent=parent, placement=placement, axis=(0, 0, 1), mass=1.0, com=com, inertia=inertia
        )
    builder.add_frame("tip", body="link1", placement=(np.eye(3), (0.5, 0.0, 0.0)))
    return builder.build()


def main() -> None:
    """Draw the picture."""
    robot = arm()
    angle = np.linspace(-0.25, 0.25, 2001)
    # The first joint turns back, so that the hand stays on the x axis.
    q = np.stack([-angle / 2, angle], axis=-1)
    task = [kt.Task("tip", (3, 4))]
    options = {"reference": "local_world_aligned"}
    along = {
        f"singular={policy!r}": robot.tasks(task, singular=policy, cut=CUT, **options).at(q).inertia[:, 0, 0]
        for policy in ("damped", "truncated")
    }
    space = robot.tasks(task, cut=1e-15, **options).at(q)
    rank = robot.tasks(task, cut=CUT, **options).at(q).rank

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, height_ratios=(3, 1))
    top.semilogy(angle, space.inertia[:, 0, 0], color="0.6", linewidth=1.5, label="exact inverse")
    for (name, values), style in zip(along.items(), ("-", "--")):
        top.semilogy(angle, np.maximum(values, 1e-2), style, linewidth=2, label=name)
    top.set_ylim(1e-1, 1e6)
    top.set_ylabel("mass felt along the arm [kg]")
    top.legend(frameon=False)
    top.grid(alpha=0.3)
    bottom.plot(angle, rank, color="k", linewidth=1.5)
    bottom.set_yticks([1, 2])
    bottom.set_ylim(0.7, 2.3)
    bottom.set_ylabel("rank")
    bottom.set_xlabel("elbow angle [rad]; 0: stretched")
    bottom.grid(alpha=0.3)
    top.set_title(f"Λ of the tip of a two-link arm through its stretched configuration, cut = {CUT:g}", fontsize=10)
    figure.tight_layout()
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=120)


if __name__ == "__main__":
    main()
