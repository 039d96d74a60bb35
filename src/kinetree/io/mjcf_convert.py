"""Loads MJCF with MuJoCo's own compiler, so that defaults and inertias are interpreted as in MuJoCo."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from kinetree.concurrency import ForkSafeLock
from kinetree.errors import KinetreeError, LoadError, UnknownNameError
from kinetree.interop.mujoco_models import converted
from kinetree.io.build import require_order, root_joint, sort_branches
from kinetree.io.mjcf_file import Directory, Origin
from kinetree.io.mjcf_reduce import Reduction
from kinetree.io.options import Diagnostics, Options
from kinetree.io.source import Source, unused
from kinetree.language.mechanism import depth_first
from kinetree.model.body import Body
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints import KINDS
from kinetree.model.model import Model
from kinetree.model.specs import WORLD_NAME

INSTALL = 'pip install "kinetree[mujoco]"'

_LINE = re.compile(r"\bline(?: number)?\s*=?\s*(\d+)", re.IGNORECASE)

# masses times squares of sums of lengths below this are finite
_SMALL = 1e60

# MuJoCo has a single warning handler for all threads
_HANDLER = ForkSafeLock()


def load_mjcf(source: Source, options: Options, diagnostics: Diagnostics) -> Model:
    """Load an MJCF file."""
    options.require_collision("MJCF")
    reduction = Reduction(
        source, Directory(source, options.directory), diagnostics, equalities=options.loops != "ignore",
        collisions=options.shapes is not None,
    )  # fmt: skip
    try:
        found = compiled(reduction, diagnostics)
        reduction.require_whole()
        model, notes = converted(
            found, reduction.unmodelled, loops=options.loops, mimic=options.mimic, near=options.near,
            hulls=reduction.text.hulls,
        )  # fmt: skip
    except LoadError:
        raise
    except KinetreeError as error:
        raise LoadError(str(error), source.file) from error
    if not _is_small(found) and not np.isfinite(model.mechanism.total_parameters).all():
        raise LoadError("its numbers are too large; correct them", source.file)
    for note in notes.odd:
        diagnostics.add("Kinetree does not model", note)
    counts = {
        "signed distance fields that collide": reduction.bodies.left_out,
        "pairs of geoms that are left out, or of attached or replicated bodies": reduction.pairs,
    }
    diagnostics.log("left out", [*notes.usual, *(f"{what} ({count})" for what, count in counts.items() if count)])
    if options.root is not None:
        model = _rooted(model, options.root)
    if options.floating_base:
        model = _floating(model, source.file)
    if options.gravity is not None:
        model = model.with_gravity(options.gravity)
    if options.lock:
        model = model.reduced(options.lock)
    if options.joint_order:
        model = _ordered(model, options.joint_order)
    require_order(model, options.joint_order)
    return model


def _is_small(compiled: Any) -> bool:
    """Whether a model without constraints has numbers so small that those of its nodes cannot overflow."""
    names = (
        "body_mass", "body_inertia", "body_pos", "body_ipos", "jnt_pos", "site_pos", "qpos0", "dof_armature",
        "actuator_gear", "actuator_armature",
    )  # fmt: skip
    given = [getattr(compiled, name, np.zeros(0)) for name in names]  # older versions lack the last
    return not compiled.neq and all(np.abs(numbers).max(initial=0.0) < _SMALL for numbers in given)


def compiled(reduction: Reduction, diagnostics: Diagnostics) -> Any:
    """Compile a reduced file with MuJoCo; its warnings become diagnostics instead of lines in a log file."""
    try:
        import mujoco
    except ModuleNotFoundError:
        raise LoadError(
            f"MJCF is read by MuJoCo, which is not installed. Install it with: {INSTALL}", diagnostics.file
        ) from None
    told: list[str] = []
    with _HANDLER:
        before = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(told.append)
        try:
            return mujoco.MjModel.from_xml_string(reduction.content, reduction.text.assets)
        except (ValueError, mujoco.FatalError) as error:
            problem = " ".join(str(error).split())
            raise _origin(problem, reduction).error(f"MuJoCo cannot compile it: {problem[:500]}") from None
        finally:
            mujoco.set_mju_user_warning(before)
            for warning in told:
                diagnostics.add("MuJoCo warns", " ".join(warning.split()))


def _origin(problem: str, reduction: Reduction) -> Origin:
    """The origin of a message in the original file, from the line of the reduced file that it names."""
    line = _LINE.search(problem)
    number = int(line[1]) if line and len(line[1]) < 9 else 0
    origins = reduction.text.origins
    return origins[number - 1] if 0 < number <= len(origins) else Origin(origins[-1].file, None)


def _based(joint: Joint, kind: str, name: str) -> Joint:
    """A joint between the world's origin and a root."""
    none = np.zeros(KINDS[kind].nv)
    limits = Limits().expanded(KINDS[kind])
    return Joint(name, kind, WORLD_NAME, joint.child, np.eye(4), np.zeros((0, 3)), 0.0, none, limits, none, none, 0, 0)


def _rooted(model: Model, root: str) -> Model:
    """The subtree of a body, with the body fixed at the world's origin."""
    if all(body.name != root for body in model.bodies):
        raise UnknownNameError("body (needed as root)", root, tuple(body.name for body in model.bodies))
    part = model.subtree(root)
    joints = list(part._every_joint)
    joints[0] = _based(joints[0], "fixed", joints[0].name)
    return part._edited(name=model.name, joints=joints, constraints=part.joint_constraints)


def _floating(model: Model, file: str) -> Model:
    """The model with its fixed roots floating; a root with a free joint floats already."""
    joints = list(model._every_joint)
    roots = [i for i, joint in enumerate(joints) if joint.parent == WORLD_NAME]
    if any(joints[i].kind == "floating" for i in roots):
        return model
    fixed = [i for i in roots if joints[i].kind == "fixed"]
    if not fixed:
        raise LoadError("has no fixed root body that could float; put its bodies inside one without joints", file)
    taken = {joint.name for joint in joints}
    bodies = list(model.bodies)
    for i in fixed:
        name = unused(root_joint(joints[i].child, fixed), taken)
        joints[i] = _based(joints[i], "floating", name)
        bodies[i] = replace(bodies[i], joint=name)
    return model._edited(bodies=bodies, joints=joints, constraints=model.joint_constraints)


def _ordered(model: Model, wanted: tuple[str, ...]) -> Model:
    """The model with siblings sorted by the first joint of their branches in a list."""
    children: dict[str, list[str]] = {name: [] for name in (WORLD_NAME, *(body.name for body in model.bodies))}
    for body in model.bodies:
        children[body.parent].append(body.name)
    by_name: dict[str, Body] = {body.name: body for body in model.bodies}
    roots, above = children[WORLD_NAME], {body.name: body.joint for body in model.bodies}
    sort_branches(tuple(by_name), children, roots, above, wanted)
    bodies = [by_name[name] for name in depth_first(roots, children)]
    joints = [model.joint(body.joint) for body in bodies]
    return model._edited(bodies=bodies, joints=joints, constraints=model.joint_constraints)
