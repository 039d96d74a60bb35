"""Bodies of an MJCF file, reduced to joints, inertias, frames, and the shapes that weigh or collide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from kinetree.errors import LoadError
from kinetree.io.collision import UNREADABLE
from kinetree.io.document import Element
from kinetree.io.mjcf_assets import MOST_BYTES, MOST_TO_DRAW, Assets
from kinetree.io.mjcf_file import Defaults, MjcfFile, MjcfText, Origin, attributes_of
from kinetree.io.source import clipped

#: More elements than this, copies included, would take too long to compile.
MOST_ELEMENTS = 4_000

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
_DROPPED_FROM_BODIES: Mapping[str, frozenset[str]] = {
    "body": frozenset(("user", "sleep", "fuse", "simple")),
    "joint": frozenset(("user",)),
    "site": frozenset(("user", "material")),
    "geom": frozenset(("user", "material", "hfield", "fluidshape", "fluidcoef", "contype", "conaffinity")),
    "mesh": frozenset(("maxhullvert",)),
}
_NOTHING = frozenset[str]()
_SOLID = frozenset(("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box"))
CONTACTS = {"pair": ("geom1", "geom2"), "exclude": ("body1", "body2")}
_GHOST = {"contype": "0", "conaffinity": "0"}  # MuJoCo then needs no convex hull
_OF_MESHES = frozenset(("type", "mesh", "size", "fitscale", "density", "shellinertia"))


class _Within(NamedTuple):
    """The context inside an element."""

    childclass: str | None = None  # default class, if one is set
    copies: int = 1  # number of copies that will be made
    weighs: bool = False  # whether shapes define a body's inertia
    dofs: int = 0  # degrees of freedom between it and the world


class Bodies:
    """Writes bodies, with all shapes or only those that define inertia or collide, and counts what is left out.

    `models` are those that can be attached, by name.
    """

    def __init__(
        self, file: MjcfFile, text: MjcfText, models: Mapping[str, Bodies], looks: bool, collisions: bool
    ) -> None:
        self.file, self.text = file, text
        self.elements, self.plugins = 0, 0
        self._work = 0
        self.meshes: dict[str, None] = {}  # that MuJoCo reads
        self.fields: dict[str, None] = {}
        self.left_out = 0  # geoms that collide
        self.solids: set[str | None] = set()  # names of those that are written
        self._paired = {pair.get(end) for pair in file.root.findall("contact/pair") for end in CONTACTS["pair"]}
        self._models, self._looks, self._collisions = models, looks, collisions
        self._require_few_defaults()
        self._defaults = Defaults(file.sections("default"))
        self.assets = Assets(file, MOST_TO_DRAW if looks else MOST_BYTES, self._defaults)
        self._shapes, self._active, self._passive = 0, False, False
        self._from_shapes, self._groups = "auto", (0.0, 5.0)
        for compiler in file.sections("compiler"):
            self._from_shapes = compiler.get("inertiafromgeom", self._from_shapes)
            self._groups = _range(compiler.get("inertiagrouprange"), self._groups)

    def _require_few_defaults(self) -> None:
        """Refuse what could not be written later, before anything is made of it."""
        sections = self.file.sections("default")
        read = (element for section in sections for element in section.iter("default", "geom", "joint", "site", "mesh"))
        excess = next(islice(read, MOST_ELEMENTS, None), None)
        if excess is not None:
            raise self.file.origin(excess).error(
                f"has more than {MOST_ELEMENTS} default classes and settings; {ELSEWHERE}"
            )

    @property
    def collide(self) -> bool:
        return self._shapes > 1 and self._active and self._passive

    def put(self, tag: str, attributes: Mapping[str, str], origin: Origin, copies: int = 1) -> None:
        """Write an empty element."""
        self.open(tag, attributes, origin, copies)
        self.text.close(tag)

    def open(self, tag: str, attributes: Mapping[str, str], origin: Origin, copies: int = 1) -> None:
        """Start an element, of which a number of copies will be made."""
        self.elements += copies
        if self.elements > MOST_ELEMENTS:
            raise origin.error(
                f"<{tag}> brings the number of elements, copies included, to {self.elements}, more than "
                f"{MOST_ELEMENTS}; {ELSEWHERE}"
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
        inside = within._replace(childclass=childclass)
        if element.tag == "body":
            tags = [child.tag for child in element[:]]
            weighs = self._from_shapes == "true" or (self._from_shapes != "false" and "inertial" not in tags)
            joints = [child for child, tag in zip(element[:], tags) if tag in ("joint", "freejoint")]
            dofs = sum([self._freedom(joint, childclass) for joint in joints])
            inside = inside._replace(weighs=weighs, dofs=within.dofs + dofs)
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
                    raise unknown(inside, self.file, tag)
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
            raise unknown(element, self.file, parent)

    def _shape(self, geom: Element, within: _Within, origin: Origin) -> None:
        """Write a shape if it contributes to its body's inertia."""
        known = self._defaults.of(geom, within.childclass)
        self._shapes += within.copies
        self._active |= known.get("contype") != "0"
        self._passive |= known.get("conaffinity") != "0"
        self.plugins += sum(plugin.get("instance") is None for plugin in geom.iterchildren("plugin"))
        weighs = within.weighs and not self._weightless(known)
        kind, masks = known.get("type", "sphere"), {key: known.get(key, "1") for key in _GHOST}
        collides = self._collisions and (masks != _GHOST or geom.get("name") in self._paired)
        own = kept(geom, origin)
        if collides:
            collides, own = self._colliding(known, kind, {**own, **masks}, weighs, within, origin)
        if not weighs and not self._looks and not collides:
            return
        if not collides:
            own |= _GHOST
        if self._looks and geom.get("material") is not None:
            own["material"] = geom.get("material")
        if (kind == "hfield" and not collides) or (kind == "sdf" and "mesh" not in known):
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
        if "mesh" in known and "user" not in own:
            missing = self.assets.missing("mesh", known["mesh"]) if self._looks and not weighs else None
            if missing is not None:
                self.file.diagnostics.add(f"not drawn, {missing.problem}", "geom", origin.line)
                return
            self.meshes[known["mesh"]] = None
            own["mesh"] = known["mesh"]
        if collides:
            self.solids.add(geom.get("name"))
        self.put("geom", own, origin, within.copies)

    def _colliding(
        self, known: Mapping[str, str], kind: str, own: dict[str, str], weighs: bool, within: _Within, origin: Origin
    ) -> tuple[bool, dict[str, str]]:
        """Whether a shape that collides can be read, and its attributes.

        Nothing opens a mesh: a ball with the pose of the mesh stands for it, and has the number of the hull as user
        data. If the mesh has mass, it becomes a shape of its own.
        """
        tag = "hfield" if kind == "hfield" else "mesh"
        asset = known.get(tag)
        if kind in _SOLID and asset is None:
            return True, own
        if asset is None or kind not in (*_SOLID, "mesh", "hfield") or (kind == "hfield" and weighs):
            self.left_out += within.copies
            return False, own
        hull = self.assets.hull(asset) if kind == "mesh" else None
        if hull is None:  # MuJoCo reads it, or fits what is around it
            missing = None if weighs else self.assets.missing(tag, asset)
            if missing is not None:
                self.file.diagnostics.add(UNREADABLE, missing.problem, missing.line)
                return False, own
            if kind == "hfield":
                self.fields[asset] = None
            return True, {**own, tag: asset}
        if weighs:
            self.meshes[asset] = None
            alone = {key: value for key, value in own.items() if key != "name"}
            self.put("geom", {**alone, "type": "mesh", "mesh": asset, **_GHOST}, origin, within.copies)
        self.text.hulls.append(hull)
        stands = {key: value for key, value in own.items() if key not in _OF_MESHES}
        stands |= {"type": "sphere", "size": "1", "mass": "0", "user": str(len(self.text.hulls))}
        return True, stands

    def _weightless(self, known: Mapping[str, str]) -> bool:
        first, last = self._groups
        group = _number(known.get("group", "0"))
        if group is not None and not first <= group <= last:
            return True
        return _number(known.get("mass", known.get("density", ""))) == 0.0


def unknown(element: Element, file: MjcfFile, parent: str) -> LoadError:
    """The error for an element that is not allowed where it is, since it may be misspelt."""
    problem = f"unrecognized element {clipped(f'<{element.tag}>')} in <{parent}>; correct the spelling"
    return file.origin(element).error(problem)


def kept(element: Element, origin: Origin) -> dict[str, str]:
    """The attributes of an element, without those that are dropped."""
    given, dropped = attributes_of(element, origin), _DROPPED_FROM_BODIES.get(element.tag, _NOTHING)
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
