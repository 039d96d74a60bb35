"""Poses of the links, joints and frames of an SDF model in its neutral configuration.

Every pose is relative to the model, a link, a joint or a frame. By default [SDF], a link's pose is relative to the
model, a joint's to its child, a frame's to what it is attached to.

[SDF] http://sdformat.org/tutorials?tut=pose_frame_semantics
"""

from __future__ import annotations

import math

from kinetree.loading.document import Document, Element
from kinetree.loading.poses import angles_rotation, composed, pose_at, quaternion_rotation
from kinetree.loading.source import clipped
from kinetree.model.specs import HERE, Pose

#: The frame of the model itself.
MODEL = "__model__"


def read_pose(document: Document, element: Element | None) -> Pose:
    """The pose of a <pose> element; `HERE` if there is none."""
    if element is None or not (element.text or "").strip():
        return HERE
    form = element.get("rotation_format", "euler_rpy")
    if form == "quat_xyzw":
        *p, x, y, z, w = document.numbers_inside(element, 7)
        if not math.hypot(x, y, z, w) > 0.0:
            raise document.error(element, "the quaternion of <pose> is zero; write 0 0 0 1 for no rotation")
        return pose_at(quaternion_rotation(w, x, y, z), p)
    if form != "euler_rpy":
        raise document.error(element, f"rotation_format={clipped(form)} of <pose> is not known; write euler_rpy")
    numbers = document.numbers_inside(element, 6)
    angles, written = numbers[3:], element.text
    if element.get("degrees", "false") in ("true", "1"):
        angles = tuple(map(math.radians, angles))
        written = " ".join(map(repr, angles))
    return pose_at(angles_rotation(document, element, written, angles), numbers[:3])


class SdfFrames:
    """Poses of links, joints and frames in the model's frame.

    Args:
        document: The file.
        model: The <model> element.
    """

    def __init__(self, document: Document, model: Element) -> None:
        self._document = document
        self._entries: dict[str, tuple[Element, str, Pose]] = {}
        self._resolved: dict[str, Pose] = {MODEL: HERE}
        self._attached: dict[str, str] = {}
        self.links = [link.get("name", "") for link in model.iterchildren("link")]
        for element in model.iterchildren("link", "joint", "frame"):
            name = document.text(element, "name")
            if name in self._entries or name in (MODEL, "world"):
                raise document.error(
                    element, f"the name {clipped(name)} is taken; links, joints and frames share names"
                )
            inside = {child.tag: child for child in element[::-1]}  # the first of each tag
            placed = inside.get("pose")
            to, carrier = MODEL, None
            if element.tag == "joint":
                to = carrier = (inside["child"].text or "").strip() if "child" in inside else ""
            elif element.tag == "frame":
                to = self._attached[name] = element.get("attached_to") or MODEL
            given = placed.get("relative_to") if placed is not None else None
            self._entries[name] = element, given or to, read_pose(document, placed)
            if carrier is not None:
                self._attached[name] = carrier
        self.canonical = model.get("canonical_link") or (self.links[0] if self.links else "")

    def pose(self, name: str, user: Element) -> Pose:
        """The pose of a link, joint or frame in the model's frame.

        Args:
            name: Its name.
            user: The element that refers to it, for messages.
        """
        chain: dict[str, None] = {}
        while name not in self._resolved:
            if name not in self._entries:
                known = ", ".join(clipped(each, 30) for each in list(self._entries)[:10]) or "none"
                raise self._document.error(
                    user,
                    f"{clipped(name)} is not a link, joint or frame of the model; correct the name. There are: {known}",
                )
            if name in chain:
                raise self._document.error(user, f"poses are relative to each other in a circle, at {clipped(name)}")
            chain[name] = None
            name = self._entries[name][1]
        for each in reversed(chain):
            _, to, local = self._entries[each]
            self._resolved[each] = composed(self._resolved[to], local)
        return self._resolved[next(iter(chain), name)]

    def body(self, name: str, user: Element) -> str:
        """The link that a link, joint, frame or the model is fixed to.

        Args:
            name: Its name.
            user: The element that refers to it, for messages.
        """
        seen: set[str] = set()
        while name in self._attached or name == MODEL:
            if name in seen:
                raise self._document.error(user, f"frames are attached to each other in a circle, at {clipped(name)}")
            seen.add(name)
            name = self.canonical if name == MODEL else self._attached[name]
        if self._entries.get(name, (None,))[0] is None or self._entries[name][0].tag != "link":
            raise self._document.error(user, f"{clipped(name)} is not a link of the model; correct the name")
        return name
