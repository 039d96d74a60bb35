"""What both bridges are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import kinetree as kt
from tests.tolerance import Array
from tests.trees import mixed, random_mechanism

FUNCTIONS = ("inverse_dynamics", "forward_dynamics")


@cache
def robot(name: str = "floating") -> kt.Model:
    """A small one with a floating base, or one with every kind of joint."""
    if name == "floating":
        return random_mechanism("small", ["floating", "spherical", "planar", "revolute"], 3).kinetree()
    return random_mechanism("every kind", mixed(10, 1), 1).kinetree()


def singular() -> kt.Model:
    """A pendulum whose second body has no mass."""
    builder = kt.Builder()
    builder.add_body("a", mass=1.0, com=(0.0, 0.0, -1.0), inertia=np.eye(3))
    return builder.add_body("b", parent="a").build()


def pulley() -> kt.Model:
    """Two links with coupled joints, a node that is not a rigid body."""
    builder = kt.Builder()
    builder.add_body("a", mass=1.0, com=(0.0, 0.0, -1.0), inertia=np.eye(3))
    builder.add_body("b", parent="a", mass=1.0, com=(0.0, 0.0, -1.0), inertia=np.eye(3))
    return builder.couple("b", to="a", ratio=2.0).build()


@dataclass(frozen=True)
class Sample:
    """Arguments of the dynamics. Batch axes are (2,), (), (3, 1) and (3, 2): they broadcast."""

    q: Array
    v: Array
    x: Array
    f_ext: dict[str, Array]


def sample(model: kt.Model) -> Sample:
    """A random one, with wrenches on two frames; quaternions are not of unit length."""
    rng = np.random.default_rng(0)
    v, x = rng.uniform(-1.0, 1.0, model.nv), rng.uniform(-1.0, 1.0, (3, 1, model.nv))
    wrenches = {"tip0": rng.uniform(-1.0, 1.0, 6), model.bodies[-1].name: rng.uniform(-1.0, 1.0, (3, 2, 6))}
    q = model.random_configuration(rng, (2,))
    for joint in model.joints:
        if joint.kind in ("floating", "spherical"):
            q[..., joint.q_start + joint.nq - 4 : joint.q_start + joint.nq] *= 1.3
    return Sample(q, v, x, wrenches)
