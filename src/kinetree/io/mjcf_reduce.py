"""Reduces an MJCF file to what the dynamics need, before MuJoCo compiles it.

MuJoCo's compiler opens any file that is named and allocates any memory that is requested, for height fields, textures,
user data and keyframes. None of these matter for the dynamics. The reduced file contains bodies, joints, inertias,
frames, and the shapes and meshes that define a body's inertia. So a file can neither reach outside its directory nor
take more time or memory than its size warrants. Meshes that only collide are noted, and not opened.
"""

from __future__ import annotations

from collections.abc import Mapping

from kinetree.interop.mujoco_models import Unmodelled
from kinetree.io.document import Element
from kinetree.io.mjcf_bodies import CONTACTS, ELSEWHERE, Bodies, kept, unknown
from kinetree.io.mjcf_file import Directory, MjcfFile, MjcfText, Origin, attributes_of, picked
from kinetree.io.options import Diagnostics
from kinetree.io.source import Source, clipped

_MOST_MODELS = 8  # one in the other

# Settings for files, rendering and the solver. All others are kept, so that MuJoCo refuses misspelt ones.
_DROPPED = {
    "compiler": frozenset(
        (
            "assetdir", "meshdir", "texturedir", "strippath", "discardvisual", "fusestatic", "usethread", "passthrough",
            "savecanonical", "savecompiled", "saveinertial",
        )
    ),
    "option": frozenset(
        (
            "actuatorgroupdisable", "apirate", "ccd_iterations", "ccd_tolerance", "cone", "impratio", "integrator",
            "iterations", "jacobian", "ls_iterations", "ls_tolerance", "magnetic", "noslip_iterations",
            "noslip_tolerance", "o_friction", "o_margin", "o_solimp", "o_solref", "sdf_initpoints", "sdf_iterations",
            "sleep_tolerance", "solver", "timestep", "tolerance",
        )
    ),
    "flag": frozenset(
        (
            "actuation", "autoreset", "clampctrl", "constraint", "contact", "damper", "diagexact", "energy", "equality",
            "eulerdamp", "filterparent", "frictionloss", "fwdinv", "invdiscrete", "ipc", "island", "limit", "midphase",
            "multiccd", "nativeccd", "override", "passive", "refsafe", "sensor", "sleep", "speculative", "spring",
            "warmstart",
        )
    ),
}  # fmt: skip
# known child elements; others are refused
_INSIDE = {"compiler": frozenset(("lengthrange",)), "option": frozenset(("flag",))}
_SECTIONS = frozenset(
    (
        "compiler", "option", "size", "statistic", "visual", "default", "extension", "custom", "asset", "worldbody",
        "deformable", "contact", "tendon", "equality", "actuator", "sensor", "keyframe",
    )
)  # fmt: skip
# sections whose elements name joints, bodies and sites, or their coordinates
_NAMING = ("contact", "deformable", "tendon", "equality", "actuator", "sensor", "keyframe")
# attributes of equality constraints; those of the solver are left out
_EQUALITIES = {
    "connect": frozenset(("name", "active", "body1", "body2", "anchor", "site1", "site2")),
    "weld": frozenset(("name", "active", "body1", "body2", "anchor", "relpose", "site1", "site2")),
    "joint": frozenset(("name", "active", "joint1", "joint2", "polycoef")),
}
_DEFAULTS = frozenset(("joint", "site", "geom", "mesh"))
_OTHER_DEFAULTS = frozenset(("default", "texture", "material", "camera", "light", "pair", "equality", "tendon"))
# elements and defaults for kinds of actuators
_ACTUATORS = frozenset(
    (
        "general", "motor", "position", "velocity", "intvelocity", "orientation", "pid", "damper", "cylinder",
        "muscle", "adhesion", "dcmotor", "plugin",
    )
)  # fmt: skip
# what of actuators matters for joints: rotor inertia and the limit of their force; MuJoCo derives that of a DC motor
_DRIVES = {
    "motor": ("gear", "armature", "forcerange", "forcelimited"),
    "dcmotor": ("gear", "armature", "motorconst", "resistance", "nominal", "saturation"),
}
# attributes of tendons that exert a force of their own
_ACTIVE = ("stiffness", "damping", "frictionloss", "range", "armature", "springlength")
# MuJoCo's compiler simulates one step as a test, for which only inertia matters.
_STILL = {"constraint": "disable", "contact": "disable", "actuation": "disable"}


