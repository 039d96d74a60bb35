"""Builds a model from the links and joints of a file, in any order: roots, ordering, mimic joints, locks, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from kinetree.errors import InputError, LoadError, ModelError, UnknownNameError
from kinetree.io.collision import ShapeSpec, made_shapes
from kinetree.io.options import Diagnostics, Options
from kinetree.io.source import clipped, unused
from kinetree.language.mechanism import depth_first
from kinetree.model.body import frozen
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Constraint
from kinetree.model.loops.coupling import LinearCoupling
from kinetree.model.loops.loop import Loop
from kinetree.model.model import Model
from kinetree.model.physical import clearly_possible, fault
from kinetree.model.specs import HERE, WORLD_NAME, BodySpec, JointSpec, Mimic, Pose, constant, finite, made, unlimited

_GRAVITY = frozen((0.0, 0.0, -9.81), (3,))


def build(
    name: str,
    links: dict[str, BodySpec],
    joints: dict[str, JointSpec],
    options: Options,
    diagnostics: Diagnostics,
    loops: Sequence[Loop] = (),
    shapes: Sequence[ShapeSpec] = (),
) -> Model:
    """Build a model from the links, joints and shapes of a file, by name and in its order, which siblings keep."""
    above = _joints_above(links, joints, diagnostics.file)
    order, roots = _ordered(links, above, options, diagnostics.file)
    if not links:
        diagnostics.add("there are no links", "the model consists of the world only")
    bases = _bases(roots, joints, options)
    hinges = [bases[link] if link in bases else above[link] for link in order]
    names = _names(order, bases, options, diagnostics)
    _note_inertias([links[link] for link in order], hinges, diagnostics)
    gravity = _GRAVITY if options.gravity is None else frozen(options.gravity, (3,))
    couplings, locks = _mimicked(hinges, joints, options, diagnostics)
    bodies = [links[link] if link == body else links[link]._replace(name=body) for link, body in names.items()]
    parents = [names.get(hinge.parent, WORLD_NAME) for hinge in hinges]
    hinges = [
        hinge if hinge.parent == parent else hinge._replace(parent=parent)
        for hinge, parent in zip(hinges, parents, strict=True)
        if hinge.child in names
    ]
    places = {link: names.get(link, WORLD_NAME) for link in order}
    if options.root is None and WORLD_NAME not in links:
        places[WORLD_NAME] = WORLD_NAME  # USD's, which is no link
    parts, solid = made(bodies, hinges), made_shapes(shapes, places, options.mesh_directories(diagnostics.file))
    constraints: list[Constraint] = [*couplings, *loops]
    try:
        if options.loops == "multipliers":
            model = Model(name, gravity, *parts, equalities=constraints, shapes=solid)
        else:
            model = Model(name, gravity, *parts, constraints, (), _start(options.near, parts[1]), shapes=solid)
    except ModelError as error:
        out = 'loops="multipliers" or "ignore"' if loops else 'mimic="independent" or "lock"'
        raise LoadError(f"{error}; or load with {out}", diagnostics.file) from None
    model = model.reduced(locks) if locks else model
    require_order(model, options.joint_order)
    return model


def _start(near: Mapping[str, Any], joints: Sequence[Joint]) -> list[tuple[str, tuple[float, ...]]]:
    """Where loops are closed."""
    known = {joint.name: joint for joint in joints if joint.type.nq}
    found = []
    for name, values in near.items():
        if name not in known:
            raise UnknownNameError("moving joint (needed for near=)", name, tuple(known))
        found.append((name, tuple(finite(values, known[name].type.nq, f"near: joint {name!r}").tolist())))
    return found


def add_carried(joint: JointSpec, inner: Pose, links: dict[str, BodySpec], joints: dict[str, JointSpec]) -> None:
    """Add a joint that is not at its child's origin: it moves a massless link, to which the child is fixed.

    `inner` is the pose of the child in that link, at the joint.
    """
    carrier = unused(f"{joint.child} ({joint.name})", links)
    links[carrier] = BodySpec(carrier, line=joint.line)
    joints[joint.name] = joint._replace(child=carrier)
    add_fixed(joints, f"{joint.child}_joint", carrier, joint.child, inner, joint.line)


def add_fixed(joints: dict[str, JointSpec], name: str, parent: str, child: str, pose: Pose, line: int | None) -> None:
    """Add a fixed joint, under a name that is not taken."""
    name = unused(name, joints)
    joints[name] = JointSpec.fixed(name, parent, child, pose, line)


def loose_roots(
    names: Iterable[str], joints: Mapping[str, JointSpec], options: Options, what: str, file: str
) -> list[str] | None:
    """Links without a parent, to be fixed at their poses in the file; None if they float, or another is the root."""
    attached = [joint for joint in joints.values() if joint.parent == WORLD_NAME]
    if options.floating_base and options.root is None and attached:
        raise LoadError(
            f"joint {clipped(attached[0].name)} holds the {what} to the world, so it cannot float; load it without "
            "floating_base=True",
            file,
            attached[0].line,
        )
    if options.floating_base if options.root is None else not attached:
        return None
    held = {joint.child for joint in joints.values()}
    return [name for name in names if name not in held]


def _joints_above(links: Mapping[str, BodySpec], joints: Mapping[str, JointSpec], file: str) -> dict[str, JointSpec]:
    """The parent joint of each link that has one."""
    above: dict[str, JointSpec] = {}
    for joint in joints.values():
        if joint.parent not in links or joint.child not in links:
            role, link = ("parent", joint.parent) if joint.parent not in links else ("child", joint.child)
            shown = ", ".join(clipped(name, 30) for name in list(links)[:10]) or "none"
            raise LoadError(
                f"the {role} of joint {clipped(joint.name)} is link {clipped(link)}, which is not in the file; "
                f"add it or correct the name. There are: {shown}{', …' if len(links) > 10 else ''}",
                file,
                joint.line,
            )
        first = above.setdefault(joint.child, joint)
        if first is not joint:
            raise LoadError(
                f"link {clipped(joint.child)} has two parents: joint {_placed(first)} and joint {_placed(joint)}; "
                "a tree has no closed loops, delete one",
                file,
                joint.line,
            )
    return above


def _placed(joint: JointSpec) -> str:
    return clipped(joint.name) + ("" if joint.line is None else f" in line {joint.line}")


def _ordered(
    links: Mapping[str, BodySpec], above: Mapping[str, JointSpec], options: Options, file: str
) -> tuple[list[str], list[str]]:
    """The links to load, each after its parent, and the roots among them."""
    children: dict[str, list[str]] = {link: [] for link in links}
    for joint in above.values():
        children[joint.parent].append(joint.child)
    every_root = [link for link in links if link not in above]
    order = depth_first(every_root, children)
    if len(order) < len(links):
        raise _cycle(set(order), links, above, file)
    roots = every_root
    if options.root is not None:
        if options.root not in links:
            raise UnknownNameError("link (needed as root)", options.root, tuple(links))
        roots = [options.root]
        order = depth_first(roots, children)
    if options.joint_order:
        sort_branches(order, children, roots, {link: joint.name for link, joint in above.items()}, options.joint_order)
        order = depth_first(roots, children)
    return order, roots


def sort_branches(
    order: Sequence[str],
    children: Mapping[str, list[str]],
    roots: list[str],
    joint_above: Mapping[str, str],
    wanted: Sequence[str],
) -> None:
    """Sort siblings by the first joint of their branches in a list; `order` has parents before their children."""
    rank, last = {name: rank for rank, name in enumerate(wanted)}, len(wanted)
    ranks: dict[str, int] = {}
    for link in reversed(order):
        own = rank.get(joint_above.get(link, ""), last)
        ranks[link] = min([own, *(ranks[child] for child in children[link])])
    for siblings in (roots, *children.values()):
        siblings.sort(key=lambda link: ranks.get(link, last))


def _cycle(reached: set[str], links: Mapping[str, BodySpec], above: Mapping[str, JointSpec], file: str) -> LoadError:
    """The error that shows the links of one cycle, each followed by its parent."""
    link = next(link for link in links if link not in reached)
    path: dict[str, None] = {}
    while link not in path:
        path[link] = None
        link = above[link].parent
    names = list(path)
    cycle = names[names.index(link) :]
    shown = [clipped(each, 30) for each in [*cycle[:8], *(["…"] if len(cycle) > 8 else []), link]]
    return LoadError(
        f"links form a cycle, each carried by the next: {' → '.join(shown)}; delete one of their joints",
        file,
        above[link].line,
    )


def root_joint(root: str, roots: Sized) -> str:
    """The name of the joint between the world and a root."""
    return "root_joint" if len(roots) == 1 else f"{root}_root_joint"


def _bases(roots: Sequence[str], joints: Mapping[str, JointSpec], options: Options) -> dict[str, JointSpec]:
    """The joint between the world and each root."""
    bases: dict[str, JointSpec] = {}
    taken = set(joints)
    kind, none = ("floating", constant(0.0, 6)) if options.floating_base else ("fixed", constant(0.0, 0))
    for root in roots:
        name = unused(root_joint(root, roots), taken)
        taken.add(name)
        bases[root] = JointSpec(name, kind, "", root, HERE, (), unlimited(kind), none, none, none)
    return bases


def _names(
    order: Sequence[str], bases: Mapping[str, JointSpec], options: Options, diagnostics: Diagnostics
) -> dict[str, str]:
    """The name of each link's body; a root link "world" that is fixed to the world is the world itself and left out."""
    names = {link: link for link in order}
    if WORLD_NAME not in names:
        return names
    if WORLD_NAME in bases and not options.floating_base:
        del names[WORLD_NAME]
        return names
    name = names[WORLD_NAME] = unused(f"{WORLD_NAME}_link", names)
    diagnostics.add("a link may not be called 'world', the name of the inertial frame", f"it is now {name!r}")
    return names


