"""Couplings between joints, and loops, as parts of a model under construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kinetree.errors import ModelError, UnknownNameError
from kinetree.model.aggregation import Constraint
from kinetree.model.builder_arguments import Z, coupling_of, direction, finite
from kinetree.model.coupling import Coupling
from kinetree.model.loop import Loop
from kinetree.model.parts import NamedSpecs
from kinetree.model.specs import WORLD_NAME, matrix_of_pose
from kinetree.spatial.fixed import product

_Own = TypeVar("_Own", bound="Constraining")


class Constraining:
    """The methods of `Builder` that constrain joints, which may be added later."""

    def __init__(self) -> None:
        self._couplings: list[Coupling] = []
        self._independent: list[str | tuple[str, int]] = []
        self._loops: list[Loop] = []

    def couple(
        self: _Own,
        joint: str | Mapping[str, float],
        *,
        to: str | Sequence[str] | None = None,
        ratio: float | None = None,
        offset: float = 0.0,
        poly: Sequence[float] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> _Own:
        """Couple joints: gears, belts, differentials, cams, mimic joints.

            b.couple("rotor", to="knee", ratio=9.0, offset=0.1)          # rotor = 9 knee + 0.1
            b.couple({"m1": 1.0, "pitch": -4.0, "roll": -4.0})           # m1 = 4 pitch + 4 roll
            b.couple("lift", to="cam", poly=[0.02, 0.1, -0.05])          # lift = 0.02 + 0.1 cam − 0.05 cam²
            b.couple("tip", to="base", function=lambda x: np.sin(x))

        A coupled joint stays among `Model.joints`, but has no coordinate in q and no velocity in v: those belong to the
        joints that it follows. Joints are named by their own name or by that of their body, and may be added later.

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

    def independent(self: _Own, *joints: str | tuple[str, int]) -> _Own:
        """Choose joints whose velocities are part of v, where couplings and loops leave a choice.

        Args:
            *joints: Names of joints or of their bodies, or pairs of a name and the index of one of several velocities,
                as ("rod", 0) for the first of a ball joint.

        Returns:
            The builder.
        """
        for joint in joints:
            if not isinstance(joint, str) and not (isinstance(joint, tuple) and len(joint) == 2):
                raise ModelError(f"independent() takes names of joints, or pairs of a name and an index; got {joint!r}")
        self._independent += joints
        return self

    def connect(self: _Own, a: str, b: str, *, name: str | None = None) -> _Own:
        """Close a loop: the origins of two frames coincide, as in a ball joint.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        return self._close_loop("connect", a, b, name)

    def weld(self: _Own, a: str, b: str, *, name: str | None = None) -> _Own:
        """Close a loop: two frames coincide. Frames that start exactly half a turn apart stay so.

        Args:
            a: A frame or a body; may be added later.
            b: Another one, or "world".
            name: Name of the loop; by default from its frames.

        Returns:
            The builder.
        """
        return self._close_loop("weld", a, b, name)

    def hinge(self: _Own, a: str, b: str, *, axis: Any = Z, name: str | None = None) -> _Own:
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

    def distance(self: _Own, a: str, b: str, *, length: float, name: str | None = None) -> _Own:
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

    def _close_loop(
        self: _Own, kind: str, a: str, b: str, name: str | None, axis: Any = Z, length: float = 0.0
    ) -> _Own:
        for frame in (a, b):
            if not isinstance(frame, str):
                raise ModelError(f"{kind}() takes names of two frames or bodies; got {frame!r}")
        called = f"{a}–{b}" if name is None else name
        if any(loop.name == called for loop in self._loops):
            raise ModelError(f"{kind}(): a loop {called!r} exists already; give name=")
        along = np.array(direction(axis, f"{kind}()"))
        self._loops.append(Loop(called, kind, (a, b), np.eye(4), np.eye(4), along, length))
        return self

    def add_loop(self: _Own, loop: Loop) -> _Own:
        """Internal: add a loop from a file."""
        self._loops.append(loop)
        return self

    def add_coupling(self: _Own, coupling: Coupling) -> _Own:
        """Internal: add a coupling from a file; one of a single joint holds it, and needs `loops="multipliers"`."""
        self._couplings.append(coupling)
        return self

    def _constraints(self, parts: NamedSpecs) -> list[Constraint]:
        """All couplings and loops, between joints and bodies that exist."""
        return [
            *(_resolved(coupling, parts) for coupling in self._couplings),
            *(_placed(loop, parts) for loop in self._loops),
        ]


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
