"""Builds a model body by body, with full validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinetree.concurrency import gc_paused
from kinetree.errors import InputError, ModelError, ModelWarning, UnknownNameError
from kinetree.model.joint import Limits, Spring
from kinetree.model.joints import KINDS, JointKind
from kinetree.model.loops.aggregation import Constraint, rates_of
from kinetree.model.loops.coupling import Coupling
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.nodes.flexible import FlexibleBody
from kinetree.model.nodes.general import Node, checked, coordinates_of
from kinetree.model.nodes.laws import require_laws
from kinetree.model.physical import inertial_numbers
from kinetree.model.shapes import SolidShape, named
from kinetree.model.specs import (
    WORLD_NAME,
    BodySpec,
    FrameSpec,
    JointSpec,
    NamedSpecs,
    Z,
    axes_of,
    constant,
    coupling_of,
    direction,
    finite,
    made,
    matrix_of_pose,
    non_negative,
    pitch_of,
    pose_numbers,
    unlimited,
)
from kinetree.spatial.reproducible import product

_NO_INERTIA = np.zeros((3, 3))


class Builder:
    """Collects bodies and frames in any order; `build` creates the model.

    Args:
        name: Name of the model.
        gravity: Acceleration of free fall in the world frame, (3,) [m/s²].
        strict: Whether an unphysical mass or inertia is an error; otherwise it is kept, with a `ModelWarning`.
    """

    def __init__(self, name: str = "robot", gravity: Any = (0.0, 0.0, -9.81), *, strict: bool = True) -> None:
        if not isinstance(name, str):
            raise ModelError(f"the name of a model is a string; got {name!r}")
        self.name = name
        self.gravity = finite(gravity, 3, "gravity", each=True)
        self.strict = strict
        self._parts = NamedSpecs()
        self._couplings: list[Coupling] = []
        self._independent: list[str | tuple[str, int]] = []
        self._loops: list[Loop] = []
        self._keyframes: dict[str, Mapping[str, Any]] = {}
        self._shapes: list[SolidShape] = []

    def add_body(
        self,
        name: str,
        *,
        parent: str = WORLD_NAME,
        joint: str = "revolute",
        joint_name: str | None = None,
        placement: Any = None,
        axis: Any = None,
        axes: Any = None,
        pitch: float | None = None,
        mass: float = 0.0,
        com: Any = (0.0, 0.0, 0.0),
        inertia: Any = None,
        armature: Any = 0.0,
        limits: Limits | None = None,
        damping: Any = 0.0,
        friction: Any = 0.0,
        stiffness: Any = 0.0,
        spring_reference: Any = None,
        gravity_compensation: float = 0.0,
    ) -> Builder:
        """Add a body and the joint in front of it.

        Args:
            name: Name of the body and of its link frame.
            parent: Parent body, which may be added later, or "world".
            joint: Kind of joint: "revolute", "prismatic", "helical", "cylindrical", "universal", "spherical", "planar",
                "translational", "floating" or "fixed".
            joint_name: By default the body's name followed by "_joint".
            placement: Pose of the link frame in the parent's at neutral q: a 4×4 array, a pair (R, p), or None.
            axis: Joint axis in the link frame, (3,); for a planar joint the normal of the plane. By default z.
            axes: The two axes of a universal joint, (2, 3). By default x, y.
            pitch: Advance of a helical joint [m/rad].
            mass: [kg].
            com: Centre of mass in the link frame, (3,) [m].
            inertia: About the centre of mass, in link axes, (3, 3) [kg m²]. By default zero.
            armature: Reflected rotor inertia, one number or (nv,) [kg m² or kg].
            limits: Joint limits; by default none.
            damping: Viscous damping, one number or (nv,). Stored, but not part of the dynamics.
            friction: Dry friction, one number or (nv,). Stored, but not part of the dynamics.
            stiffness: Of a spring at the joint, one number or (nv,). Stored, but not part of the dynamics.
            spring_reference: Coordinates of the joint in which the spring is at rest, (nq,); neutral by default.
            gravity_compensation: Part of the body's weight that something else bears. Stored, as above.

        Returns:
            The builder.
        """
        self._parts.refuse_taken(name, "body")
        owner = f"body {name!r}"
        joint_name = f"{name}_joint" if joint_name is None else joint_name
        _require_names(owner, parent=parent, joint=joint, joint_name=joint_name)
        self._parts.refuse_taken_joint(joint_name, owner)
        if joint not in KINDS:
            raise UnknownNameError("kind of joint", joint, tuple(KINDS))
        kind = KINDS[joint]
        mass, center, moments, fault = inertial_numbers(owner, mass, com, _NO_INERTIA if inertia is None else inertia)
        if fault is not None and self.strict:
            raise ModelError(f"{owner}: {fault}")
        if fault is not None:
            warnings.warn(f"{owner}: {fault}", ModelWarning, stacklevel=2)

        owner = f"joint {joint_name!r} of body {name!r}"
        expanded = unlimited(joint) if limits is None else _expanded(limits, kind, owner)
        xx, xy, xz, yx, yy, yz, zx, zy, zz = moments
        xy, xz, yz = (xy + yx) / 2.0, (xz + zx) / 2.0, (yz + zy) / 2.0
        borne = float(finite(gravity_compensation, 1, f"body {name!r}: gravity_compensation")[0])
        body = BodySpec(name, mass, center, (xx, xy, xz, xy, yy, yz, xz, yz, zz), gravity_compensation=borne)
        spec = JointSpec(
            joint_name,
            joint,
            parent,
            name,
            placement=pose_numbers(placement, owner),
            axes=axes_of(kind, axis, axes, owner),
            pitch=pitch_of(kind, pitch, owner),
            armature=non_negative(armature, kind.nv, owner, "armature"),
            limits=expanded,
            damping=non_negative(damping, kind.nv, owner, "damping"),
            friction=non_negative(friction, kind.nv, owner, "friction"),
            spring=_spring(stiffness, spring_reference, kind, owner),
        )
        self._parts.add(body, spec)
        return self

    def add_frame(self, name: str, *, body: str = WORLD_NAME, placement: Any = None) -> Builder:
        """Add a named frame to a body, which may be added later.

        Args:
            name: Unique among frames and bodies.
            body: Body that it is fixed to, or "world".
            placement: Pose in the body's link frame: a 4×4 array, a pair (R, p), or None.

        Returns:
            The builder.
        """
        self._parts.refuse_taken(name, "frame")
        _require_names(f"frame {name!r}", body=body)
        self._parts.frames[name] = FrameSpec(name, body, pose_numbers(placement, f"frame {name!r}"))
        return self

    def add_shape(self, *shapes: SolidShape) -> Builder:
        """Add shapes that may collide, to bodies or frames that may be added later.

        Args:
            *shapes: Such as `geometry.Capsule("forearm", (0, 0, 0), (0, 0, 0.3), radius=0.05)`. One without a body
                belongs to the frame that has its name; names that occur twice get numbers.

        Returns:
            The builder.

        Raises:
            ModelError: If something is no shape.
        """
        named(shapes)  # or raise
        self._shapes += shapes
        return self

    def add_node(
        self,
        name: str,
        node: Node,
        *,
        parent: str = WORLD_NAME,
        placement: Any = None,
        armature: Any = 0.0,
        limits: Limits | None = None,
        check: bool = True,
    ) -> Builder:
        """Add a part that is not a rigid body, with formulas of its own; see `Node`.

        Its coordinates are part of q and v under the node's name. Each outlet becomes a massless body "name/outlet",
        to which bodies and frames can be attached.

        Args:
            name: Name of the node.
            node: Its formulas and constants.
            parent: Body that carries it, which may be added later, or "world".
            placement: Pose of the node's root frame in the parent's link frame: a 4×4 array, a pair (R, p), or None.
            armature: Reflected rotor inertia, one number or (nv,) [kg m² or kg].
            limits: Limits of its coordinates; by default none.
            check: Whether its formulas must obey the laws of mechanics at random configurations between its limits, as
                `check_node` tests them.

        Returns:
            The builder.

        Raises:
            ModelError: A formula breaks a law, or gives NaN.
        """
        owner = f"node {name!r}"
        bodies = [name, *(f"{name}/{outlet}" for outlet in checked(owner, node).outlets)]
        for body in bodies:
            self._parts.refuse_taken(body, "node" if body == name else "outlet")
        _require_names(owner, parent=parent)
        for joint in bodies:
            self._parts.refuse_taken_joint(joint, owner)
        nv = node.nv
        expanded = _expanded(Limits() if limits is None else limits, coordinates_of(node), owner)
        if check:
            try:
                require_laws(node, np.asarray(expanded.lower), np.asarray(expanded.upper))
            except ModelError as error:
                raise ModelError(f"{owner}: {error}. Nodes are not examined with check=False") from None
        # what is in front of a node or an outlet has its name
        none, at = constant(0.0, nv), pose_numbers(placement, owner)
        rotors = non_negative(armature, nv, owner, "armature")
        spec = JointSpec(name, "node", parent, name, at, (), expanded, none, none, rotors, node=node)
        self._parts.add(BodySpec(name), spec)
        for outlet in bodies[1:]:
            self._parts.add(BodySpec(outlet), JointSpec.fixed(outlet, name, outlet))
        return self

    def add_flexible(
        self, name: str, body: FlexibleBody, *, parent: str = WORLD_NAME, joint: str = "fixed", **settings: Any
    ) -> Builder:
        """Add a flexible body and the joint in front of it.

        The joint moves a body "name/root", to which the flexible body is clamped. Amplitudes of its shapes are part of
        q and v under its name. Bodies and frames attach to "name/root" and to its outlets, such as "name/tip" of a
        `Beam`.

        Args:
            name: Name of the flexible body.
            body: A `Beam` or another `FlexibleBody`.
            parent: Parent body, which may be added later, or "world".
            joint: Kind of joint in front of the root; see `add_body`.
            **settings: Settings of the joint and a rigid hub at the root, as for `add_body`: placement, axis, mass, ….

        Returns:
            The builder.
        """
        if not isinstance(body, FlexibleBody):
            raise ModelError(f"flexible body {name!r}: pass a Beam or a FlexibleBody; got {body!r}")
        checked(f"flexible body {name!r}", body)
        self._parts.refuse_taken(name, "flexible body")
        settings.setdefault("joint_name", f"{name}_joint")
        self.add_body(f"{name}/root", parent=parent, joint=joint, **settings)
        # its formulas are the library's, and small amplitudes, for which they hold, have no limits here
        return self.add_node(name, body, parent=f"{name}/root", check=False)

    def add_rotor(
        self,
        joint: str,
        *,
        ratio: float,
        mass: float,
        inertia: Any = None,
        com: Any = (0.0, 0.0, 0.0),
        name: str | None = None,
        placement: Any = None,
        axis: Any = None,
    ) -> Builder:
        """Add the rotor of a geared motor: a body on the joint's parent that turns `ratio` times as fast as the joint.

        Unlike armature, it has all of a body's inertia: gyroscopic forces, and reaction on the motor's mount.

        Args:
            joint: Name of the driven joint, which must have been added.
            ratio: Turns of the rotor per turn of the joint; negative if it turns the other way.
            mass: [kg].
            inertia: About the rotor's centre of mass, in its own axes, (3, 3) [kg m²].
            com: Centre of mass in the rotor's link frame, (3,) [m].
            name: Name of the rotor's body; by default that of the driven body followed by "_rotor".
            placement: Pose of the rotor's link frame in the link frame of the joint's parent; by default the joint's.
            axis: Axis of the rotor in its link frame; by default the joint's.

        Returns:
            The builder.
        """
        driven = self._parts.joint(joint, "add_rotor()")
        if driven.type.nv != 1:
            raise ModelError(f"add_rotor(): a rotor drives a joint with one coordinate; {joint!r} is {driven.kind}")
        body = f"{self._parts.children[joint]}_rotor" if name is None else name
        self.add_body(
            body,
            parent=driven.parent,
            joint="revolute",
            placement=matrix_of_pose(driven.placement) if placement is None else placement,
            axis=next(iter(driven.axes), ()) if axis is None else axis,
            mass=mass,
            com=com,
            inertia=inertia,
        )
        return self.couple(self._parts.joints[body].name, to=joint, ratio=ratio)

    def couple(
        self,
        joint: str | Mapping[str, float],
        *,
        to: str | Sequence[str] | None = None,
        ratio: float | None = None,
        offset: float = 0.0,
        poly: Sequence[float] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> Builder:
        """Couple joints: gears, belts, differentials, cams, mimic joints.

            b.couple("rotor", to="knee", ratio=9.0, offset=0.1)          # rotor = 9 knee + 0.1
            b.couple({"m1": 1.0, "pitch": -4.0, "roll": -4.0})           # m1 = 4 pitch + 4 roll
            b.couple("lift", to="cam", poly=[0.02, 0.1, -0.05])          # lift = 0.02 + 0.1 cam − 0.05 cam²
            b.couple("tip", to="base", function=lambda x: np.sin(x))

        A coupled joint stays among `Model.joints`, but has no coordinate in q and no velocity in v: those belong to the
        joints that it follows. Joints may be added later.

        Args:
            joint: The joint that follows, or a mapping of joints to coefficients cᵢ of Σ cᵢ qᵢ = offset, of which the
                first is expressed by the others unless `independent` says otherwise.
            to: The joint that leads, or several for `function`.
            ratio: Rate of the follower per rate of the leader.
            offset: Follower's coordinate at zero of the leader, or the sum of a mapping [rad or m].
            poly: Coefficients of a polynomial, lowest power first.
            function: Any function of the leaders' coordinates: arithmetic (`+ - * /`, `np.sin`, `np.cos`, `np.sqrt`)
                without branches. Its derivatives are computed with dual numbers.

        Returns:
            The builder.
        """
        self._couplings.append(coupling_of(joint, to, ratio, offset, poly, function))
        return self

    def independent(self, *joints: str | tuple[str, int]) -> Builder:
        """Choose joints whose velocities are part of v, where couplings and loops leave a choice.

        Args:
            *joints: Names of joints, or pairs of a name and the index of one of several velocities, as ("rod_joint", 0)
                for the first of a ball joint.

        Returns:
            The builder.
        """
        for joint in joints:
            if not isinstance(joint, str) and not (isinstance(joint, tuple) and len(joint) == 2):
                raise ModelError(f"independent() takes names of joints, or pairs of a name and an index; got {joint!r}")
        self._independent += joints
        return self

    def connect(self, a: str, b: str, *, name: str | None = None) -> Builder:
        """Close a loop: the origins of two frames coincide, as in a ball joint.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        return self._close_loop("connect", a, b, name)

    def weld(self, a: str, b: str, *, name: str | None = None) -> Builder:
        """Close a loop: two frames coincide. Frames that start exactly half a turn apart stay so.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        return self._close_loop("weld", a, b, name)

    def hinge(self, a: str, b: str, *, axis: Any = Z, name: str | None = None) -> Builder:
        """Close a loop with a hinge: the origins of two frames coincide, and so do their axes.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            axis: The axis of the hinge, with the same components in both frames, (3,).
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        return self._close_loop("hinge", a, b, name, axis=axis)

    def distance(self, a: str, b: str, *, length: float, name: str | None = None) -> Builder:
        """Close a loop with a massless rod: the origins of two frames stay at a distance.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            length: [m].
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        metres = float(finite(length, 1, "distance(): length")[0])
        if metres <= 0.0:
            raise ModelError(f"distance(): length must be positive, got {length!r}; connect() joins two points")
        return self._close_loop("distance", a, b, name, length=metres)

    def _close_loop(self, kind: str, a: str, b: str, name: str | None, axis: Any = Z, length: float = 0.0) -> Builder:
        for frame in (a, b):
            if not isinstance(frame, str):
                raise ModelError(f"{kind}() takes names of two frames or bodies; got {frame!r}")
        called = f"{a}–{b}" if name is None else name
        if any(loop.name == called for loop in self._loops):
            raise ModelError(f"{kind}(): a loop {called!r} exists already; give name=")
        along = np.array(direction(axis, f"{kind}()"))
        self._loops.append(Loop(called, kind, (a, b), np.eye(4), np.eye(4), along, length))
        return self

    def add_keyframe(self, name: str, q: Mapping[str, Any]) -> Builder:
        """Add a named configuration to `keyframes`; of joints that are left out, coordinates are neutral.

        Args:
            name: Its name, such as "home".
            q: Coordinates by joint; joints may be added later.

        Returns:
            The builder.
        """
        if not isinstance(name, str) or not isinstance(q, Mapping):
            raise ModelError(f"add_keyframe() takes a name and a mapping of joints to coordinates; got {name!r}, {q!r}")
        if name in self._keyframes:
            raise ModelError(f"add_keyframe(): a keyframe {name!r} exists already; rename one")
        self._keyframes[name] = q
        return self

    def add_loop(self, loop: Loop) -> Builder:
        """Internal: add a loop from a file."""
        self._loops.append(loop)
        return self

    def add_coupling(self, coupling: Coupling) -> Builder:
        """Internal: add a coupling from a file; one of a single joint holds it, and needs `loops="multipliers"`."""
        self._couplings.append(coupling)
        return self

    def build(self, near: Mapping[str, Any] | None = None, *, loops: str = "embed") -> Model:
        """Create the model, numbered depth first, siblings in the order in which they were added.

        Args:
            near: Coordinates of joints, by name, near which loops are closed; others start at zero. The result is
                `neutral()`.
            loops: "embed" builds couplings and loops into the coordinates: v has the independent velocities only.
                "multipliers" gives every joint its own coordinates, and keeps couplings and loops in `equalities`, as
                constraints for `constrained_dynamics` and `Simulator`.

        Raises:
            ModelError: If the parts do not fit together: a cycle, or couplings that contradict each other.
            LoopError: If a loop cannot be closed.
            UnknownNameError: If a shape belongs to no frame.
        """
        if not self._parts.bodies:
            raise ModelError(f"model {self.name!r} has no bodies; add_body() at least one")
        with gc_paused():  # a large model consists of a million objects, which the collector would traverse repeatedly
            bodies, joints, frames = made(*self._parts.ordered(), self._parts.frames.values())
        constraints: list[Constraint] = [_resolved(coupling, self._parts) for coupling in self._couplings]
        constraints += [_placed(loop, self._parts) for loop in self._loops]
        independent = [rate for given in self._independent for rate in rates_of(joints, given)]
        start = [self._at(name, values, "near") for name, values in (near or {}).items()]
        keyframes = [
            (key, tuple(self._at(name, values, f"keyframe {key!r}") for name, values in q.items()))
            for key, q in self._keyframes.items()
        ]
        given = self.name, self.gravity, bodies, joints, frames
        if loops == "multipliers":
            model = Model(*given, equalities=constraints, keyframes=keyframes)
        elif loops == "embed":
            model = Model(*given, constraints, independent, start, keyframes=keyframes)
        else:
            raise InputError(f'loops={loops!r} is not known; choose "embed" or "multipliers"')
        return model.with_shapes(self._shapes) if self._shapes else model

    def _at(self, name: str, values: Any, what: str) -> tuple[str, tuple[float, ...]]:
        joint = self._parts.joint(name, what)
        numbers = finite(values, joint.type.nq, f"{what}: joint {name!r}")
        return joint.name, tuple(numbers.tolist())


def _require_names(owner: str, **names: Any) -> None:
    for what, given in names.items():
        if not isinstance(given, str):
            raise ModelError(f"{owner}: {what} is a name, so it must be a string; got {given!r}")


def _spring(stiffness: Any, reference: Any, kind: JointKind, owner: str) -> Spring | None:
    K = non_negative(stiffness, kind.nv, owner, "stiffness")
    if not K.any():
        return None
    return Spring(K, kind.neutral() if reference is None else finite(reference, kind.nq, f"{owner}: spring_reference"))


def _expanded(limits: Any, kind: JointKind, owner: str) -> Limits:
    if not isinstance(limits, Limits):
        raise ModelError(f"{owner}: limits is a Limits or None; got {limits!r}")
    try:
        return limits.expanded(kind)
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from None


def _resolved(coupling: Coupling, parts: NamedSpecs) -> Coupling:
    """A coupling that names joints by their own names."""
    names = tuple(parts.joint(name, f"the coupling {coupling}").name for name in coupling.joints)
    return replace(coupling, joints=names)


def _placed(loop: Loop, parts: NamedSpecs) -> Loop:
    """A loop between bodies, from one between frames."""
    ends = []
    for name in loop.bodies:
        if name in parts.frames:
            ends.append((parts.frames[name].body, matrix_of_pose(parts.frames[name].placement)))
        elif name == WORLD_NAME or name in parts.bodies:
            ends.append((name, np.eye(4)))
        else:
            raise UnknownNameError(f"frame (needed for {loop})", name, (*parts.frames, *parts.bodies))
    (a, first), (b, second) = ends
    return replace(loop, bodies=(a, b), first=product(first, loop.first), second=product(second, loop.second))