def require_order(model: Model, wanted: Sequence[str]) -> None:
    """Raise unless the coordinates of the named joints come in this order."""
    if not wanted:
        return
    names = {joint.name: None for joint in model.joints}
    for name in wanted:
        if name not in names:
            raise UnknownNameError("moving joint", name, tuple(names))
    chosen = set(wanted)
    found = [name for name in names if name in chosen]
    for want, have in zip(wanted, found):
        if want != have:
            raise InputError(
                f"joint_order has {want!r} before {have!r}, but coordinates are ordered depth first: a joint before "
                f"its descendants, and each branch contiguous. The nearest possible order is {found}. For any other "
                "order, load without joint_order= and permute: iq, iv = robot.joint_indices(order); your_q = q[..., iq]"
            )


# -- mimic joints ------------------------------------------------------------------------------------------------------


def _mimicked(
    hinges: Sequence[JointSpec], joints: Mapping[str, JointSpec], options: Options, diagnostics: Diagnostics
) -> tuple[list[LinearCoupling], dict[str, object]]:
    """Couplings of mimic joints, and positions of joints to lock: the user's, and those of mimic joints.

    `hinges` are the joints of the model, `joints` all those of the file.
    """
    couplings: list[LinearCoupling] = []
    locks: dict[str, object] = dict(options.lock)
    known = {name: value for name, value in options.lock.items() if name in joints}
    mimics = [hinge for hinge in hinges if hinge.mimic is not None]
    by_name = {hinge.name: hinge for hinge in hinges} if mimics else {}
    for hinge in mimics:
        mimic = hinge.mimic
        if mimic is None or hinge.name in options.lock:
            continue
        if mimic.joint not in joints:
            diagnostics.add("joints that mimic a joint that is not in the file", _rule(hinge.name, mimic), hinge.line)
        elif options.mimic == "independent":
            problem = 'mimic joints have independent coordinates (load with mimic="couple")'
            diagnostics.add(problem, _rule(hinge.name, mimic), hinge.line)
        if options.mimic == "lock":
            locks[hinge.name] = _followed(hinge.name, joints, known, diagnostics.file)
        elif options.mimic == "couple" and mimic.joint in joints:
            _require_end(hinge.name, joints, diagnostics.file)
            leader = by_name.get(mimic.joint)
            # a leader that cannot move, or is not part of the model, holds its followers; so does a multiplier of zero
            if leader is None or leader.kind == "fixed" or mimic.multiplier == 0.0:
                locks[hinge.name] = _followed(hinge.name, joints, known, diagnostics.file)
            elif leader.kind not in ("revolute", "prismatic"):
                raise LoadError(
                    f"joint {clipped(hinge.name)} mimics joint {clipped(leader.name)}, a {leader.kind} joint; only "
                    'joints with one coordinate can be mimicked. Delete its <mimic>, or load with mimic="independent"',
                    diagnostics.file,
                    hinge.line,
                )
            else:
                ends, slopes = (hinge.name, leader.name), frozen((1.0, -mimic.multiplier), (2,))
                couplings.append(LinearCoupling.trusted(joints=ends, coefficients=slopes, offset=mimic.offset))
    return couplings, locks


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
    """Position of a joint when those that it mimics are locked or neutral; `known` positions are extended."""
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