class Reduction:
    """A reduced model, with the models that it attaches.

    Args:
        looks: Whether to keep all shapes and their colours, for the viewer.
        text: Where it is written, with what it needs of other files.
        depth: Number of models that this one is attached to.
        equalities: Whether to keep equality constraints.
        collisions: Whether to keep shapes that collide.
    """

    def __init__(
        self,
        source: Source,
        directory: Directory,
        diagnostics: Diagnostics,
        looks: bool = False,
        text: MjcfText | None = None,
        depth: int = 0,
        *,
        equalities: bool = False,
        collisions: bool = False,
    ) -> None:
        self._collisions = collisions
        self._equalities, self.pairs = equalities, 0  # pairs of geoms that are left out
        self.text, self._looks = MjcfText() if text is None else text, looks
        self.bodies: Bodies
        self._file = file = MjcfFile(source, directory, diagnostics)
        self._root = Origin(source.file, file.root.sourceline)
        if file.root.tag != "mujoco":
            raise self._root.error(f"is <{file.root.tag}>, to be included by others; load the file that includes it")
        for section in file.root:
            self._require_known(section, _SECTIONS)
        models = {name: self._attached(element, depth) for name, element in self._named_models().items()}
        attached = {name: model.bodies for name, (model, _) in models.items()}
        self.bodies = Bodies(file, self.text, attached, looks, collisions)
        self.content = self._written({name: asset for name, (_, asset) in models.items()})
        self.unmodelled = self._counted()
        for model, _ in models.values():
            self.unmodelled = self.unmodelled + model.unmodelled

    def require_whole(self) -> None:
        """Refuse a part of a model, which others include: no bodies, and nothing in the world or names of bodies."""
        if self._has_bodies():
            return
        worlds = list(self._file.sections("worldbody"))
        naming = next((section for section in self._file.sections(*_NAMING) if len(section)), None)
        if naming is None and any(map(len, worlds)):
            return
        place, what = self._root, "there are no bodies"
        if naming is not None:
            place, what = self._file.origin(naming[0]), f"<{naming.tag}> names parts of bodies, and there are none"
        raise place.error(f"{what}: this is part of a model, to be included by others; load the file that does so")

    def _has_bodies(self) -> bool:
        worlds = self._file.sections("worldbody")
        return any(next(world.iter("body", "attach"), None) is not None for world in worlds)

    def _named_models(self) -> dict[str, Element]:
        """Attached models, by name."""
        wanted = {attach.get("model", "") for attach in self._file.root.iter("attach")}
        models = [model for section in self._file.sections("asset") for model in section.iterchildren("model")]
        return {model.get("name", ""): model for model in models if model.get("name", "") in wanted}

    def _attached(self, element: Element, depth: int) -> tuple[Reduction, str]:
        """A model that can be attached, and the name of the asset with its content."""
        origin, name = self._file.origin(element), element.get("file", "")
        if depth >= _MOST_MODELS:
            raise origin.error(f"models are attached more than {_MOST_MODELS} deep; {ELSEWHERE}")
        path = self._file.directory.find([name], origin)
        source = Source.of(path)
        directory, diagnostics = self._file.directory.beside(path), self._file.diagnostics
        model = Reduction(
            source, directory, diagnostics, self._looks, self.text, depth + 1, equalities=self._equalities,
            collisions=self._collisions,
        )  # fmt: skip
        asset = f"{len(self.text.assets)}.xml"
        self.text.assets[asset] = model.content.encode()
        return model, asset

    def _written(self, models: Mapping[str, str]) -> str:
        file, text, bodies = self._file, self.text, self.bodies
        name = file.root.get("model")
        text.open("mujoco", {} if name is None else {"model": name}, self._root)
        for section in file.sections("compiler", "option"):
            self._write_settings(section)
        text.put("compiler", {"usethread": "false"}, self._root)
        text.open("option", {}, self._root)
        text.put("flag", _STILL, self._root)
        text.close("option")
        for section in file.sections("default"):
            self._write_defaults(section)
        for section in file.sections("worldbody"):
            bodies.write(section)
        if any(e.get(key) is not None for e in self._actuators() for key in ("armature", "forcerange", "saturation")):
            self._write_actuators()
        if self._has_bodies():  # else they would name what another file has
            if self._equalities:
                self._write_equalities()
            if not self._looks:
                self._write_contacts()
                self._write_keyframes()
        text.open("asset", {}, self._root)
        for mesh in bodies.meshes:
            bodies.assets.write(mesh, text)
        for field in bodies.fields:
            bodies.assets.write_field(field, text)
        for model, asset in models.items():
            text.put("model", {"name": model, "file": asset}, self._root)
        if self._looks:
            for section in file.sections("asset"):
                for material in section.iterchildren("material"):
                    bodies.put("material", picked(material, ("name", "class", "rgba")), file.origin(material))
        text.close("asset")
        text.close("mujoco")
        return text.take()

    def _require_known(self, element: Element, known: frozenset[str]) -> None:
        """Raise if an element is not allowed where it is."""
        if element.tag not in known:
            raise unknown(element, self._file, element.getparent().tag)

    def _write_settings(self, section: Element) -> None:
        """Write the compiler settings and options that affect bodies and gravity."""
        self.bodies.open(section.tag, self._kept(section), self._file.origin(section))
        for child in section:
            self._require_known(child, _INSIDE[section.tag])
            if child.tag == "flag":
                self.bodies.put("flag", self._kept(child), self._file.origin(child))
        self.text.close(section.tag)

    def _kept(self, element: Element) -> dict[str, str]:
        given = attributes_of(element, self._file.origin(element))
        return {key: value for key, value in given.items() if key not in _DROPPED[element.tag]}

    def _flag(self, name: str) -> str:
        """The value of a flag, of which the last setting counts."""
        flags = [flag for section in self._file.sections("option") for flag in section.iterchildren("flag")]
        return next((flag.get(name) for flag in reversed(flags) if flag.get(name) is not None), "enable")

    def _write_defaults(self, section: Element) -> None:
        pending = [iter(section)]
        self._open_class(section)
        while pending:
            child = next(pending[-1], None)
            if child is None:
                self.text.close("default")
                pending.pop()
            elif child.tag == "default":
                self._open_class(child)
                pending.append(iter(child))

    def _open_class(self, section: Element) -> None:
        origin = self._file.origin(section)
        self.bodies.open("default", attributes_of(section, origin), origin)
        for element in section:
            if element.tag in _DEFAULTS:
                place = self._file.origin(element)
                own = kept(element, place)
                if element.tag == "geom":
                    own.pop("mesh", None)  # each geom names its own
                self.bodies.put(element.tag, own, place)
                continue
            self._require_known(element, _OTHER_DEFAULTS | _ACTUATORS)
            if element.tag == "material" and self._looks and element.get("rgba") is not None:
                self.bodies.put("material", picked(element, ("rgba",)), self._file.origin(element))
        for drive, names in _DRIVES.items():
            settings: dict[str, str] = {}
            for element in section:
                if element.tag in _ACTUATORS and _drive(element) == drive:
                    settings |= picked(element, names)
            if settings:
                self.bodies.put(drive, settings, origin)

    def _actuators(self) -> list[Element]:
        """Actuators and their defaults."""
        found = [element for section in self._file.sections("actuator") for element in section]
        for section in self._file.sections("default"):
            found += [element for element in section.iter() if element.tag in _ACTUATORS]
        return found

    def _write_actuators(self) -> None:
        """Write actuators that add rotor inertia to joints, or limit their forces."""
        self.text.open("actuator", {}, self._root)
        for section in self._file.sections("actuator"):
            for element in section:
                names = ("class", "joint", "jointinparent", *_DRIVES[_drive(element)])
                own = picked(element, names)
                if "joint" in own or "jointinparent" in own:
                    self.bodies.put(_drive(element), own, self._file.origin(element))
        self.text.close("actuator")

    def _write_equalities(self) -> None:
        """Write constraints between bodies, sites and joints."""
        self.text.open("equality", {}, self._root)
        for section in self._file.sections("equality"):
            for element in section:
                origin = self._file.origin(element)
                if element.tag not in _EQUALITIES:
                    raise origin.error(
                        f"equality constraint {clipped(f'<{element.tag}>')} has no exact counterpart; delete it, or "
                        'load with loops="ignore"'
                    )
                given = attributes_of(element, origin)
                own = {key: value for key, value in given.items() if key in _EQUALITIES[element.tag]}
                self.text.put(element.tag, own, origin)
        self.text.close("equality")

    def _write_contacts(self) -> None:
        """Write bodies that are kept from colliding, and pairs of geoms that are written."""
        self.text.open("contact", {}, self._root)
        for element in (element for section in self._file.sections("contact") for element in section):
            self._require_known(element, frozenset(CONTACTS))
            names = picked(element, CONTACTS[element.tag])
            if element.tag == "exclude" or self.bodies.solids.issuperset(names.values()):
                self.text.put(element.tag, names, self._file.origin(element))
            else:
                self.pairs += 1
        self.text.close("contact")

    def _write_keyframes(self) -> None:
        """Write keyframes with a configuration."""
        keys = [key for section in self._file.sections("keyframe") for key in section.iterchildren("key")]
        keys = [key for key in keys if key.get("qpos") is not None]
        if keys:
            self.text.open("keyframe", {}, self._root)
            for key in keys:
                self.bodies.put("key", picked(key, ("name", "qpos")), self._file.origin(key))
            self.text.close("keyframe")

    def _counted(self) -> Unmodelled:
        """What was left out."""
        file = self._file
        actuators, equalities = (sum(map(len, file.sections(kind))) for kind in ("actuator", "equality"))
        every = [tendon for section in file.sections("tendon") for tendon in section]
        inherit = any(section.find(".//tendon") is not None for section in file.sections("default"))
        tendons = sum(inherit or any(tendon.get(name) is not None for name in _ACTIVE) for tendon in every)
        plugins = [
            plugin for section in file.sections("actuator", "sensor") for plugin in section.iterchildren("plugin")
        ]
        contacts = self.bodies.collide or any(section.find("pair") is not None for section in file.sections("contact"))
        return Unmodelled(
            actuators,
            equalities,
            tendons,
            flexes=sum(len(section.findall("flex")) for section in file.sections("deformable")),
            plugins=self.bodies.plugins
            + len(file.root.findall("extension/plugin/instance"))
            + sum(plugin.get("instance") is None for plugin in plugins),
            contacts=contacts and self._flag("contact") != "disable",
        )


def _drive(actuator: Element) -> str:
    """What an actuator, or its default, becomes."""
    return "dcmotor" if actuator.tag == "dcmotor" else "motor"
