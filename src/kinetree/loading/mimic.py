"""Joints that follow others: made independent and listed, or locked where they would be."""

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
    """Joints to lock, by name, each with its configuration: those that the user wants, and those that mimic others.

    Args:
        hinges: The joints of the model.
        joints: All joints of the file, which may be more.
        options: What the user asks for.
        findings: Collects joints that mimic others.
    """
    locks: dict[str, object] = dict(options.lock)
    known = {name: value for name, value in options.lock.items() if name in joints}
    for hinge in hinges.values():
        mimic = hinge.mimic
        if mimic is None or hinge.name in options.lock:
            continue
        told = f"{hinge.name} = {mimic.multiplier:g}·{mimic.joint} + {mimic.offset:g}"
        if mimic.joint not in joints:
            findings.add("joints that mimic a joint that is not in the file", told, hinge.line)
        elif options.mimic == "independent":
            findings.add(
                'joints that mimic others are coordinates of their own here (load with mimic="lock" to fix them, or '
                "couple them in your code)",
                told,
                hinge.line,
            )
        if options.mimic == "lock":
            locks[hinge.name] = _followed(hinge.name, joints, known, findings.file)
    return locks


def _followed(name: str, joints: Mapping[str, Hinge], known: dict[str, Any], file: str) -> float:
    """Where a joint is when those that it mimics are locked where the user wants them, or neutral.

    Args:
        name: Of the joint.
        joints: All of the file.
        known: Where joints are; grows by those on the way.
        file: Named in errors.
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
            problem = f"joint {clipped(hinge.name)} mimics others to a place that is not finite; correct <mimic>"
            raise LoadError(problem, file, hinge.line)
    return value
