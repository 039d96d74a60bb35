"""Mimic joints: made independent and reported, or locked at the position that follows from the mimicked joint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinetree.errors import InputError, LoadError
from kinetree.loading.description import Hinge, Mimic
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.source import clipped


def locks_of(
    hinges: Mapping[str, Hinge], joints: Mapping[str, Hinge], options: Options, findings: Findings
) -> dict[str, object]:
    """Joints to lock, by name, with their configurations: those that the user locks, and mimic joints.

    Args:
        hinges: The joints of the model.
        joints: All joints of the file, possibly more than those of the model.
        options: The options of `load`.
        findings: Collects mimic joints.
    """
    locks: dict[str, object] = dict(options.lock)
    known = {name: value for name, value in options.lock.items() if name in joints}
    for hinge in hinges.values():
        mimic = hinge.mimic
        if mimic is None or hinge.name in options.lock:
            continue
        rule = f"{hinge.name} = {mimic.multiplier:g}·{mimic.joint} + {mimic.offset:g}"
        if mimic.joint not in joints:
            findings.add("joints that mimic a joint that is not in the file", rule, hinge.line)
        elif options.mimic == "independent":
            findings.add(
                'mimic joints have independent coordinates here (load with mimic="lock" to fix them, or couple them in '
                "your code)",
                rule,
                hinge.line,
            )
        if options.mimic == "lock":
            locks[hinge.name] = _followed(hinge.name, joints, known, findings.file)
    return locks


def _followed(name: str, joints: Mapping[str, Hinge], known: dict[str, Any], file: str) -> float:
    """Position of a joint when the joints that it mimics are at their locked or neutral positions.

    Args:
        name: Name of the joint.
        joints: All joints of the file.
        known: Known positions of joints, to which those along the chain are added.
        file: The file named in errors.
    """
    chain: dict[str, tuple[Hinge, Mimic]] = {}
    while name in joints and name not in known and (mimic := joints[name].mimic) is not None:
        if name in chain:
            raise LoadError(f"joint {clipped(name)} mimics itself; delete its <mimic>", file, joints[name].line)
        chain[name] = joints[name], mimic
        name = mimic.joint
    locked = np.asarray(known.get(name, 0.0))
    if locked.size != 1 or locked.dtype.kind not in "iuf":
        raise InputError(f"joint {name!r} is locked at one real number, got {known[name]!r}")
    value = float(locked.reshape(()))
    for hinge, mimic in reversed(chain.values()):
        value = known[hinge.name] = mimic.multiplier * value + mimic.offset
        if not abs(value) < 1e100:
            problem = f"the position of mimic joint {clipped(hinge.name)} is not finite; correct <mimic>"
            raise LoadError(problem, file, hinge.line)
    return value