# -- inertias ----------------------------------------------------------------------------------------------------------


def _note_inertias(links: Sequence[BodySpec], hinges: Sequence[JointSpec], diagnostics: Diagnostics) -> None:
    """Report what no body can have, and links that move without mass; `links` come after their parents."""
    massless = False
    for link, hinge in zip(links, hinges):
        mass, (xx, xy, xz, yx, yy, yz, zx, zy, zz) = link.mass, link.inertia
        if mass > 0.0 and clearly_possible(xx, yy, zz, xy, xz, yz):
            continue
        if mass >= 0.0 and not any(link.inertia):
            if mass > 0.0:
                diagnostics.add("mass without rotational inertia (a point mass)", f"link {link.name!r}", link.line)
            elif hinge.kind != "fixed":
                massless = True
            continue
        problem = fault(mass, [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]])
        if problem is not None:
            diagnostics.add("unphysical inertias", f"link {link.name!r}: {problem}", link.line)
    if massless:
        _note_massless(links, hinges, diagnostics)


def _note_massless(links: Sequence[BodySpec], hinges: Sequence[JointSpec], diagnostics: Diagnostics) -> None:
    """Note links that move without mass of their own or of what is fixed to them."""
    carrier: dict[str, str] = {}
    heavy: dict[str, bool] = {}
    for link, hinge in zip(links, hinges):
        name, moving = link.name, hinge.kind != "fixed"
        carrier[name] = name if moving or hinge.parent not in carrier else carrier[hinge.parent]
        if moving:
            heavy[name] = False
        if carrier[name] in heavy and (link.mass != 0.0 or any(link.inertia)):
            heavy[carrier[name]] = True
    for link in links:
        if not heavy.get(link.name, True):
            diagnostics.add(
                "moving links without mass (functions that need the inverse of the mass matrix may raise)",
                f"link {link.name!r}",
                link.line,
            )
