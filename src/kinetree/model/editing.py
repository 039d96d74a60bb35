"""Variants of a model: other gravity, masses, rotors or limits, more frames, locked joints, models attached to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.errors import InputError, ModelError, ModelWarning, UnknownNameError
from kinetree.model.assembly.stages import displaced
from kinetree.model.attachment import attachment, below
from kinetree.model.base import ModelBase
from kinetree.model.body import Body, Frame
from kinetree.model.coordinates import numbers
from kinetree.model.joint import Joint, Limits, Spring
from kinetree.model.joints import KINDS
from kinetree.model.loops.aggregation import Constraint
from kinetree.model.loops.coupling import Coupling, LinearCoupling, reduced_couplings
from kinetree.model.loops.loop import Loop
from kinetree.model.parameters import KINDS_OF_PARAMETERS, Names, Parameters
from kinetree.model.physical import fault, from_parameters, possible_inertia
from kinetree.model.population import Population
from kinetree.model.specs import WORLD_NAME, checked_placement
from kinetree.spatial.inertia import spread
from kinetree.spatial.reproducible import apply, product
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_LIMITS = Limits().expanded(KINDS["fixed"])


class Editing(ModelBase):
    """Methods of `Model` that return a variant of it."""

    def with_gravity(self, gravity: Any) -> Self:
        """This robot under a different gravity.

        Args:
            gravity: Acceleration of free fall in the world frame, (3,) [m/s²].
        """
        return self._edited(gravity=_vector("gravity", gravity, 3))

    def with_frame(self, name: str, frame: str = "world", placement: Any = None) -> Self:
        """This robot with one more named frame: a tool centre point, a sensor.

        Args:
            name: Unique among frames and bodies.
            frame: Frame or body that it is fixed to.
            placement: Its pose in that frame: a 4×4 array, a pair (R, p), a position p, (3,) [m], or None.

        Raises:
            ModelError: If the name is taken, or the placement is not a pose.
            UnknownNameError: If there is no such frame.
        """
        if not isinstance(name, str) or not name:
            raise ModelError(f"a frame needs a name that is not empty; got {name!r}")
        if name in self.frames:
            raise ModelError(f"frame {name!r}: a body or frame has that name already; choose another")
        body, at = _carrier(self, frame)
        new = Frame(name, body, product(at, checked_placement(placement, f"frame {name!r}")))
        return self._edited(frames=[*self.extra_frames, new])

    def with_inertia(self, body: str, mass: Any = None, com: Any = None, inertia: Any = None) -> Self:
        """This robot with another mass, centre of mass or inertia of one body. Values left at None are kept.

        Args:
            body: Name of the body.
            mass: [kg]. If given without `inertia`, the inertia is scaled in proportion, as for a change of density.
            com: Centre of mass in the link frame, (3,) [m].
            inertia: About the centre of mass, in link axes, (3, 3) [kg m²].

        Raises:
            ModelError: If the mass and inertia are not physical.
            UnknownNameError: If there is no such body.
        """
        old = self.body(body)
        if inertia is None:
            inertia = old.inertia
            if mass is not None and old.mass:
                inertia = inertia * (_vector("mass", [mass], 1)[0] / old.mass)
        given = old.mass if mass is None else mass, old.com if com is None else com, inertia
        return self._edited(bodies=[_solid(one, *given) if one is old else one for one in self.bodies])

    def with_inertial_parameters(self, parameters: Any, *, strict: bool = True) -> Self:
        """This robot with identified inertial parameters, which become its `inertial_parameters`.

        Args:
            parameters: For each body, as in `inertial_parameters` and `regressor`: mass [kg], first moment (x, y, z)
                [kg m] and rotational inertia about the link's origin (xx, xy, xz, yy, yz, zz) [kg m²]; (bodies, 10).
            strict: Whether unphysical parameters, which least squares often yields, are an error; otherwise they are
                kept, with a `ModelWarning`.

        Raises:
            InputError: If they have the wrong shape.
            ModelError: If a body without mass has a first moment, or parameters are unphysical; names the body.
        """
        rows = np.asarray(parameters, dtype=float) if _numeric(parameters) else np.zeros(0)
        if rows.shape != (len(self.bodies), 10):
            raise InputError(f"parameters have shape {rows.shape}; pass ten for each body, ({len(self.bodies)}, 10)")
        return self._edited(bodies=[_identified(body, row, strict) for body, row in zip(self.bodies, rows)])

    def with_armature(self, armature: Any) -> Self:
        """This robot with other reflected rotor inertias.

        Args:
            armature: By joint name (omitted joints keep theirs), or one number for all, or one for each degree of
                freedom of `joints`, coupled ones included [kg m² or kg].
        """
        return self._with_joints("armature", armature)

    def with_damping(self, damping: Any) -> Self:
        """This robot with other viscous damping of joints, which is stored but not part of the dynamics.

        Args:
            damping: As for `with_armature` [N m s/rad or N s/m].
        """
        return self._with_joints("damping", damping)

    def with_friction(self, friction: Any) -> Self:
        """This robot with other dry friction of joints, which is stored but not part of the dynamics.

        Args:
            friction: As for `with_armature` [N m or N].
        """
        return self._with_joints("friction", friction)

    def with_stiffness(self, stiffness: Any) -> Self:
        """This robot with springs at its joints, which are stored but not part of the dynamics.

        They are at rest where the joints' springs are now, else in the neutral configuration; `Builder.add_body` takes
        another one.

        Args:
            stiffness: As for `with_armature` [N m/rad or N/m].
        """
        return self._with_joints("stiffness", stiffness)

    def with_keyframe(self, name: str, q: Any) -> Self:
        """This robot with one more named configuration in `keyframes`, or another one of that name.

        Args:
            name: Its name, such as "home".
            q: Configuration, (nq,).
        """
        if not isinstance(name, str):
            raise InputError(f"the name of a keyframe is a string; got {name!r}")
        values = _vector(f"keyframe {name!r}", q, self.nq)
        key = tuple((joint.name, tuple(values[joint.q_slice].tolist())) for joint in self.joints if joint.nq)
        return self._edited(keyframes=tuple({**dict(self.named_positions), name: key}.items()))

    def with_limits(self, limits: Mapping[str, Limits | tuple[Any, Any]]) -> Self:
        """This robot with other limits of some joints.

        Args:
            limits: By joint name, `Limits`, or a pair of lower and upper position limits, which leaves those of
                velocity and effort; omitted joints keep theirs.
        """
        if not isinstance(limits, Mapping):
            raise InputError(f"with_limits() needs a mapping of joint names to Limits; got {type(limits).__name__}")
        _require_joints(self, limits)
        full: dict[str, Limits] = {}
        for name, given in limits.items():
            if not isinstance(given, Limits):
                if not isinstance(given, (tuple, list)) or len(given) != 2:
                    raise InputError(
                        f"the limits of joint {name!r} are kinetree.Limits, or a pair of lower and upper ones; got "
                        f"{type(given).__name__}"
                    )
                own = self.joint(name).limits
                given = Limits(*given, own.velocity, own.effort)
            full[name] = given
        return self._edited(joints=[_limited(joint, full) for joint in self._every_joint])

    def _with_joints(self, what: str, values: Any) -> Self:
        """Replace a field that has one non-negative number per degree of freedom."""
        if isinstance(values, Mapping):
            _require_joints(self, values)
            own = {
                joint.name: _each(f"{what} of joint {joint.name!r}", values[joint.name], joint.type.nv)
                for joint in self.joints
                if joint.name in values
            }
        else:
            every = _each(what, values, sum(joint.type.nv for joint in self.joints))
            ends = accumulate(joint.type.nv for joint in self.joints)
            own = {joint.name: every[end - joint.type.nv : end] for joint, end in zip(self.joints, ends, strict=True)}
        for name, given in own.items():
            if (given < 0.0).any():
                raise ModelError(f"{what} of joint {name!r} is negative: {given.tolist()}")
        joints = self._every_joint
        return self._edited(joints=[_replaced(one, what, own[one.name]) if one.name in own else one for one in joints])

    def reduced(self, lock: Mapping[str, Any] | Iterable[str]) -> Self:
        """The same robot with some joints locked. Bodies and frames keep their names; all joints may be locked.

        Joints that follow locked ones only are locked where these put them.

        Args:
            lock: Joint names and their values: a scalar, or the joint's nq coordinates. Joints given by name alone are
                locked where they are neutral.
        """
        if not isinstance(lock, Mapping):
            if isinstance(lock, str) or not isinstance(lock, Iterable):
                raise InputError(
                    f"reduced() needs a mapping of joints to values, such as {{'hip': 0.1}}, or a list of joints; got "
                    f"{lock!r}"
                )
            names = list(lock)
            _require_joints(self, dict.fromkeys(names))
            lock = {name: self.joint(name).type.neutral() for name in names}
        _require_joints(self, lock)
        for joint in self.joints:
            if joint.name in lock and joint.node is not None:
                raise InputError(f"{joint.name!r} is a general node and cannot be locked; give it a stiff spring")
        for cluster in self.clusters:
            loop = next((one for one in cluster.constraints if isinstance(one, Loop)), None)
            for joint in self.joints:
                if loop is not None and joint.name in lock and joint.child in cluster.bodies:
                    raise InputError(f"joint {joint.name!r} is part of a loop, closed by {loop}, and cannot be locked")
        couplings, lock = reduced_couplings(_without_loops(self.joint_constraints), lock)
        equal, held = reduced_couplings(_without_loops(self.equalities), lock)
        ties = [LinearCoupling((name,), np.ones(1), held[name]) for name in held if name not in lock]
        return self._edited(
            joints=[_locked(one, lock[one.name]) if one.name in lock else one for one in self._every_joint],
            constraints=[*couplings, *_loops(self.joint_constraints)],
            independent=[rate for rate in self.independent if rate[0] not in lock],
            equalities=[*equal, *ties, *_loops(self.equalities)],
        )

    def attach(self, frame: str, other: Self, placement: Any = None, prefix: str = "") -> Self:
        """This robot with another model fixed to one of its frames: a gripper on an arm.

        The other model's world frame coincides with the frame. Its bodies, joints and frames keep their names, prefixed
        with `prefix`. Existing coordinates keep their order; those of the attached joints follow the ones that the
        frame's body already carries. Gravity is this robot's.

        Args:
            frame: Frame of this robot to attach to, or "world" to place two robots side by side.
            other: The model to attach.
            placement: Pose of the other model's world in the frame: a 4×4 array, a pair (R, p) [m], or None.
            prefix: Prefix of the attached names; needed if both models share names.

        Raises:
            ModelError: If names clash.
            UnknownNameError: If there is no such frame.
        """
        if not isinstance(other, type(self)):
            raise InputError(f"attach() needs a Model, got {type(other).__name__}")
        if not isinstance(prefix, str):
            raise InputError(f"prefix is put in front of names, so it must be a string; got {prefix!r}")
        body, at = _carrier(self, frame)
        at = product(at, checked_placement(placement, "attach()"))
        return self._edited(**attachment(self, other, body, at, prefix))

    def with_payload(self, frame: str, mass: float, com: Any = (0.0, 0.0, 0.0), inertia: Any = None) -> Self:
        """This robot with a rigid load fixed to one of its frames. Names and coordinates are unchanged.

        Args:
            frame: Frame that holds the load; `com` and `inertia` are expressed in it.
            mass: [kg].
            com: The load's centre of mass in the frame, (3,) [m].
            inertia: About the load's centre of mass, in the frame's axes, (3, 3) [kg m²]. By default a point mass.

        Raises:
            ModelError: If the mass and inertia are not physical.
            InputError: If the frame is fixed to the world itself.
            UnknownNameError: If there is no such frame.
        """
        name, at = _carrier(self, frame)
        if name == WORLD_NAME:
            raise InputError(f"frame {frame!r} is fixed to the world, which carries no payload; name a frame of a body")
        owner = f"payload at {frame!r}"
        mass, com, inertia = possible_inertia(owner, mass, com, np.zeros((3, 3)) if inertia is None else inertia)
        R, p = at[:3, :3], at[:3, 3]
        load = Body(owner, name, "", mass, apply(R, com) + p, product(product(R, inertia), R.T))
        bodies = [_merged(body, load) if body.name == name else body for body in self.bodies]
        return self._edited(bodies=bodies)

    def subtree(self, body: str) -> Self:
        """The subtree of a body with the joint that carries it: for example one arm of a humanoid.

        The link frame of the body's parent becomes the world, with the same components of gravity. To remove the joint
        as well, lock it with `reduced`. The new model is named after the body.

        Args:
            body: Name of the body.

        Raises:
            UnknownNameError: If there is no such body.
        """
        kept = below(self, self.body(body).name)
        bodies = [one for one in self.bodies if one.name in kept]
        joints = [joint for joint in self._every_joint if joint.child in kept]
        # the body itself is the first of its subtree
        bodies[0], joints[0] = replace(bodies[0], parent=WORLD_NAME), replace(joints[0], parent=WORLD_NAME)
        frames = [one for one in self.extra_frames if one.body in kept]
        names = {joint.name for joint in joints}
        carrying = kept | {frame.name for frame in frames}
        shapes = [one for one in self.shapes if one.body in carrying]
        return self._edited(
            name=body,
            bodies=bodies,
            joints=joints,
            frames=frames,
            constraints=[one for one in self.joint_constraints if _inside(one, names, kept, body)],
            independent=[rate for rate in self.independent if rate[0] in names],
            near=[one for one in self.near if one[0] in names],
            equalities=[one for one in self.equalities if _inside(one, names, kept, body)],
            shapes=shapes,
            pair_rules=self.pair_rules.among(kept, (shape.name for shape in shapes)),
        )

    def population(
        self,
        inertial_parameters: Any = None,
        gravity: Any = None,
        *,
        armature: Any = None,
        damping: Any = None,
        friction: Any = None,
        strict: bool = True,
    ) -> Population:
        """The dynamics of robots that differ in masses, gravity and joints, a sample each: for domain randomisation.

        What is not given is this robot's.

        Args:
            inertial_parameters: As `inertial_parameters`, with leading axes, (…, m, 10).
            gravity: Acceleration of free fall, (…, 3) [m/s²].
            armature: Reflected rotor inertias, (…, nv) [kg m² or kg].
            damping: Viscous damping of joints, (…, nv), for `Simulator(damping=True)`; it is no part of the dynamics.
            friction: Dry friction of joints, (…, nv), for `Simulator(friction=True)`, likewise.
            strict: As for `with_inertial_parameters`: whether unphysical parameters are an error, or kept with a
                `ModelWarning`.

        Raises:
            InputError: If they have the wrong shape, are not finite, or of joints and negative.
            ModelError: If a body without mass has a first moment, or parameters are unphysical; names sample and body.
            UnsupportedError: If what varies is part of a coupling.
        """
        return Population(self, inertial_parameters, gravity, strict, armature, damping, friction)

    def parameters(
        self,
        *,
        mass: Names = (),
        com: Names = (),
        inertia: Names = (),
        position: Names = (),
        rotation: Names = (),
        axis: Names = (),
        armature: Names = (),
        pitch: Names = (),
        constants: Names = (),
        gravity: bool = False,
    ) -> Parameters:
        """Some of the robot's parameters as arguments of its functions, with derivatives: for calibration and design.

        Each takes the name of a body, joint or frame, several of them, or True for all bodies that have one.

        Args:
            mass: Masses of bodies, with their centres of mass and inertias about these as they are [kg].
            com: Centres of mass in link frames [m].
            inertia: Inertias about the centres of mass in link axes: xx, xy, xz, yy, yz, zz [kg m²].
            position: Positions in the parent's link frame, at neutral q: of bodies, with all that they carry, and of
                frames [m].
            rotation: Orientations there: rotation vectors from the robot's own, in link axes [rad].
            axis: Axes of joints in link axes, of any length. Link frames at neutral q stay as they are.
            armature: Reflected rotor inertias [kg m² or kg].
            pitch: Advance of helical joints [m/rad].
            constants: Constants of general nodes and flexible bodies.
            gravity: Whether gravity is a parameter [m/s²].

        Raises:
            UnknownNameError: If there is no such body, joint or frame, or it has no such parameter.
            UnsupportedError: If it belongs to a body that is fixed to one in a loop or coupling, or carries it.
        """
        chosen = (mass, com, inertia, position, rotation, axis, armature, pitch, constants, gravity)
        return Parameters(self, **dict(zip(KINDS_OF_PARAMETERS, chosen, strict=True)))


def _require_joints(robot: ModelBase, names: Mapping[str, Any]) -> None:
    known = tuple(joint.name for joint in robot.joints)
    for name in names:
        if name not in known:
            raise UnknownNameError("moving joint", name, known)


def _replaced(joint: Joint, what: str, value: Any) -> Joint:
    if what == "stiffness":
        rest = joint.type.neutral() if joint.spring is None else joint.spring.reference
        return replace(joint, spring=Spring(value, rest) if value.any() else None)
    changes: dict[str, Any] = {what: value}
    return replace(joint, **changes)


def _numeric(values: Any) -> bool:
    try:
        return np.asarray(values).dtype.kind in "iuf"
    except ValueError:  # ragged
        return False


def _vector(what: str, values: Any, size: int) -> Array:
    """A vector of `size` finite numbers."""
    if not _numeric(values) or not np.isfinite(array := np.asarray(values, dtype=float)).all():
        raise InputError(f"{what} is not made of finite numbers: {values!r}")
    if array.shape != (size,):
        raise InputError(f"{what} has shape {array.shape}; pass ({size},)")
    return array


def _each(what: str, values: Any, size: int) -> Array:
    """`size` finite numbers, from as many or from one for all."""
    single = _numeric(values) and np.ndim(values) == 0
    return np.broadcast_to(_vector(what, [values], 1) if single else _vector(what, values, size), (size,))


def _solid(body: Body, mass: Any, com: Any, inertia: Any) -> Body:
    mass, com, inertia = possible_inertia(f"body {body.name!r}", mass, com, inertia)
    return replace(body, mass=mass, com=com, inertia=(inertia + inertia.T) / 2.0)


def _identified(body: Body, row: Array, strict: bool) -> Body:
    """A body with ten inertial parameters."""
    owner = f"body {body.name!r}"
    mass, com, inertia = from_parameters(owner, row)
    problem = fault(mass, inertia.tolist())
    if problem is not None:
        if strict:
            raise ModelError(f"{owner}: {problem}. strict=False keeps such parameters")
        warnings.warn(f"{owner}: {problem}", ModelWarning, stacklevel=4)
    return replace(body, mass=mass, com=com, inertia=inertia)


def _limited(joint: Joint, limits: Mapping[str, Limits]) -> Joint:
    if joint.name not in limits:
        return joint
    try:
        return replace(joint, limits=limits[joint.name].expanded(joint.type))
    except ModelError as error:
        raise ModelError(f"joint {joint.name!r}: {error}") from None


def _loops(constraints: Iterable[Constraint]) -> list[Loop]:
    return [one for one in constraints if isinstance(one, Loop)]


def _without_loops(constraints: Iterable[Constraint]) -> list[Coupling]:
    return [one for one in constraints if not isinstance(one, Loop)]


def _locked(joint: Joint, value: Any) -> Joint:
    """A fixed joint that holds another one at a configuration."""
    q = np.atleast_1d(numbers(f"lock of joint {joint.name!r}", value))
    if q.shape != (joint.type.nq,) or q.dtype.kind == "c":
        raise InputError(f"joint {joint.name!r} has {joint.type.nq} real coordinates to lock, got {value!r}")
    with np.errstate(all="ignore"):
        placement = displaced(joint, q)
    if not np.isfinite(placement).all():
        raise InputError(f"joint {joint.name!r} cannot be locked at {value!r}, which is not a configuration")
    none = np.zeros(0)
    kept = joint.parent, joint.child, placement
    return Joint(joint.name, "fixed", *kept, none, 0.0, none, _NO_LIMITS, none, none, 0, 0)


def _inside(constraint: Constraint, joints: set[str], bodies: set[str], root: str) -> bool:
    """Whether a constraint lies in the subtree of a root; raises if only a part of it does."""
    if isinstance(constraint, Loop):
        found, fix = [name in bodies for name in constraint.bodies], "Take the subtree of a body that carries all of it"
    else:
        found, fix = [name in joints for name in constraint.joints], "First lock one of its joints with reduced()"
    if any(found) and not all(found):
        raise InputError(f"subtree({root!r}) would cut {constraint}, part of which lies outside. {fix}")
    return any(found)


def _carrier(robot: ModelBase, frame: str) -> tuple[str, Array]:
    """The body that a frame is fixed to, or the world, and the frame's pose in it."""
    for one in robot.extra_frames:
        if one.name == frame:
            return one.body, one.placement
    if frame == WORLD_NAME or any(body.name == frame for body in robot.bodies):
        return frame, np.eye(4)
    raise UnknownNameError("frame", frame, robot.frames)


def _merged(body: Body, load: Body) -> Body:
    """Two rigid bodies merged into one, both expressed in the first one's link frame."""
    if load.mass == 0.0:
        return body
    mass = body.mass + load.mass
    if mass == 0.0:
        raise ModelError(f"body {body.name!r} has the negative mass {body.mass:g} kg, which the payload cancels")
    com = (body.mass * body.com + load.mass * load.com) / mass
    inertia = sum((one.inertia + one.mass * spread(one.com - com) for one in (body, load)), np.zeros((3, 3)))
    return replace(body, mass=mass, com=com, inertia=inertia)
