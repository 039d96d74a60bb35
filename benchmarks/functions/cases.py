"""How each public function is called. A test compares these names with those of the classes: none may be missing.

A name may have a suffix after a comma or a dot, where there are several ways to call a function worth a row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks.functions.scene import STEP, Scene
from benchmarks.robots import Array
from kinetree import Model, control, geometry


@dataclass(frozen=True)
class Case:
    """One way to call a function.

    Attributes:
        call: Gives the callable, for a robot.
        arrays: Letters of the arrays that it takes: see `Scene.states`.
        rest: Gives the arguments after the arrays.
        batch: Whether the arrays may have leading axes.
        out: Whether it takes `out=`.
    """

    call: Callable[[Scene], Callable[..., Any]]
    arrays: str = ""
    rest: Callable[[Scene], tuple[Any, ...]] = lambda _: ()
    batch: bool = True
    out: bool = True


def _method(path: str, arrays: str, *rest: Any, out: bool = True) -> Case:
    """A function of the robot; `Scene`'s attributes stand for arguments that depend on the robot."""
    return Case(
        lambda scene: attrgetter(path)(scene.model),
        arrays,
        lambda scene: tuple(each.func(scene) if isinstance(each, cached_property) else each for each in rest),
        out=out,
    )


def _linearize(given: str) -> Case:
    def call(scene: Scene) -> Callable[..., Any]:
        function = scene.model.linearize
        if given == "a":
            return lambda q, v, a, out=None: function(q, v, a=a, out=out)
        return lambda q, v, tau, out=None: function(q, v, tau=tau, out=out)

    return Case(call, "qva")


def _on_model(call: Callable[[Any], Any]) -> Case:
    """Something that is no function of a state."""
    return Case(lambda scene: partial(call, scene.model), batch=False, out=False)


