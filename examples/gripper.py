"""A gripper lifts a rod: contacts that are discovered hold it with hardly more force than needed, and do not creep.

Two flat fingers close on a round rod and lift it; each contact is a black dot with its force. Try `SHARE = 0.99`: the
rod slips by 5 mm while it is accelerated, and is held again.

Run it with `python examples/gripper.py`, `python examples/gripper.py gripper.html` for a film, which needs the extra
`viewer`, or `python examples/gripper.py gripper.png` for a picture, which needs Chromium, too.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation

STEP, FRICTION, MASS = 2e-3, 0.5, 0.1
SHARE = 1.01  # of the force that it takes to hold the rod while it is lifted
LIFT, SECONDS = 0.1, 1.0  # [m], [s]


def gripper() -> kt.Model:
    """Two fingers on a slide, and a rod between them that stands on the floor."""
    builder = kt.Builder("gripper")
    at = np.eye(3), (0.0, 0.0, 0.24)
    builder.add_body("palm", joint="prismatic", axis=(0, 0, 1), placement=at, mass=0.5, inertia=1e-3 * np.eye(3))
    for name, x in (("left", -0.052), ("right", 0.052)):
        finger = {"mass": 0.2, "inertia": 1e-4 * np.eye(3), "placement": (np.eye(3), (x, 0.0, -0.15))}
        builder.add_body(name, parent="palm", joint="prismatic", axis=(1, 0, 0), **finger)
    builder.add_body("rod", joint="floating", mass=MASS, inertia=np.diag([2e-4, 2e-4, 2e-5]))
    return builder.build().with_shapes([
        *(geo.Box(name, (0.04, 0.06, 0.06), friction=FRICTION) for name in ("left", "right")),
        geo.Capsule("rod", (0, 0, -0.06), (0, 0, 0.06), radius=0.03, friction=FRICTION),
        geo.Plane("floor", body="world", friction=FRICTION),
    ])  # fmt: skip


def main(film: str | None = None) -> float:
    """Close, lift and hold; returns how far the rod slips between the fingers while it is held [m]."""
    robot = gripper()
    world = simulation.Simulator(robot, contacts="discover", dt=STEP)
    q = np.concatenate([np.zeros(3), [0.0, 0.0, 0.09, 1.0, 0.0, 0.0, 0.0]])
    v = np.zeros(robot.nv)

    # the palm follows a smooth path; the fingers press with a constant force
    fastest = LIFT * np.pi**2 / (2.0 * SECONDS**2)
    press = SHARE * MASS * (9.81 + fastest) / (2.0 * FRICTION)
    held = 0.5 + 0.4 + MASS
    time, heights, slips, states, info = 0.0, [], [], [], None
    while time < 0.2 + SECONDS + 1.0:
        s = np.clip((time - 0.2) / SECONDS, 0.0, 1.0)
        want = 0.5 * LIFT * (1.0 - np.cos(np.pi * s))
        rate = 0.5 * LIFT * np.pi / SECONDS * np.sin(np.pi * s)
        push = held * (9.81 + 400.0 * (want - q[0]) + 40.0 * (rate - v[0])) if time > 0.2 else 0.9 * 9.81
        tau = np.concatenate([[push, press, -press], np.zeros(6)])
        states.append((q, v, tau))
        q, v, info = world.step(q, v, tau)
        time += STEP
        heights.append(q[5])
        slips.append(q[5] - q[0])
    creep = abs(slips[-1] - slips[-501]) / (500 * STEP)
    print(f"The fingers press with {press:.3f} N, {SHARE} times the force that it takes to lift {MASS} kg.")
    print(f"The rod is lifted by {1e3 * (heights[-1] - 0.09):.3f} mm, and creeps by {1e6 * creep:.1e} µm/s.")
    if film:
        shown = {"shapes": True, "size": (900, 600), "force_scale": 0.05}
        qs, vs, taus = (np.array(each[::20]) for each in zip(*states, strict=True))
        if film.endswith((".html", ".mp4")):
            contacts = world.step(qs, vs, taus)[2].contacts
            kt.viewer.film(film, robot, qs, 20 * STEP * np.arange(len(qs)), contacts=contacts, **shown)
        else:
            kt.viewer.picture(film, robot, q, contacts=info.contacts, **shown)
    return creep


if __name__ == "__main__":
    main(*sys.argv[1:2])
