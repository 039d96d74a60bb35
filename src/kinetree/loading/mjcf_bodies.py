"""Writes the bodies of an MJCF file, without elements irrelevant to the dynamics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from kinetree.loading.directory import Origin
from kinetree.loading.document import Element
from kinetree.loading.mjcf_defaults import Defaults
from kinetree.loading.mjcf_file import MjcfFile
from kinetree.loading.mjcf_text import MjcfText, attributes_of
from kinetree.loading.source import clipped

#: More elements than this, copies included, would take too long to compile.
MOST = 4_000

#: Workaround for files that MuJoCo can read but Kinetree refuses.
ELSEWHERE = "compile it with MuJoCo yourself and pass the result to kinetree.from_mujoco()"

_DEEPEST = 256
# MuJoCo's compiler factorises the mass matrix, at a cost quadratic in depth for each degree of freedom.
_MOST_WORK = 200_000_000
_COUNT = re.compile(r"\s*\+?(\d{1,9})\s*")

_LEAVES = frozenset(("inertial", "joint", "freejoint", "site"))
_BRANCHES = frozenset(("body", "frame", "replicate"))
_MAKERS = frozenset(("composite", "flexcomp"))
_INVISIBLE = frozenset(("camera", "light"))

# Attributes irrelevant to the dynamics that refer to omitted elements or allocate memory.
_DROPPED: Mapping[str, frozenset[str]] = {
    "body": frozenset(("user", "sleep", "fuse", "simple")),
    "joint": frozenset(("user",)),
    "site": frozenset(("user", "material")),
    "geom": frozenset(("user", "material", "hfield", "fluidshape", "fluidcoef", "contype", "conaffinity")),
    "mesh": frozenset(("maxhullvert",)),
}
_NOTHING = frozenset[str]()
_GHOST = {"contype": "0", "conaffinity": "0"}  # MuJoCo then needs no convex hull


class _Within(NamedTuple):
    """The context inside an element.

    Attributes:
        childclass: Default class, if one is set.
        copies: Number of copies that will be made.
        weighs: Whether shapes define a body's inertia.
        dofs: Degrees of freedom between it and the world.
    """

    childclass: str | None = None
    copies: int = 1
    weighs: bool = False
    dofs: int = 0


class Bodies:
    """Writes bodies and counts what is left out.

    Args:
        file: The file that contains them.
        text: The reduced file.
        models: The models that can be attached, by name.
        looks: Whether to keep all shapes, not only those that define inertia.

    Attributes:
        elements: Number of elements written so far, copies included.
        meshes: Names of the meshes that are needed.
        plugins: Number of plugins left out.
        collide: Whether shapes can collide.
    """

    def __init__(self, file: MjcfFile, text: MjcfText, models: Mapping[str, Bodies], looks: bool) -> None:
        self.file, self.text = file, text
        self.elements, self.plugins = 0, 0
        self._work = 0
        self.meshes: dict[str, None] = {}
        self._models, self._looks = models, looks
        self._require_few_defaults()
        self._defaults = Defaults(file.sections("default"))
        self._shapes, self._active, self._passive = 0, False, False
        self._from_shapes, self._groups = "auto", (0.0, 5.0)
        for compiler in file.sections("compiler"):
            self._from_shapes = compiler.get("inertiafromgeom", self._from_shapes)
            self._groups = _range(compiler.get("inertiagrouprange"), self._groups)

    def _require_few_defaults(self) -> None:
        """Refuse what could not be written later, before anything is made of it."""
        sections = self.file.sections("default")
        read = (element for section in sections for element in section.iter("default", "geom", "joint", "site", "mesh"))
        excess = next(islice(read, MOST, None), None)
        if excess is not None:
            raise self.file.origin(excess).error(f"has more than {MOST} default classes and settings; {ELSEWHERE}")

    @property
    def collide(self) -> bool:
        return self._shapes > 1 and self._active and self._passive

    def put(self, tag: str, attributes: Mapping[str, str], origin: Origin, copies: int = 1) -> None:
        """Write an empty element."""
        self.open(tag, attributes, origin, copies)
        self.text.close(tag)

    def open(self, tag: str, attributes: Mapping[str, str], origin: Origin, copies: int = 1) -> None:
        """Start an element.

        Args:
            tag: Its name.
            attributes: Its attributes.
            origin: Its origin.
            copies: Number of copies that will be made.
        """
        self.elements += copies
        if self.elements > MOST:
            raise origin.error(
                f"<{tag}> brings the number of elements, copies included, to {self.elements}, more than {MOST}; "
                f"{ELSEWHERE}"
            )
        self.text.open(tag, attributes, origin)

    def write(self, worldbody: Element) -> None:
        """Write everything in the world body."""
        start = _Within(worldbody.get("childclass"))
        self.open("worldbody", {}, self.file.origin(worldbody))
        pending: list[tuple[str, Iterator[Element], _Within]] = [("worldbody", iter(worldbody), start)]
        while pending:
            tag, children, within = pending[-1]
            child = next(children, None)
            if child is None:
                self.text.close(tag)
                pending.pop()
            elif child.tag in _BRANCHES:
                if len(pending) > _DEEPEST:
                    raise self.file.origin(child).error(f"is nested more than {_DEEPEST} deep; {ELSEWHERE}")
                pending.append((child.tag, iter(child), self._branch(child, within)))
            else:
                self._leaf(child, within, tag)

    def _branch(self, element: Element, within: _Within) -> _Within:
        """Start a body, or an element that groups or copies others."""
        origin = self.file.origin(element)
        childclass = element.get("childclass", within.childclass)
        inside = _Within(childclass, within.copies, within.weighs, within.dofs)
        if element.tag == "body":
            tags = [child.tag for child in element[:]]
            weighs = self._from_shapes == "true" or (self._from_shapes != "false" and "inertial" not in tags)
            joints = [child for child, tag in zip(element[:], tags) if tag in ("joint", "freejoint")]
            dofs = sum([self._freedom(joint, childclass) for joint in joints])
            inside = _Within(childclass, within.copies, weighs, within.dofs + dofs)
            self._work += within.copies * max(1, dofs) * inside.dofs**2
            if self._work > _MOST_WORK:
                raise origin.error(f"has too many degrees of freedom in series for MuJoCo to compile soon; {ELSEWHERE}")
        elif element.tag == "replicate":
            inside = inside._replace(copies=within.copies * _count(element, origin))
        self.open(element.tag, kept(element, origin), origin, inside.copies)
        return inside

    def _freedom(self, joint: Element, childclass: str | None) -> int:
        kind = "free" if joint.tag == "freejoint" else self._defaults.of(joint, childclass).get("type", "hinge")
        return {"hinge": 1, "slide": 1, "ball": 3}.get(kind, 6)

    def _leaf(self, element: Element, within: _Within, parent: str) -> None:
        tag, origin = element.tag, self.file.origin(element)
        if tag not in _INVISIBLE:
            for inside in element:
                if inside.tag != "plugin" and tag not in _MAKERS:
                    problem = f"unrecognized element {clipped(f'<{inside.tag}>')} in <{tag}>; correct the spelling"
                    raise self.file.origin(inside).error(problem)
        if tag in _LEAVES:
            if tag == "site" and element.get("mesh") is not None:
                self.meshes[element.get("mesh")] = None
            self.put(tag, kept(element, origin), origin, within.copies)
        elif tag == "geom":
            self._shape(element, within, origin)
        elif tag == "attach":
            other = self._models.get(element.get("model", ""))
            if other is not None:
                self._work += within.copies * other.elements * (within.dofs + other.elements) ** 2
                self.elements += within.copies * other.elements
                self._shapes += within.copies * other._shapes
                self._active, self._passive = self._active or other._active, self._passive or other._passive
            self.put(tag, kept(element, origin), origin, within.copies)
        elif tag == "plugin":
            self.plugins += element.get("instance") is None
        elif tag in _MAKERS:
            raise origin.error(f"<{tag}> makes bodies of what bends, which Kinetree does not read; {ELSEWHERE}")
        elif tag not in _INVISIBLE:
            raise origin.error(f"unrecognized element {clipped(f'<{tag}>')} in <{parent}>; correct the spelling")

    def _shape(self, geom: Element, within: _Within, origin: Origin) -> None:
        """Write a shape if it contributes to its body's inertia."""
        known = self._defaults.of(geom, within.childclass)
        self._shapes += within.copies
        self._active |= known.get("contype") != "0"
        self._passive |= known.get("conaffinity") != "0"
        self.plugins += sum(plugin.get("instance") is None for plugin in geom.iterchildren("plugin"))
        weighs = within.weighs and not self._weightless(known)
        if not weighs and not self._looks:
            return
        kind, own = known.get("type", "sphere"), {**kept(geom, origin), **_GHOST}
        if self._looks and geom.get("material") is not None:
            own["material"] = geom.get("material")
        if kind == "hfield" or (kind == "sdf" and "mesh" not in known):
            if not weighs:
                what = "height field" if kind == "hfield" else "SDF"
                self.file.diagnostics.add("geoms that cannot be drawn", what, origin.line)
                return
            raise origin.error(
                f"a shape of type {kind} gives its body inertia, which Kinetree does not read; give the body "
                "<inertial>, or the shape mass=0"
            )
        if kind == "sdf":
            own["type"] = "mesh"  # which has the same inertia, and needs no plugin
        if "mesh" in known:
            self.meshes[known["mesh"]] = None
        self.put("geom", own, origin, within.copies)

    def _weightless(self, known: Mapping[str, str]) -> bool:
        first, last = self._groups
        group = _number(known.get("group", "0"))
        if group is not None and not first <= group <= last:
            return True
        return _number(known.get("mass", known.get("density", ""))) == 0.0


def kept(element: Element, origin: Origin) -> dict[str, str]:
    """The attributes of an element, without those that are dropped."""
    given, dropped = attributes_of(element, origin), _DROPPED.get(element.tag, _NOTHING)
    return given if dropped.isdisjoint(given) else {key: given[key] for key in given if key not in dropped}


def _count(replicate: Element, origin: Origin) -> int:
    found = _COUNT.fullmatch(replicate.get("count", ""))
    if found is None:
        given = clipped(replicate.get("count", ""))
        raise origin.error(f"count={given} of <replicate> is not a number of copies; write one, such as 3")
    return int(found[1])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # MuJoCo says what is wrong


def _range(text: str | None, default: tuple[float, float]) -> tuple[float, float]:
    numbers = [number for number in map(_number, (text or "").split()[:2]) if number is not None]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else default