def _export(model: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model.export_c(["inverse_dynamics"], directory)


def _constrained(constraint: Callable[[Scene], Any]) -> Case:
    def call(scene: Scene) -> Callable[..., Any]:
        held = [constraint(scene)]
        return lambda q, v, tau: scene.model.constrained_dynamics(q, v, tau, held)

    return Case(call, "qva", out=False)


def _with_balls(model: Any) -> Any:
    """A robot with a ball around the origin of each body."""
    return model.with_shapes([geometry.Sphere(body.name, (0.0, 0.0, 0.0), 0.01) for body in model.bodies])


def _near(name: str) -> Case:
    def call(scene: Scene) -> Callable[..., Any]:
        robot = _with_balls(scene.model)
        pairs = robot.collision_pairs(keep_colliding=True, samples=10)
        return lambda q: getattr(robot, name)(q, pairs)

    return Case(call, "q", out=False)


def _gear(scene: Scene) -> kt.LinearCoupling:
    """A coupling of the last two joints with one coordinate."""
    names = [joint.name for joint in scene.model.joints if joint.nq == 1]
    return kt.LinearCoupling(tuple(names[-2:]), np.array([1.0, -0.5]))


def _inverse_kinematics(scene: Scene) -> Callable[..., Any]:
    return lambda t: control.inverse_kinematics(scene.model, {scene.frame: t[..., 0, :, :]})


#: Functions of `Model` of configurations, velocities and accelerations, or joint forces.
STATES: Mapping[str, Case] = {
    "inverse_dynamics": _method("inverse_dynamics", "qva"),
    "inverse_dynamics, f_ext=": _method("inverse_dynamics", "qva", Scene.wrench),
    "inverse_dynamics.jvp": _method("inverse_dynamics.jvp", "qvawxa"),
    "inverse_dynamics.vjp": _method("inverse_dynamics.vjp", "qvaw"),
    "inverse_dynamics.hvp": _method("inverse_dynamics.hvp", "qvawxwx"),
    "inverse_dynamics_derivatives": _method("inverse_dynamics_derivatives", "qva"),
    "forward_dynamics": _method("forward_dynamics", "qva"),
    "forward_dynamics, f_ext=": _method("forward_dynamics", "qva", Scene.wrench),
    "forward_dynamics.jvp": _method("forward_dynamics.jvp", "qvawxa"),
    "forward_dynamics.vjp": _method("forward_dynamics.vjp", "qvaw"),
    "forward_dynamics.hvp": _method("forward_dynamics.hvp", "qvawxwx"),
    "forward_dynamics_derivatives": _method("forward_dynamics_derivatives", "qva"),
    "linearize, a=": _linearize("a"),
    "linearize, tau=": _linearize("tau"),
    "constrained_dynamics": _constrained(lambda scene: scene.frame),
    "constrained_dynamics, Distance": _constrained(lambda scene: kt.Distance(scene.frame, "world", 1.0)),
    "constrained_dynamics, LinearCoupling": _constrained(_gear),
    "mass_matrix": _method("mass_matrix", "q"),
    "mass_matrix_inverse": _method("mass_matrix_inverse", "q"),
    "mass_matrix_solve": _method("mass_matrix_solve", "qv"),
    "mass_matrix_determinant": _method("mass_matrix_determinant", "q"),
    "mass_matrix_log_determinant": _method("mass_matrix_log_determinant", "q"),
    "coriolis_matrix": _method("coriolis_matrix", "qv"),
    "bias_forces": _method("bias_forces", "qv"),
    "gravity_forces": _method("gravity_forces", "q"),
    "energy": _method("energy", "qv"),
    "regressor": _method("regressor", "qva"),
    "tracking_regressor": _method("tracking_regressor", "qvaw"),
    "reactions": _method("reactions", "qva"),
    "hybrid_dynamics": Case(
        lambda s: s.model.hybrid_dynamics, "qva", lambda s: ((s.model.joints[-1].name,),), out=True
    ),
    "mass_matrix_log_determinant_gradient": _method("mass_matrix_log_determinant_gradient", "q"),
    "innovations": _method("innovations", "qv"),
    "innovations_to_velocities": _method("innovations_to_velocities", "qv"),
    "innovation_forces": _method("innovation_forces", "qv"),
    "stacked_vectors": _method("stacked_vectors", "qva"),
    "center_of_mass": _method("center_of_mass", "q"),
    "center_of_mass_jacobian": _method("center_of_mass_jacobian", "q"),
    "centroidal_momentum_matrix": _method("centroidal_momentum_matrix", "q"),
    "pose": _method("pose", "q", Scene.frame),
    "pose, all frames": _method("pose", "q"),
    "velocity": _method("velocity", "qv", Scene.frame),
    "velocity, all frames": _method("velocity", "qv"),
    "acceleration": _method("acceleration", "qva", Scene.frame),
    "acceleration, all frames": _method("acceleration", "qva"),
    "acceleration_derivatives": _method("acceleration_derivatives", "qva", Scene.frame),
    "distances": _near("distances"),
    "collides": _near("collides"),
    "jacobian": _method("jacobian", "q", Scene.frame),
    'jacobian, "world"': _method("jacobian", "q", Scene.frame, "world"),
    "jacobian_rate": _method("jacobian_rate", "qv", Scene.frame),
    "jacobian_dot_v": _method("jacobian_dot_v", "qv", Scene.frame),
    "velocity_derivative": _method("velocity_derivative", "qv", Scene.frame),
    "integrate": _method("integrate", "qv"),
    "difference": _method("difference", "qp"),
    "dintegrate": _method("dintegrate", "qv"),
    "ddifference": _method("ddifference", "qp"),
    "tangent_map": _method("tangent_map", "q"),
    "bracket": _method("bracket", "v"),
    "normalize": _method("normalize", "q"),
    "step": _method("step", "qva", STEP),
    "step, midpoint": _method("step", "qva", STEP, "midpoint"),
    "step, rk4": _method("step", "qva", STEP, "rk4"),
    "discretize": _method("discretize", "qva", STEP),
    "discretize, midpoint": _method("discretize", "qva", STEP, "midpoint"),
    "discretize, rk4": _method("discretize", "qva", STEP, "rk4"),
    "coupling": _method("coupling", "q"),
    "coupling_rate": _method("coupling_rate", "qv"),
    "joint_rates": _method("joint_rates", "qv"),
    "joint_accelerations": _method("joint_accelerations", "qva"),
    "joint_forces": _method("joint_forces", "qf"),
    "loop_constraints": _method("loop_constraints", "q"),
    "loop_forces": _method("loop_forces", "qvaf", out=False),
    "loops": _method("loops", "q", out=False),
    "close": _method("close", "q", out=False),
    "to_tree": _method("to_tree", "q", out=False),
    "q_to_dict": _method("q_to_dict", "q", out=False),
    "v_to_dict": _method("v_to_dict", "v", out=False),
}

#: Functions of `Tasks`.
TASKS: Mapping[str, Case] = {
    **{
        name: Case(lambda scene, name=name: getattr(scene.tasks, name), arrays)  # type: ignore[misc]
        for name, arrays in {
            "inverse_inertia": "q",
            "inertia": "q",
            "dynamics": "q",
            "jacobian": "q",
            "jacobian_dot_v": "qv",
            "bias": "qv",
            "rank": "q",
            "condition": "q",
            "inverse_inertia_derivative": "qv",
        }.items()
    },
    "inertia, four frames": Case(lambda scene: scene.model.tasks(scene.model.frames[-4:]).inertia, "q"),
    "at, all of it": Case(lambda scene: partial(_all_of, scene.tasks), "qv", out=False),
    "engine": Case(lambda scene: partial(scene.tasks.engine, "native"), batch=False, out=False),
}


def _all_of(tasks: Any, q: Any, v: Any) -> Any:
    state = tasks.at(q, v)
    return state.inertia, state.dynamically_consistent_inverse, state.nullspace, state.bias, state.rank


#: What else is called with states: spatial operators, controllers, simulators.
OTHERS: Mapping[str, Case] = {
    "operators(q).mass @ x": Case(lambda s: lambda q, x: s.model.operators(q).mass @ x, "qx", batch=False, out=False),
    "operators.mass @ x": Case(lambda s: lambda x: s.operators.mass @ x, "x", batch=False, out=False),
    "operators.mass_inverse @ x": Case(lambda s: lambda x: s.operators.mass_inverse @ x, "x", batch=False, out=False),
    "constraints.forward_dynamics": Case(lambda s: s.constraints.forward_dynamics, "qva", out=False),
    "constraints.jacobian": Case(lambda s: s.constraints.jacobian, "q", out=False),
    "constraints.error": Case(lambda s: s.constraints.error, "q", out=False),
    "constraints.project": Case(lambda s: s.constraints.project, "nv", out=False),
    "OperationalSpace.torques": Case(lambda s: s.controller.torques, "qvt"),
    "OperationalSpace": Case(
        lambda s: lambda q, v, t: s.controller(q, v, {s.frame: t[..., 0, :, :]}), "qvt", out=False
    ),
    "Simulator.step": Case(lambda s: s.simulator.step, "qva", out=False),
    "Simulator.rollout, 100 steps": Case(lambda s: lambda q, v: s.simulator.rollout(q, v, steps=100), "qv", out=False),
    "DifferentialIK": Case(lambda s: lambda q, t: s.velocities(q, {s.frame: t[..., 0, :, :]}), "qt", out=False),
    "inverse_kinematics": Case(_inverse_kinematics, "t", out=False),
    "pose_error": Case(lambda _: lambda t: control.pose_error(t[..., 0, :, :], t[..., 0, :, :]), "t", out=False),
    "exp": Case(lambda _: lambda v: control.exp(v[..., :6]), "v", out=False),
    "log": Case(lambda _: lambda t: control.log(t[..., 0, :, :]), "t", out=False),
}


def _hinge(model: Model) -> str:
    """The first joint with one degree of freedom; later ones may be parts of loops."""
    return next(joint.name for joint in model.joints if joint.nv == 1)


def _random_configuration(scene: Scene) -> Callable[..., Any]:
    return partial(scene.model.random_configuration, np.random.default_rng(0))


def _q_from_dict(scene: Scene) -> Callable[..., Any]:
    """From numbers of all joints."""
    model = scene.model
    return partial(
        model.q_from_dict, {name: np.asarray(q).tolist() for name, q in model.q_to_dict(model.neutral()).items()}
    )


def _v_from_dict(scene: Scene) -> Callable[..., Any]:
    model = scene.model
    return partial(
        model.v_from_dict, {name: np.asarray(v).tolist() for name, v in model.v_to_dict(np.ones(model.nv)).items()}
    )


def _for_all_joints(model: Model) -> Array:
    """A number for each joint rate, also of joints that follow others."""
    return np.ones(sum(joint.type.nv for joint in model.joints))


#: Functions of `Model` that read or make models; what they take is no batch of states.
MODELS: Mapping[str, Case] = {
    "neutral": _on_model(lambda model: model.neutral()),
    "random_configuration": Case(_random_configuration, batch=False, out=False),
    "random_configuration, a seed": _on_model(lambda model: model.random_configuration(0)),
    "random_configuration, 1024": _on_model(lambda model: model.random_configuration(0, (1024,))),
    "inertial_parameters": _on_model(lambda model: model.inertial_parameters),
    "mass": _on_model(lambda model: model.mass),
    "q_from_dict": Case(_q_from_dict, batch=False, out=False),
    "v_from_dict": Case(_v_from_dict, batch=False, out=False),
    "joint_indices": _on_model(lambda model: model.joint_indices([_hinge(model)])),
    "joint": _on_model(lambda model: model.joint(model.joints[-1].name)),
    "body": _on_model(lambda model: model.body(model.bodies[-1].name)),
    "site": _on_model(lambda model: model.site(model.frames[-1])),
    "tasks": _on_model(lambda model: model.tasks([model.frames[-1]])),
    "operators": _on_model(lambda model: model.operators(model.neutral())),
    "constraints": _on_model(lambda model: model.constraints([model.frames[-1]], at=model.neutral())),
    "count": _on_model(lambda model: model.count("inverse_dynamics")),
    "astype": _on_model(lambda model: model.astype("float32")),
    "compile": _on_model(lambda model: model.compile(["inverse_dynamics"])),
    "export_c": _on_model(_export),
    "population": _on_model(lambda model: model.population(gravity=np.zeros((8, 3)))),
    "parameters": _on_model(lambda model: model.parameters(mass=True)),
    "attach": _on_model(lambda model: model.attach(model.frames[-1], model, prefix="second ")),
    "reduced": _on_model(lambda model: model.reduced({_hinge(model): 0.0})),
    "subtree": _on_model(lambda model: model.subtree(model.bodies[0].name)),
    "with_armature": _on_model(lambda model: model.with_armature(_for_all_joints(model))),
    "with_damping": _on_model(lambda model: model.with_damping(_for_all_joints(model))),
    "with_friction": _on_model(lambda model: model.with_friction(_for_all_joints(model))),
    "with_keyframe": _on_model(lambda model: model.with_keyframe("home", model.neutral())),
    "with_stiffness": _on_model(lambda model: model.with_stiffness(_for_all_joints(model))),
    "with_frame": _on_model(lambda model: model.with_frame("one more", model.frames[-1])),
    "with_gravity": _on_model(lambda model: model.with_gravity((0.0, 0.0, -1.62))),
    "with_independent": _on_model(lambda model: model.with_independent(*model.independent)),
    "with_inertia": _on_model(lambda model: model.with_inertia(model.bodies[-1].name, mass=1.0)),
    "with_inertial_parameters": _on_model(
        lambda model: model.with_inertial_parameters(model.inertial_parameters, strict=False)
    ),
    "with_limits": _on_model(lambda model: model.with_limits({})),
    "with_shapes": _on_model(_with_balls),
    "collision_pairs": _on_model(lambda model: _with_balls(model).collision_pairs(keep_colliding=True, samples=10)),
    "with_payload": _on_model(lambda model: model.with_payload(model.frames[-1], 1.0)),
}
