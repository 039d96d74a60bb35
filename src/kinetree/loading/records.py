"""Makes the bodies and joints of a model from links and joints of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from kinetree.loading.description import Hinge, Link
from kinetree.loading.poses import pose_at
from kinetree.model.body import Body
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS
from kinetree.model.parts import WORLD_NAME
from kinetree.model.record import frozen, frozen_tables
from kinetree.spatial.value import Array


@lru_cache(maxsize=4096)  # joints of one robot often have the same damping
def _everywhere(value: float, count: int) -> Array:
    return frozen(np.full(count, value), (count,))


@lru_cache(maxsize=4096)
def _several(axes: tuple[float, ...]) -> Array:
    """The axes of a joint with none or two of them."""
    return frozen(axes, (len(axes) // 3, 3))


_LAST = (0.0, 0.0, 0.0, 1.0)  # row of a pose
_NONE = [_everywhere(0.0, nv) for nv in range(7)]


def records(
    names: Mapping[str, str], links: Mapping[str, Link], hinges: Sequence[Hinge]
) -> tuple[list[Body], list[Joint]]:
    """Bodies and their joints, numbered in this order.

    Args:
        names: The name of the body of each link that becomes one.
        links: By name.
        hinges: The joint above each of these.
    """
    own = [links[link] for link in names]
    coms, inertias, placements, axes = frozen_tables(
        ([link.com for link in own], (3,)),
        ([link.inertia for link in own], (3, 3)),
        ([(*pose_at(*hinge.placement), *_LAST) for hinge in hinges], (4, 4)),
        ([hinge.axes for hinge in hinges if len(hinge.axes) == 3], (1, 3)),
    )
    along = iter(axes)
    bodies, joints = [], []
    q_start = v_start = 0
    for link, hinge, com, inertia, placement in zip(own, hinges, coms, inertias, placements, strict=True):
        kind = KINDS[hinge.kind]
        body, parent, none = names[link.name], names.get(hinge.parent, WORLD_NAME), _NONE[kind.nv]
        bodies.append(
            Body.trusted(name=body, parent=parent, joint=hinge.name, mass=link.mass, com=com, inertia=inertia)
        )
        joints.append(
            Joint.trusted(
                name=hinge.name,
                kind=hinge.kind,
                parent=parent,
                child=body,
                placement=placement,
                axes=next(along) if kind.axes == 1 else _several(hinge.axes),
                pitch=0.0,
                armature=none,
                limits=Limits.trusted(hinge.limits),
                damping=_everywhere(hinge.damping, kind.nv) if hinge.damping else none,
                friction=_everywhere(hinge.friction, kind.nv) if hinge.friction else none,
                q_start=q_start,
                v_start=v_start,
            )
        )
        q_start, v_start = q_start + kind.nq, v_start + kind.nv
    return bodies, joints
