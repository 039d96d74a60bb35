"""Reactions of joints, fixed ones included: `robot.reactions`.

Recursions see bodies behind fixed joints as parts of others. Here each is a node of its own, without degrees of
freedom, so that the force through its joint is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.dynamics.reactions import LOADED_REACTIONS, REACTIONS
from kinetree.algorithms.dynamics.stacked_vectors import stacked_vectors
from kinetree.errors import InputError, UnsupportedError
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.assembly.assembly import assemble
from kinetree.model.base import ModelBase
from kinetree.model.loops.cluster_kind import SlotKind
from kinetree.model.results import StackedVectors
from kinetree.runtime import arguments
from kinetree.runtime.bound import ieee_default
from kinetree.runtime.function import ForcedFunction, FrameFunction
from kinetree.runtime.quantity import P, R, forced_quantity, frame_quantity
from kinetree.spatial.value import Array


class ReactionFunction(FrameFunction[P, R]):
    """A function of frames and external wrenches."""

    choices = ("frames", "reference", "f_ext")
    _wrenches = ForcedFunction._wrenches

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        *arrays, frames, reference, f_ext = self._arguments(inputs, named)
        loads, given = self._wrenches(f_ext)  # type: ignore[misc]
        if not loads:
            return super()._compute((*arrays, frames, reference), {}, out)
        self._for(reference)
        wanted = self._sites(frames)
        wrenches = np.concatenate([np.zeros((*given[0].shape[:-2], len(wanted), 6)), given[0]], axis=-2)
        every = self._run((*wanted, *loads), LOADED_REACTIONS[reference], (*arrays, wrenches), None)
        result = every[..., 0, :] if isinstance(frames, str) else every[..., : len(wanted), :]
        if out is None:
            return np.ascontiguousarray(result)
        (filled,) = arguments.results(self.name, out, ["f"], [result.shape], result.dtype)
        filled[...] = result
        return out

    def _sites(self, frames: Any) -> tuple[Site, ...]:
        sites = super()._sites(frames)
        for site in sites:
            require_own_joint(self.mechanism.at([site]), site)
        if frames is None and self.mechanism.reaching is not None:
            raise InputError(f"{self.name}: name frames; bodies with coupled joints or loops have no reactions")
        return sites


def require_own_joint(mechanism: Mechanism, site: Site) -> None:
    """Raise if a frame is on a body whose joint is not independent of others."""
    if site.node >= 0 and isinstance(mechanism.kinds[site.node], SlotKind):
        raise UnsupportedError(
            f"reactions: {site.name!r} is on a body whose joint is coupled to others or part of a loop "
            f"({mechanism.names[mechanism.parents[site.node]]}): forces inside do not follow from accelerations "
            "alone. Name frames of other bodies"
        )


class _Unmerged:
    """A robot with a node for each body, also behind fixed joints."""

    def __init__(self, robot: ModelBase) -> None:
        self._robot = robot

    @cached_property
    @ieee_default
    def _assembled(self) -> tuple[Mechanism, dict[str, Site]]:
        robot = self._robot
        joints = {joint.child: joint for joint in robot._every_joint}
        mechanism, sites = assemble(
            robot.bodies, joints, robot.extra_frames, robot.gravity, robot._clustering, merged=False
        )
        return mechanism, {site.name: site for site in sites()}

    @cached_property
    def mechanism(self) -> Mechanism:
        mechanism, own = self._assembled[0].computing_in(self._robot._scalar), self._robot._specialized_for
        return mechanism.with_own_code(own) if own else mechanism

    @cached_property
    def frames(self) -> tuple[str, ...]:
        """The bodies that have a frame and a joint of their own."""
        mechanism, sites = self._assembled
        bodies = [sites[body.name] for body in self._robot.bodies if body.name in sites]
        return tuple(s.name for s in bodies if s.node < 0 or not isinstance(mechanism.at([s]).kinds[s.node], SlotKind))

    def site(self, frame: str) -> Site:
        self._robot.site(frame)  # raises for names that do not exist
        return self._assembled[1][frame]


class Reactions(ModelBase):
    """The forces inside a robot."""

    @cached_property
    def _unmerged(self) -> _Unmerged:
        return _Unmerged(self)

    @frame_quantity(REACTIONS, of=lambda robot: robot._unmerged, kind=ReactionFunction)
    def reactions(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frames: str | Sequence[str] | None = None,
        reference: Literal["local", "local_world_aligned", "world"] = "local",
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        """Wrenches that joints, fixed ones included, transmit to their bodies, moment first, (…, 6) [N m, N].

        It is what the parent exerts on the body, across the joint: the load of the bearing together with the torque of
        the motor. Along the degrees of freedom of the joint, it is what `inverse_dynamics` returns less armature · a
        and the forces of springs. Of a frame that the world carries, it is what the ground exerts on all that stands
        on it.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            frames: Frames on the bodies, one name, or a sequence of m names: (…, m, 6). By default the link frames of
                all bodies that have one, in the order of `robot.bodies`.
            reference: Where moments are taken, and in which axes: "local" (the frame's origin and axes),
                "local_world_aligned" (its origin, the world's axes) or "world" (the world's origin and axes).
            f_ext: Wrenches by frame, as for `inverse_dynamics`.
            out: Array for the result.

        Raises:
            UnsupportedError: If a joint is coupled to others or part of a loop.
        """

    @forced_quantity(stacked_vectors, bundle=StackedVectors)
    def stacked_vectors(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: tuple[Array, Array, Array, Array, Array] | None = None,
    ) -> StackedVectors:
        """Stacked vectors of Jain's equations of motion: V, α, f, a and b of all nodes, (…, m) each.

        Nodes are those on which `operators` act, in their own coordinates: α = Aᵀ(Hᵀ a + a(q, v)) and
        f = A(M α + b) less external wrenches, with gravity as an upward acceleration of the world.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            f_ext: Wrenches by frame, as for `inverse_dynamics`.
            out: Five arrays for the results.
        """
