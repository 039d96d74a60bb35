"""Builds a model from links and joints in any order: roots, ordering, mimic joints, locks and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinetree.errors import InputError, LoadError, ModelError, UnknownNameError
from kinetree.loading.findings import Findings
from kinetree.loading.inertias import note_inertias
from kinetree.loading.mimic import couplings, mimicked
from kinetree.loading.options import Options
from kinetree.loading.source import clipped
from kinetree.model.model import Model
from kinetree.model.record import frozen
from kinetree.model.specs import HERE, WORLD_NAME, BodySpec, JointSpec, constant, made, unlimited
from kinetree.recursion.topology import depth_first

_GRAVITY = frozen((0.0, 0.0, -9.81), (3,))
_ROOT_JOINT = "root_joint"


def build(
    name: str, links: dict[str, BodySpec], joints: dict[str, JointSpec], options: Options, findings: Findings
) -> Model:
    """Build a model from links and joints.

    Args:
        name: Name of the model.
        links: By name, in the file's order.
        joints: By name, in the file's order, which siblings keep.
        options: The options of `load`.
        findings: Collects warnings; its file is named in errors.
    """
    above = _joints_above(links, joints, findings.file)
    order, roots = _ordered(links, above, options, findings.file)
    if not links:
        findings.add("there are no links", "the model consists of the world only")
    bases = _bases(roots, joints, options)
    hinges = [bases[link] if link in bases else above[link] for link in order]
    names = _names(order, bases, options, findings)
    note_inertias([links[link] for link in order], hinges, findings)
    gravity = _GRAVITY if options.gravity is None else frozen(options.gravity, (3,))
    followers, locks = mimicked(hinges, joints, options, findings)
    bodies = [links[link] if link == body else links[link]._replace(name=body) for link, body in names.items()]
    parents = [names.get(hinge.parent, WORLD_NAME) for hinge in hinges]
    hinges = [
        hinge if hinge.parent == parent else hinge._replace(parent=parent)
        for hinge, parent in zip(hinges, parents, strict=True)
        if hinge.child in names
    ]
    try:
        model = Model(name, gravity, *made(bodies, hinges), couplings(followers))
    except ModelError as error:
        raise LoadError(f'{error}; or load with mimic="independent" or "lock"', findings.file) from None
    model = model.reduced(locks) if locks else model
    require_order(model, options.joint_order)
    return model


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
        wanted = {name: rank for rank, name in enumerate(options.joint_order)}
        last = len(wanted)
        ranks: dict[str, int] = {}
        for link in reversed(order):
            own = wanted.get(above[link].name, last) if link in above else last
            ranks[link] = min([own, *(ranks[child] for child in children[link])])
        for siblings in (roots, *children.values()):
            siblings.sort(key=lambda link: ranks.get(link, last))
        order = depth_first(roots, children)
    return order, roots


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


def _bases(roots: Sequence[str], joints: Mapping[str, JointSpec], options: Options) -> dict[str, JointSpec]:
    """The joint between the world and each root."""
    bases: dict[str, JointSpec] = {}
    taken = set(joints)
    kind, none = ("floating", constant(0.0, 6)) if options.floating_base else ("fixed", constant(0.0, 0))
    for root in roots:
        name = _ROOT_JOINT if len(roots) == 1 else f"{root}_{_ROOT_JOINT}"
        while name in taken:
            name += "_"
        taken.add(name)
        bases[root] = JointSpec(name, kind, "", root, HERE, (), unlimited(kind), none, none, none)
    return bases


def _names(
    order: Sequence[str], bases: Mapping[str, JointSpec], options: Options, findings: Findings
) -> dict[str, str]:
    """The name of each link's body; a root link "world" that is fixed to the world is the world itself and left out."""
    names = {link: link for link in order}
    if WORLD_NAME not in names:
        return names
    if WORLD_NAME in bases and not options.floating_base:
        del names[WORLD_NAME]
        return names
    name = f"{WORLD_NAME}_link"
    while name in names:
        name += "_"
    names[WORLD_NAME] = name
    findings.add("a link may not be called 'world', the name of the inertial frame", f"it is now {name!r}")
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
