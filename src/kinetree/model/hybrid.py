"""Hybrid dynamics: `robot.hybrid_dynamics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinetree.algorithms.dynamics.hybrid_dynamics import hybrid_dynamics
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.base import ModelBase
from kinetree.model.results import HybridDynamics
from kinetree.model.singularity import require_invertible
from kinetree.runtime.function import ForcedFunction
from kinetree.spatial.value import Array


class Hybrid(ModelBase):
    """Dynamics with given accelerations of some joints."""

    @cached_property
    def _hybrid(self) -> ForcedFunction[..., Any]:
        given: dict[str, Any] = {"guard": require_invertible, "bundle": HybridDynamics, "site": self.site}
        return ForcedFunction("hybrid_dynamics", self.mechanism, hybrid_dynamics, **given)

    def hybrid_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        x: ArrayLike,
        prescribed: Iterable[str],
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: tuple[Array, Array] | None = None,
    ) -> HybridDynamics:
        """Accelerations and forces of all joints, in O(n), where accelerations of some are prescribed, (…, nv) each.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            x: Joint accelerations of the prescribed joints, joint forces of the others, (…, nv).
            prescribed: Names of the prescribed joints. Joints that are coupled to each other go together.
            f_ext: Wrenches by frame, as for `forward_dynamics`.
            out: Two arrays for the results.
        """
        return self._hybrid(q, v, x, self._mask(prescribed), f_ext, out=out)  # type: ignore[no-any-return]

    def _mask(self, prescribed: Iterable[str]) -> Array:
        """1 for the velocities of some joints, (nv,)."""
        names = tuple(prescribed) if not isinstance(prescribed, str) else (prescribed,)
        known = {joint.name: joint for joint in self.joints}
        mask = np.zeros(self.nv)
        for name in names:
            if name not in known:
                raise UnknownNameError("joint", name, tuple(known))
            mask[known[name].v_slice] = 1.0
        for node, (start, stop) in zip(self.mechanism.names, pairwise(self.mechanism.v_starts)):
            if len(set(mask[start:stop].tolist())) > 1:
                raise InputError(f"hybrid_dynamics: joints of the {node} depend on each other; prescribe all or none")
        return mask
