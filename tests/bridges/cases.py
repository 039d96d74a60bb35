"""What both bridges are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

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
    return builder.couple("b_joint", to="a_joint", ratio=2.0).build()


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


def two_frames(model: kt.Model) -> list[str]:
    """Frames of a robot."""
    return [frame for frame in ("tip0", "tip1") if frame in model.frames] or list(model.frames[-2:])


#: Name, what it takes besides the robot, and its arguments; of `robot.tasks` where the name has a dot.
FUNCTIONS_OF_STATES: dict[str, tuple[str, Callable[[kt.Model], tuple[Any, ...]], str]] = {
    "mass_matrix": ("mass_matrix", lambda _: (), "q"),
    "mass_matrix_solve": ("mass_matrix_solve", lambda _: (), "qx"),
    "mass_matrix_log_determinant": ("mass_matrix_log_determinant", lambda _: (), "q"),
    "bias_forces": ("bias_forces", lambda _: (), "qv"),
    "gravity_forces": ("gravity_forces", lambda _: (), "q"),
    "energy": ("energy", lambda _: (), "qv"),
    "pose": ("pose", lambda model: (two_frames(model)[0],), "q"),
    "poses": ("pose", lambda model: (two_frames(model),), "q"),
    "velocity": ("velocity", lambda model: (two_frames(model)[0], "local_world_aligned"), "qv"),
    "velocities": ("velocity", lambda model: (two_frames(model),), "qv"),
    "acceleration": ("acceleration", lambda model: (two_frames(model)[0], "world"), "qva"),
    "jacobian": ("jacobian", lambda model: (two_frames(model)[0], "world"), "q"),
    "jacobians": ("jacobian", lambda model: (two_frames(model),), "q"),
    "center_of_mass": ("center_of_mass", lambda _: (), "q"),
    "centroidal_momentum_matrix": ("centroidal_momentum_matrix", lambda _: (), "q"),
    "inverse_inertia": ("tasks.inverse_inertia", lambda model: (two_frames(model),), "q"),
    "task_jacobian": ("tasks.jacobian", lambda model: (mixed_tasks(model),), "q"),
    "task_bias": ("tasks.jacobian_dot_v", lambda model: (mixed_tasks(model),), "qv"),
    "task_inertia": ("tasks.inverse_inertia", lambda model: (mixed_tasks(model),), "q"),
}


def mixed_tasks(model: kt.Model) -> list[Any]:
    """Rows of a frame, of one frame relative to another, and of the centre of mass."""
    one, other = two_frames(model)[0], model.bodies[0].name
    return [kt.Task(one, "position"), kt.RelativeTask(one, other, "orientation"), kt.CenterOfMassTask()]


def of_state(
    case: str, module: Any, model: kt.Model
) -> tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]:
    """The bridge's function, the model's, and arguments in a batch (2,)."""
    path, choice, inputs = FUNCTIONS_OF_STATES[case]
    owner, _, name = path.rpartition(".")
    chosen = choice(model)
    bridge = getattr(module.tasks(model, *chosen), name) if owner else getattr(module, name)(model, *chosen)
    own = getattr(model.tasks(*chosen), name) if owner else partial_last(getattr(model, name), chosen)
    rng = np.random.default_rng(1)
    drawn = [model.random_configuration(rng, (2,)), *rng.uniform(-1.0, 1.0, (3, 2, model.nv))]
    return bridge, own, tuple(drawn[: len(inputs)])


def partial_last(function: Any, chosen: tuple[Any, ...]) -> Callable[..., Any]:
    """The function with what it takes after its arrays."""
    return lambda *arrays: function(*arrays, *chosen)


def population(model: kt.Model) -> tuple[Any, list[kt.Model]]:
    """Three robots with other masses, gravity and armature, and each of them alone."""
    scales = np.random.default_rng(5).uniform(0.5, 2.0, (3, len(model.bodies), 1))
    theta, gravity = model.inertial_parameters * scales, np.array([[0.0, 0.0, -9.0], [1.0, 0.0, -3.0], [0.0, 2.0, 1.0]])
    armature = np.random.default_rng(6).uniform(0.0, 1.0, (3, model.nv))
    alone = [
        model.with_inertial_parameters(t).with_gravity(g).with_armature(a)
        for t, g, a in zip(theta, gravity, armature, strict=True)
    ]
    return model.population(theta, gravity=gravity, armature=armature), alone
