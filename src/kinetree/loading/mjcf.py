"""MJCF, through MuJoCo's own compiler: defaults, includes, inertias of shapes and all else are read as MuJoCo does."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np

from kinetree.errors import KinetreeError, LoadError, UnknownNameError
from kinetree.interop.mujoco_model import converted
from kinetree.loading.findings import Findings
from kinetree.loading.options import Options
from kinetree.loading.source import Source
from kinetree.loading.tree import require_order, walk
from kinetree.model.body import Body
from kinetree.model.builder import WORLD_NAME
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model

INSTALL = 'pip install "kinetree[mujoco]"'

_LINE = re.compile(r"\bline(?: number)?\s*=?\s*(\d+)", re.IGNORECASE)

# Elements that make many of what stands in them. The compiler takes minutes for tens of thousands.
_MOST_COPIES = 2_000
_COPYING = re.compile(r"<!--.*?-->|<(/?)(replicate|composite|flexcomp)\b([^>]*)>", re.DOTALL)
_COUNT = re.compile(r"""\bcount\s*=\s*["']([^"']*)["']""")


def load_mjcf(source: Source, options: Options, findings: Findings) -> Model:
    """The model of an MJCF file.

    Args:
        source: Its text. A file is opened once more by MuJoCo, with what it includes and the meshes that give inertias.
        options: What the user asks for. There are no mimic joints: MuJoCo's equality constraints are noted.
        findings: Collects what Kinetree does not model.
    """
    try:
        _refuse_many_copies(source)
        model, notes = converted(compiled(source, findings))
    except LoadError:
        raise
    except KinetreeError as error:
        raise LoadError(str(error), source.file) from error
    for note in notes:
        findings.add("Kinetree does not model", note)
    if options.root is not None:
        model = _rooted(model, options.root)
    if options.floating_base:
        model = _floating(model, source.file)
    if options.gravity is not None:
        model = Model(model.name, options.gravity, model.bodies, _joints(model), model.extra_frames)
    if options.lock:
        model = model.reduced(options.lock)
    if options.joint_order:
        model = _ordered(model, options.joint_order)
    require_order(model, options.joint_order)
    return model


def _refuse_many_copies(source: Source) -> None:
    """Raise if elements that copy others, nested ones multiplied, ask for too many."""
    copies, total = [1.0], 0.0
    for found in _COPYING.finditer(source.text):
        closing, tag, attributes = found.groups()
        if tag is None:
            continue
        if closing:
            copies = copies[:-1] or [1.0]
            continue
        count = _COUNT.search(attributes)
        counts = re.findall(r"\d+", count[1]) if count else []
        copies.append(copies[-1] * math.prod(max(1.0, float(number)) for number in counts))
        total += copies[-1]
        if total > _MOST_COPIES:
            raise LoadError(
                f"<{tag}> brings the number of copies to {total:.0f}, more than {_MOST_COPIES}; compile it with MuJoCo "
                "yourself and give the result to kinetree.from_mujoco()",
                source.file,
                source.text.count("\n", 0, found.start()) + 1,
            )
        if attributes.endswith("/"):
            copies.pop()


def compiled(source: Source, findings: Findings) -> Any:
    """MuJoCo's model of a text; its warnings become findings instead of lines in a log file."""
    try:
        import mujoco
    except ModuleNotFoundError:
        raise LoadError(
            f"MJCF is read by MuJoCo, which is not installed. Install it with: {INSTALL}", source.file
        ) from None
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: findings.add("MuJoCo warns", " ".join(text.split())))
    try:
        if source.path is None:
            return mujoco.MjModel.from_xml_string(source.text)
        return mujoco.MjModel.from_xml_path(str(source.path))
    except (ValueError, mujoco.FatalError) as error:
        told = " ".join(str(error).split())
        line = _LINE.search(told)
        raise LoadError(f"MuJoCo cannot compile it: {told}", source.file, int(line[1]) if line else None) from None
    finally:
        mujoco.set_mju_user_warning(before)


def _joints(model: Model) -> list[Joint]:
    """The joint in front of each body, fixed ones too, in the order of the bodies."""
    return [model.joint(body.joint) for body in model.bodies]


def _based(joint: Joint, kind: str, name: str) -> Joint:
    """A joint between the world's origin and a root."""
    none = np.zeros(KINDS[kind].nv)
    limits = Limits().expanded(KINDS[kind])
    return Joint(name, kind, WORLD_NAME, joint.child, np.eye(4), np.zeros((0, 3)), 0.0, none, limits, none, none, 0, 0)


def _rooted(model: Model, root: str) -> Model:
    """What a body carries, with the body fixed at the world's origin."""
    if all(body.name != root for body in model.bodies):
        raise UnknownNameError("body, wanted as root,", root, tuple(body.name for body in model.bodies))
    part = model.subtree(root)
    joints = _joints(part)
    joints[0] = _based(joints[0], "fixed", joints[0].name)
    return Model(model.name, model.gravity, part.bodies, joints, part.extra_frames)


def _floating(model: Model, file: str) -> Model:
    """The model with its fixed roots set free; one with a free joint floats already."""
    joints = _joints(model)
    roots = [i for i, joint in enumerate(joints) if joint.parent == WORLD_NAME]
    if any(joints[i].kind == "floating" for i in roots):
        return model
    fixed = [i for i in roots if joints[i].kind == "fixed"]
    if not fixed:
        raise LoadError("has no body fixed to the world that could float; put its bodies into one without joints", file)
    taken = {joint.name for joint in joints}
    bodies = list(model.bodies)
    for i in fixed:
        name = "root_joint" if len(fixed) == 1 else f"{joints[i].child}_root_joint"
        while name in taken:
            name += "_"
        joints[i] = _based(joints[i], "floating", name)
        bodies[i] = replace(bodies[i], joint=name)
    return Model(model.name, model.gravity, bodies, joints, model.extra_frames)


def _ordered(model: Model, wanted: tuple[str, ...]) -> Model:
    """The model with siblings in the order in which their branches come first in a list of joints."""
    children: dict[str, list[str]] = {name: [] for name in (WORLD_NAME, *(body.name for body in model.bodies))}
    for body in model.bodies:
        children[body.parent].append(body.name)
    ranks: dict[str, int] = {}
    for body in reversed(model.bodies):
        own = wanted.index(body.joint) if body.joint in wanted else len(wanted)
        ranks[body.name] = min([own, *(ranks[child] for child in children[body.name])])
    for siblings in children.values():
        siblings.sort(key=lambda name: ranks[name])
    by_name: dict[str, Body] = {body.name: body for body in model.bodies}
    bodies = [by_name[name] for name in walk(children[WORLD_NAME], children)]
    return Model(model.name, model.gravity, bodies, [model.joint(body.joint) for body in bodies], model.extra_frames)
