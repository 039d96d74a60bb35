"""Configurations and velocities of a model: limits, neutral and random ones, values by joint name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.body import frozen
from kinetree.model.coordinates import Coordinates
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Rate
from kinetree.spatial.value import Array


class Configurations:
    """Methods of `Model` that concern q and v as such."""

    if TYPE_CHECKING:
        joints: tuple[Joint, ...]
        clusters: tuple[Cluster, ...]

        @property
        def nq(self) -> int: ...

        @property
        def nv(self) -> int: ...

        @property
        def _coordinates(self) -> Coordinates: ...

        def _rounded(self, array: Array) -> Array: ...

        def astype(self, dtype: Any) -> Any: ...

        def close(self, q: Any, hold: Any = None) -> Array: ...

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

    def q_to_dict(self, q: Any) -> dict[str, Array]:
        """Configuration by joint name; values of joints with one coordinate have no axis for it."""
        return self._coordinates.q_to_dict(q)

    def v_to_dict(self, v: Any) -> dict[str, Array]:
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
