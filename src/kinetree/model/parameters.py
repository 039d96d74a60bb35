"""A robot's masses, lengths and axes as arguments of its functions, with derivatives: `robot.parameters(…)`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.assembly.parametric import ParametricAssembly
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.model.physical import possible_inertia
from kinetree.model.rollouts import ParametricRollout
from kinetree.model.singularity import require_invertible
from kinetree.runtime import arguments
from kinetree.runtime.parametric import ParametricFunction, Selection
from kinetree.spatial.rotation import SYMMETRIC3, exp_matrix
from kinetree.spatial.transform import pose
from kinetree.spatial.value import Array
from kinetree.tasks.sensitivity import Sensitivity

#: What bodies, joints or frames are chosen: all that have such a parameter, one, or several.
Names = bool | str | Sequence[str]
_INERTIAL = ("mass", "com", "inertia")
#: In the order of `robot.parameters` and of vectors of parameters.
KINDS_OF_PARAMETERS = (*_INERTIAL, "position", "rotation", "axis", "armature", "pitch", "constants", "gravity")
_COMPONENTS = {
    "com": "xyz",
    "inertia": ("xx", "xy", "xz", "yy", "yz", "zz"),
    "position": "xyz",
    "rotation": "xyz",
    "axis": "xyz",
    "gravity": "xyz",
}


#: Whether a joint has a parameter.
_HAS: dict[str, Callable[[Joint], Any]] = {
    "axis": lambda joint: joint.node is None and joint.type.axes,
    "armature": lambda joint: joint.type.nv,
    "pitch": lambda joint: joint.node is None and joint.type.own,
    "constants": lambda joint: joint.node is not None and len(joint.own),
}


class Parameters:
    """Some parameters of a robot, and its functions of them. Created by `robot.parameters(…)`.

    Functions take a vector of parameters `p`, (…, n), first, then the arguments of the robot's function of that name;
    leading axes broadcast. Each has `jvp`, `vjp` and `derivative`. Immutable and thread-safe.

    Attributes:
        robot: The model.
        names: What each number of `p` is, such as "mass of forearm" or "position of hand, z".
        values: Those of the robot, (n,).
    """

    def __init__(self, robot: Any, **chosen: Any) -> None:
        self.robot = robot
        self._chosen = {what: names for what, names in chosen.items() if names}
        selected = [(what, name) for what, names in self._chosen.items() for name in self._resolved(what, names)]
        if len(set(selected)) < len(selected):
            what, name = next(one for one in selected if selected.count(one) > 1)
            raise InputError(f"parameters: {what} of {name!r} is named twice")
        joints = {joint.child: joint for joint in robot._every_joint}
        own = [one for one in selected if one[0] != "gravity"]
        made = ParametricAssembly(robot.bodies, joints, robot.extra_frames, robot._clustering, own)
        mechanism, sites = made.assembled(robot.gravity)
        self._mechanism, self._sites = mechanism.computing_in(robot._scalar), sites
        starts, numbers, names, self._parts = mechanism.constant_starts, list[int](), list[str](), {}
        for what, name in selected:
            first = len(numbers)
            if what == "gravity":
                numbers += [starts[-1] + i for i in range(3)]
            else:
                for node, part in made.places[what, name]:
                    numbers += range(starts[node] + part.start, starts[node] + part.stop)
            self._parts[what, name] = slice(first, len(numbers))
            names += _labels(what, name, len(numbers) - first)
        self._selection = Selection(self._mechanism, np.array(numbers, dtype=int))
        self.names = tuple(names)
        self.values = self._selection.nominal[numbers].copy()
        self.values.setflags(write=False)
        self._functions: dict[str, ParametricFunction] = {}

    def __repr__(self) -> str:
        return f"<{len(self.names)} parameters of {self.robot.name}>"

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.robot, self._chosen)

    def _resolved(self, what: str, names: Any) -> list[str]:
        """The bodies and frames whose parameters are chosen; joints may be named instead of their bodies."""
        if what == "gravity":
            return ["world"]
        every = self._owners(what)
        if names is True:
            owners = dict.fromkeys(every.values())
            return [body.name for body in self.robot.bodies if body.name in owners]
        found = []
        for name in arguments.frame_names("parameters", names):
            if name not in every:
                raise UnknownNameError(f"{what} of a body, joint or frame", name, tuple(dict.fromkeys(every)))
            found.append(every[name])
        return found

    def _owners(self, what: str) -> dict[str, str]:
        """Names of bodies, joints and frames that have a parameter, and the body or frame that it belongs to."""
        robot, joints = self.robot, {joint.child: joint for joint in self.robot._every_joint}
        if what in _INERTIAL:
            return {body.name: body.name for body in robot.bodies if joints[body.name].node is None}
        if what in ("position", "rotation"):
            outlets = {body.name for body in robot.bodies if _on_outlet(joints, body)}
            own = {joint.child: joint.child for joint in joints.values() if joint.child not in outlets}
            own |= {joint.name: joint.child for joint in joints.values() if joint.child not in outlets}
            return {frame.name: frame.name for frame in robot.extra_frames} | own
        has = _HAS[what]
        own = {joint.child: joint.child for joint in joints.values() if has(joint)}
        return own | {joint.name: joint.child for joint in joints.values() if has(joint)}

    # -- values -------------------------------------------------------------------------------------------------------

    def part(self, what: str, name: str) -> slice:
        """Where the numbers of one parameter are in `p`: `p[..., parameters.part("position", "hand")]`."""
        key = what, "world" if what == "gravity" else self._owners(what).get(name, name)
        if key not in self._parts:
            raise UnknownNameError("parameter", f"{what} of {name}", tuple(f"{w} of {n}" for w, n in self._parts))
        return self._parts[key]

    def model(self, p: Any) -> Any:
        """The robot with these parameters, (n,): a `Model` as any other, checked like one.

        Raises:
            ModelError: If a mass or an inertia is not physical.
        """
        p = arguments.doubles("parameters", "p", p, (len(self.names),))
        if p.ndim != 1:
            raise InputError(f"parameters.model takes one vector, ({len(self.names)},); got {p.shape}")
        robot, own = self.robot, {key: p[part] for key, part in self._parts.items()}
        bodies = [_with_inertia(body, own) for body in robot.bodies]
        joints = [_with_joint(joint, own) for joint in robot._every_joint]
        frames = [replace(f, placement=_placement(f.name, f.placement, own)) for f in robot.extra_frames]
        gravity = own.get(("gravity", "world"), robot.gravity)
        return robot._edited(bodies=bodies, joints=joints, frames=frames, gravity=gravity)

    # -- functions ----------------------------------------------------------------------------------------------------

    @cached_property
    def _twin(self) -> Any:
        """The robot on nodes whose constants are parameters."""
        return self.robot._twin(mechanism=self._mechanism, sites=self._sites)

    def function(self, name: str) -> ParametricFunction:
        """A function of the robot by its name, as one of the parameters, too; also `parameters.<name>`."""
        known = self._functions.get(name)
        if known is None:
            found = getattr(self._twin, name)
            known = self._functions.setdefault(name, self._of(found, found._guard is not None))
        return known

    def tasks(self, frames: Any, *, reference: str = "local", contacts: Any = ()) -> ParametricTasks:
        """Operational space of some tasks as functions of parameters and q; arguments as of `robot.tasks`."""
        return ParametricTasks(self, self._twin.tasks(frames, reference=reference, contacts=contacts))

    @cached_property
    def rollout(self) -> ParametricRollout:
        """`rollout(p, q, v, tau, dt)`: a motion as `Trajectory`, with `jvp`, and `vjp` in one backward sweep."""
        closed = any(kind.loop_rows for kind in self._mechanism.kinds)
        return ParametricRollout(self.robot, self.forward_dynamics, self.function("integrate") if closed else None)

    def _of(self, function: Any, inverts: bool) -> ParametricFunction:
        """A function of the robot on these nodes as one of the parameters, too."""

        def require() -> None:
            if inverts:
                require_invertible(self.robot.mechanism)

        return ParametricFunction(function, self._selection, require)

    @property
    def inverse_dynamics(self) -> ParametricFunction:
        """Joint forces τ(p, q, v, a), (…, nv)."""
        return self.function("inverse_dynamics")

    @property
    def forward_dynamics(self) -> ParametricFunction:
        """Joint accelerations a(p, q, v, τ), (…, nv)."""
        return self.function("forward_dynamics")

    @property
    def bias_forces(self) -> ParametricFunction:
        """Coriolis, centrifugal and gravity forces at (p, q, v), (…, nv)."""
        return self.function("bias_forces")

    @property
    def gravity_forces(self) -> ParametricFunction:
        """Gravity forces at (p, q), (…, nv)."""
        return self.function("gravity_forces")

    @property
    def energy(self) -> ParametricFunction:
        """Kinetic and potential energy at (p, q, v) [J]."""
        return self.function("energy")

    @property
    def pose(self) -> ParametricFunction:
        """Poses of frames at (p, q, frames), (…, 4, 4)."""
        return self.function("pose")

    @property
    def center_of_mass(self) -> ParametricFunction:
        """Centre of mass at (p, q), (…, 3) [m]."""
        return self.function("center_of_mass")

    @property
    def mass_matrix(self) -> ParametricFunction:
        """Joint-space inertia M(p, q), (…, nv, nv)."""
        return self.function("mass_matrix")


class ParametricTasks:
    """Λ⁻¹ and Λ of some tasks as functions of parameters and q. Created by `parameters.tasks(…)`.

    Both take p, (…, n), and q, (…, nq), and have `jvp(p, q, dp, dq)` and `vjp(p, q, weights)`, at O(n) per row.
    """

    def __init__(self, parameters: Parameters, tasks: Any) -> None:
        of, self._tasks = tasks.core.recursions, tasks
        velocity, momentum = parameters._of(of.velocity, False), parameters._of(of.momentum, False)
        response, inverse = parameters._of(of.response, True), parameters._of(of.inverse_inertia, True)
        self._sensitivity = Sensitivity(repr(tasks), velocity, momentum, response, inverse, tasks.held)

    def __repr__(self) -> str:
        return repr(self._tasks)

    @cached_property
    def inverse_inertia(self) -> TaskDerivatives:
        """`inverse_inertia(p, q)`: Λ⁻¹, (…, r, r)."""
        return TaskDerivatives(self._sensitivity.value, self._sensitivity.jvp, self._sensitivity.vjp)

    @cached_property
    def inertia(self) -> TaskDerivatives:
        """`inertia(p, q)`: Λ, (…, r, r); raises SingularTaskError if the tasks are singular at a sample."""
        return TaskDerivatives(self._sensitivity.inertia, *self._sensitivity.of_inertia())


class TaskDerivatives(NamedTuple):
    """A function of parameters and q, and its derivatives."""

    value: Callable[..., Array]
    jvp: Callable[..., Array]
    vjp: Callable[..., tuple[Array, Array]]

    def __call__(self, p: Any, q: Any) -> Array:
        """The value, (…, r, r)."""
        return self.value(p, q)


def _restored(robot: Any, chosen: dict[str, Any]) -> Parameters:
    return Parameters(robot, **chosen)


def _on_outlet(joints: dict[str, Joint], body: Body) -> bool:
    return body.parent in joints and joints[body.parent].node is not None


def _labels(what: str, name: str, count: int) -> list[str]:
    owner = what if what == "gravity" else f"{what} of {name}"
    if count == 1:
        return [owner]
    parts = _COMPONENTS.get(what, ())
    return [f"{owner}, {part}" for part in (parts if len(parts) == count else range(count))]


def _with_inertia(body: Body, own: dict[tuple[str, str], Array]) -> Body:
    mass, com, inertia = (own.get((what, body.name)) for what in _INERTIAL)
    if mass is None and com is None and inertia is None:
        return body
    m, c, moments = possible_inertia(
        f"body {body.name!r}",
        body.mass if mass is None else float(mass[0]),
        body.com if com is None else com,
        body.inertia if inertia is None else inertia[SYMMETRIC3],
    )
    return replace(body, mass=m, com=c, inertia=moments)


def _placement(name: str, nominal: Array, own: dict[tuple[str, str], Array]) -> Array:
    position = own.get(("position", name), nominal[:3, 3])
    turn = own.get(("rotation", name))
    return pose(nominal[:3, :3] if turn is None else nominal[:3, :3] @ exp_matrix(turn), position)


def _with_joint(joint: Joint, own: dict[tuple[str, str], Array]) -> Joint:
    changes: dict[str, Any] = {}
    if any((what, joint.child) in own for what in ("position", "rotation")):
        changes["placement"] = _placement(joint.child, joint.placement, own)
    if ("axis", joint.child) in own:
        axes = own["axis", joint.child].reshape(-1, 3)
        changes["axes"] = axes / np.sqrt((axes * axes).sum(-1, keepdims=True))
    if ("armature", joint.child) in own:
        changes["armature"] = own["armature", joint.child]
    if ("pitch", joint.child) in own:
        changes["pitch"] = float(own["pitch", joint.child][0])
    if ("constants", joint.child) in own:
        node = copy.copy(joint.node)
        node.__dict__["constants"] = tuple(own["constants", joint.child].tolist())
        changes["node"] = node
    return replace(joint, **changes) if changes else joint
