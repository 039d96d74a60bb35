"""Mimic joints: coupled to the joints that they mimic, locked where these put them, or made independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.errors import InputError, LoadError
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.source import clipped
from kinetree.model.coupling import LinearCoupling
from kinetree.model.record import frozen
from kinetree.model.specs import JointSpec, Mimic


def mimicked(
    hinges: Sequence[JointSpec], joints: Mapping[str, JointSpec], options: Options, findings: Findings
) -> tuple[list[JointSpec], dict[str, object]]:
    """Joints that follow others, and joints to lock, by name, with their configurations: the user's, and mimic joints.

    Args:
        hinges: The joints of the model.
        joints: All joints of the file, possibly more than those of the model.
        options: The options of `load`.
        findings: Collects mimic joints that cannot be treated as asked.
    """
    followers: list[JointSpec] = []
    locks: dict[str, object] = dict(options.lock)
    known = {name: value for name, value in options.lock.items() if name in joints}
    mimics = [hinge for hinge in hinges if hinge.mimic is not None]
    by_name = {hinge.name: hinge for hinge in hinges} if mimics else {}
    for hinge in mimics:
        mimic = hinge.mimic
        if mimic is None or hinge.name in options.lock:
            continue
        if mimic.joint not in joints:
            findings.add("joints that mimic a joint that is not in the file", _rule(hinge.name, mimic), hinge.line)
        elif options.mimic == "independent":
            problem = 'mimic joints have independent coordinates (load with mimic="couple")'
            findings.add(problem, _rule(hinge.name, mimic), hinge.line)
        if options.mimic == "lock":
            locks[hinge.name] = _followed(hinge.name, joints, known, findings.file)
        elif options.mimic == "couple" and mimic.joint in joints:
            _require_end(hinge.name, joints, findings.file)
            leader = by_name.get(mimic.joint)
            # a leader that cannot move, or is not part of the model, holds its followers; so does a multiplier of zero
            if leader is None or leader.kind == "fixed" or mimic.multiplier == 0.0:
                locks[hinge.name] = _followed(hinge.name, joints, known, findings.file)
            elif leader.kind not in ("revolute", "prismatic"):
                raise LoadError(
                    f"joint {clipped(hinge.name)} mimics joint {clipped(leader.name)}, a {leader.kind} joint; only "
                    'joints with one coordinate can be mimicked. Delete its <mimic>, or load with mimic="independent"',
                    findings.file,
                    hinge.line,
                )
            else:
                followers.append(hinge)
    return followers, locks


def couplings(followers: Sequence[JointSpec]) -> list[LinearCoupling]:
    """The couplings of joints that follow others."""
    made = []
    for hinge in followers:
        if hinge.mimic is not None:
            ends, slopes = (hinge.name, hinge.mimic.joint), frozen((1.0, -hinge.mimic.multiplier), (2,))
            made.append(LinearCoupling.trusted(joints=ends, coefficients=slopes, offset=hinge.mimic.offset))
    return made


def _rule(name: str, mimic: Mimic) -> str:
    """How a joint mimics another one, for messages."""
    return f"{name} = {mimic.multiplier:g}·{mimic.joint} + {mimic.offset:g}"


def _require_end(name: str, joints: Mapping[str, JointSpec], file: str) -> None:
    """Raise if a joint mimics itself, directly or through others."""
    first, seen = name, set[str]()
    while name in joints and (mimic := joints[name].mimic) is not None:
        if name in seen:
            raise LoadError(f"joint {clipped(first)} mimics itself; delete its <mimic>", file, joints[first].line)
        seen.add(name)
        name = mimic.joint


def _followed(name: str, joints: Mapping[str, JointSpec], known: dict[str, Any], file: str) -> float:
    """Position of a joint when the joints that it mimics are at their locked or neutral positions.

    Args:
        name: Name of the joint.
        joints: All joints of the file.
        known: Known positions of joints, to which those along the chain are added.
        file: The file named in errors.
    """
    chain: dict[str, tuple[JointSpec, Mimic]] = {}
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
