"""A model as text: its tree, one line per body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinetree.model.body import Body, Frame
from kinetree.model.joint import Joint


def printable(name: str) -> str:
    """A name on one line, with control characters shown as escape sequences."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def tree_text(bodies: Sequence[Body], joints: Mapping[str, Joint], frames: Sequence[Frame]) -> list[str]:
    """Lines that show a tree. Only branchings are indented, so that long serial chains stay narrow."""
    masses = {body.name: body.mass for body in bodies}
    children: dict[str, list[str]] = {name: [] for name in ("world", *masses)}
    for body in bodies:
        children[body.parent].append(body.name)
    marks: dict[str, list[str]] = {name: [] for name in children}
    for frame in frames:
        marks[frame.body].append(frame.name)

    rows = [("world", "", marks["world"])]
    pending = _branches(children["world"], "")
    while pending:
        name, lead, below = pending.pop()
        rows.append((lead + printable(name), _described(joints[name], masses[name]), marks[name]))
        pending += _branches(children[name], below)
    width = max(len(row[0]) for row in rows) + 2
    return [_line(head, text, names, width) for head, text, names in rows]


def _branches(names: Sequence[str], below: str) -> list[tuple[str, str, str]]:
    """Children, last first, with the prefix of their own line and that of their children's lines."""
    if len(names) == 1:
        return [(names[0], below, below)]
    last = names[-1] if names else ""
    return [
        (name, below + ("└─ " if name == last else "├─ "), below + ("   " if name == last else "│  "))
        for name in reversed(names)
    ]


def _described(joint: Joint, mass: float) -> str:
    if joint.coupled:
        where = "  coupled"
    elif not joint.type.nv:
        where = ""
    elif not joint.nv:
        where = f"  q{_range(joint.q_slice)}, on a loop"
    elif joint.nq == joint.nv == 1 and joint.q_start == joint.v_start:
        where = f"  [{joint.q_start}]"
    else:
        where = f"  q{_range(joint.q_slice)} v{_range(joint.v_slice)}"
    return f"{joint.kind} {printable(joint.name)}{where}  {mass:.4g} kg"


def _range(place: slice) -> str:
    return f"[{place.start}]" if place.stop - place.start == 1 else f"[{place.start}:{place.stop}]"


def _line(head: str, text: str, frames: Sequence[str], width: int) -> str:
    noted = f"  frames: {', '.join(map(printable, frames))}" if frames else ""
    return f"{head:<{width}}{text}{noted}".rstrip()
