"""Configurations and velocities of a model: limits, neutral and random ones, values by joint name, the manifold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.kinematics import manifold
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.body import frozen
from kinetree.model.loops.aggregation import Rate
from kinetree.model.loops.embedding import Loops
from kinetree.runtime.function import AnalyticFunction
from kinetree.runtime.quantity import quantity
from kinetree.spatial.value import Array


class Configurations(Loops):
    """Methods of `Model` that concern q and v as such."""

    @cached_property
    def lower_limits(self) -> Array:
        """Lower position limits, (nq,) [rad or m]; −∞ where there is none, as for quaternions."""
        return self._limits("lower", -np.inf, self.nq)

    @cached_property
    def upper_limits(self) -> Array:
        """Upper position limits, (nq,) [rad or m]; ∞ where there is none, as for quaternions."""
        return self._limits("upper", np.inf, self.nq)

    @cached_property
    def velocity_limits(self) -> Array:
        """Velocity limits, (nv,) [rad/s or m/s]; ∞ where there is none."""
        return self._limits("velocity", np.inf, self.nv)

    @cached_property
    def effort_limits(self) -> Array:
        """Effort limits, (nv,) [N m or N]; ∞ where there is none."""
        return self._limits("effort", np.inf, self.nv)

    @cached_property
    def armature(self) -> Array:
        """Reflected rotor inertias, (nv,) [kg m² or kg]."""
        return self._of_joints("armature")

    @cached_property
    def damping(self) -> Array:
        """Viscous damping of joints, (nv,) [N m s/rad or N s/m]; not part of the dynamics."""
        return self._of_joints("damping")

    @cached_property
    def friction(self) -> Array:
        """Dry friction of joints, (nv,) [N m or N]; not part of the dynamics."""
        return self._of_joints("friction")

    @cached_property
    def stiffness(self) -> Array:
        """Stiffness of springs at joints, (nv,) [N m/rad or N/m]; not part of the dynamics."""
        return self._of_joints("stiffness")

    @cached_property
    def spring_reference(self) -> Array:
        """Configuration in which these springs are at rest, (nq,); neutral where there is none."""
        q = self._neutral.copy()
        for joint in self.joints:
            if joint.spring is not None and joint.nq:
                q[joint.q_slice] = joint.spring.reference
        return frozen(q, (self.nq,))

    def _of_joints(self, what: str) -> Array:
        """One number for each degree of freedom; those of joints that follow others belong to none."""
        values = np.zeros(self.nv)
        for joint in self.joints:
            own: Any = getattr(joint.spring, what, None) if what == "stiffness" else getattr(joint, what)
            if own is not None and joint.nv:
                values[joint.v_slice] = own if joint.independent is None else own[list(joint.independent)]
        return frozen(values, (self.nv,))

    @property
    def keyframes(self) -> dict[str, Array]:
        """Named configurations, (nq,) each, such as "home"; those of an MJCF file. Loops are closed near them."""
        return {name: q.copy() for name, q in self._keyframes.items()}

    @cached_property
    def _keyframes(self) -> dict[str, Array]:
        own = {joint.name: joint.q_slice for joint in self.joints if joint.nq}
        found = {}
        for name, positions in self.named_positions:
            q = self._neutral.copy()
            for joint, values in positions:
                if joint in own:
                    q[own[joint]] = values
            found[name] = q if all(one.follows is not None for one in self.clusters) else self.close(q, hold=())
        return found

    def _limits(self, which: str, none: float, size: int) -> Array:
        values = np.full(size, none)
        for joint in self.joints:
            own = getattr(joint.limits, which)
            place = joint.q_slice if which in ("lower", "upper") else joint.v_slice
            if len(own) == place.stop - place.start:  # else its coordinates are a quaternion
                values[place] = own
        return frozen(values, (size,))

    def neutral(self) -> Array:
        """Configuration with zero angles and displacements and identity quaternions, (nq,), regardless of limits.

        Loops are closed: their joints are where the robot was built.
        """
        q: Array = self._neutral.copy()
        return q

    @cached_property
    def _neutral(self) -> Array:
        return self._rounded(self._coordinates.neutral())

    def random_configuration(self, rng: Any = None, shape: Any = ()) -> Array:
        """Configurations drawn uniformly, (*shape, nq): within finite limits, else in ±π rad and ±1 m.

        A seed gives the same configurations in float32, rounded.

        Args:
            rng: A NumPy generator, a seed, or None for fresh randomness.
            shape: Leading axes.

        Raises:
            LoopError: If loops can hardly ever be closed with independent joints drawn like that.
        """
        if all(one.follows is not None for one in self.clusters):
            drawn = self._coordinates.random(rng, shape)
        else:
            generator = self._coordinates.generator(rng)
            drawn = self.astype("float64")._drawn(lambda axes: self._coordinates.random(generator, axes), shape)
        return self._rounded(drawn)

    def q_from_dict(self, values: Mapping[str, Any]) -> Array:
        """Configuration from values by joint name; omitted joints are neutral, or where loops put them.

        Args:
            values: Scalars (…) for joints with one coordinate, else (…, n). Leading axes broadcast.
        """
        q = self._rounded(self._coordinates.q_from_dict(values))
        if all(one.follows is not None for one in self.clusters):
            return q
        hold: list[Rate] = []
        for cluster in (one for one in self.clusters if one.follows is None):
            given = [joint for joint in self.joints if joint.name in values and joint.child in cluster.bodies]
            # given independent joints are held, and others a guess; without them, whatever is given is held
            enough = {name for name, _ in cluster.independent}.issubset(joint.name for joint in given)
            moved = [(joint.name, i) for joint in given for i in range(joint.type.nv)]
            hold += moved if moved and not enough else cluster.independent
        return self.close(q, hold=hold)

    def v_from_dict(self, values: Mapping[str, Any]) -> Array:
        """Velocities, accelerations or torques by joint name; omitted joints are zero. See `q_from_dict`."""
        return self._rounded(self._coordinates.v_from_dict(values))

    def q_to_dict(self, q: Any) -> dict[str, Any]:
        """Configuration by joint name: a float for joints with one coordinate, an array for others and for batches."""
        return self._coordinates.q_to_dict(q)

    def v_to_dict(self, v: Any) -> dict[str, Any]:
        """Velocities, accelerations or torques by joint name; see `q_to_dict`."""
        return self._coordinates.v_to_dict(v)

    def joint_indices(self, joints: Sequence[str]) -> tuple[Array, Array]:
        """Indices of the coordinates of some joints, for code that uses another joint order.

            iq, iv = robot.joint_indices(order)
            your_q, your_M = q[..., iq], M[..., iv[:, None], iv]
            q[..., iq] = your_q                                    # and back

        Args:
            joints: Names of moving joints, in the desired order.

        Returns:
            Indices into q, (Σ nq,), and into v, (Σ nv,).
        """
        if isinstance(joints, str) or not isinstance(joints, Sequence):
            raise InputError(f"joint_indices() needs a list of joint names; got {joints!r}")
        by_name = {joint.name: joint for joint in self.joints}
        for name in joints:
            if not isinstance(name, str) or name not in by_name:
                raise UnknownNameError("moving joint", name, tuple(by_name))
        self._coordinates.require_free(joints)
        chosen = [by_name[name] for name in joints]
        iq = [i for joint in chosen for i in range(joint.q_start, joint.q_start + joint.nq)]
        iv = [i for joint in chosen for i in range(joint.v_start, joint.v_start + joint.nv)]
        return np.array(iq, dtype=np.intp), np.array(iv, dtype=np.intp)

    # -- the configuration manifold ------------------------------------------------------------------------------------

    @quantity(manifold.integrate, kind=AnalyticFunction)
    def integrate(self, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0, *, out: Array | None = None) -> Array:
        """Configuration reached from q at constant velocity v in dt seconds, (…, nq).

        Floating and planar joints follow the screw motion of their body-frame twist. Quaternions may have any nonzero
        length; those of the result have unit length. Complex numbers are accepted, for complex-step derivatives.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            dt: Seconds, (…).
            out: Array for the result.
        """

    @quantity(manifold.difference)
    def difference(self, q0: ArrayLike, q1: ArrayLike, *, out: Array | None = None) -> Array:
        """Velocity that takes q0 to q1 in one second, (…, nv): the inverse of `integrate`.

        Rotations take the shorter way round, at most π.

        Args:
            q0: Configuration, (…, nq).
            q1: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(manifold.dintegrate)
    def dintegrate(
        self, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0, *, out: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Derivatives of `integrate(q, v, dt)` with respect to q and v, two arrays (…, nv, nv).

        Both ends are tangents: to first order, `integrate(integrate(q, δq), v + δv, dt)` is
        `integrate(integrate(q, v, dt), dq @ δq + dv @ δv)`.

        Args:
            q: Configuration, (…, nq). The derivatives do not depend on it.
            v: Joint velocities, (…, nv).
            dt: Seconds, (…).
            out: Two arrays for the results.
        """

    @quantity(manifold.ddifference)
    def ddifference(
        self, q0: ArrayLike, q1: ArrayLike, *, out: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Derivatives of `difference(q0, q1)` with respect to q0 and q1, along their tangents, two arrays (…, nv, nv).

        Args:
            q0: Configuration, (…, nq).
            q1: Configuration, (…, nq).
            out: Two arrays for the results.
        """

    @quantity(manifold.tangent_map)
    def tangent_map(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Maps a change of the components of q to a tangent vector, (…, nv, nq).

        For a gradient g along the tangent, `tangent_map(q).T @ g` is the gradient with respect to the components of q.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(manifold.bracket)
    def bracket(self, x: ArrayLike, *, out: Array | None = None) -> Array:
        """Matrix of the Lie bracket, (…, nv, nv): [x, y] = `bracket(x) @ y`; zero for joints with q̇ = v.

        Args:
            x: Tangent, (…, nv).
            out: Array for the result.
        """

    @quantity(manifold.normalize)
    def normalize(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """The same configuration with unit quaternions, (…, nq); angles are unchanged.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """
