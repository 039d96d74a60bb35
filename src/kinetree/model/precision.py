"""Whether the numbers of a model can be rounded to the format in which its functions compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kinetree.engines.formats import FLOAT64, Format
from kinetree.errors import ModelError
from kinetree.model.body import Body
from kinetree.model.joint import Joint
from kinetree.recursion.mechanism import Mechanism, Site


def require_representable(
    scalar: Format, bodies: Iterable[Body], joints: Iterable[Joint], mechanism: Mechanism, sites: Iterable[Site]
) -> None:
    """Raise if rounding makes a number infinite, or a mass, an inertia or an armature lose its digits.

    Other numbers may become zero: placements have entries of the size of rounding errors.

    Args:
        scalar: The format to round to.
        bodies: The model's bodies.
        joints: Its joints.
        mechanism: Its nodes.
        sites: Its frames.

    Raises:
        ModelError: Names the body, joint, node or frame, and the number.
    """
    if scalar is FLOAT64:
        return
    limits = np.finfo(scalar.dtype)
    least, most = float(limits.tiny), float(limits.max)
    for owner, what, values, vanishing in _numbers(bodies, joints, mechanism, sites):
        sizes = np.abs(values)
        for wrong, fault in ((sizes > most, "large"), ((sizes > 0.0) & (sizes < least), "small")):
            if wrong.any() and (fault == "large" or not vanishing):
                raise ModelError(
                    f"{owner}: {what} {sizes[wrong][0]:g} is too {fault} for {scalar.name}, whose numbers lie between "
                    f"{least:.3g} and {most:.3g}; use astype('float64')"
                )


def _numbers(
    bodies: Iterable[Body], joints: Iterable[Joint], mechanism: Mechanism, sites: Iterable[Site]
) -> Iterator[tuple[str, str, Any, bool]]:
    """Whose they are, what they are, the numbers, and whether they may vanish."""
    for body in bodies:
        yield f"body {body.name!r}", "mass", np.array([body.mass]), False
        # entries of a diagonal may be negligible, but not all of them
        yield f"body {body.name!r}", "inertia", np.diagonal(body.inertia).max(keepdims=True), False
    for joint in joints:
        yield f"joint {joint.name!r}", "armature", joint.armature, False
    for name, numbers in zip(mechanism.names, mechanism.parameters, strict=True):
        yield f"node {name!r}", "constant", numbers, True
    for site in sites:
        yield f"frame {site.name!r}", "placement", site.placement, True
    yield "the model", "gravity", mechanism.gravity, True
