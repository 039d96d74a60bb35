"""Default classes of MJCF, as far as they decide which shapes and joints are kept."""

from __future__ import annotations

from collections.abc import Iterable

from kinetree.loading.document import Element

# for shapes, whether they have mass and collide; for joints, their number of coordinates
_ATTRIBUTES = {
    "geom": ("type", "mesh", "mass", "density", "group", "contype", "conaffinity"),
    "joint": ("type",),
}
_MAIN = "main"


class Defaults:
    """Attributes that shapes and joints inherit from default classes.

    Args:
        sections: The <default> elements at the top level.
    """

    def __init__(self, sections: Iterable[Element]) -> None:
        self._classes: dict[str, dict[str, dict[str, str]]] = {_MAIN: {tag: {} for tag in _ATTRIBUTES}}
        pending = [(section, section.get("class", _MAIN), _MAIN) for section in reversed(list(sections))]
        while pending:
            section, name, parent = pending.pop()
            inherited = {tag: dict(attributes) for tag, attributes in self._classes[parent].items()}
            own = self._classes.setdefault(name, inherited)
            for element in section:
                if element.tag in own:
                    own[element.tag].update(_of_interest(element))
            pending += [(child, child.get("class", ""), name) for child in section.iterchildren("default")]

    def of(self, element: Element, inherited: str | None) -> dict[str, str]:
        """The relevant attributes of a shape or joint; its own override those of its class.

        Args:
            element: The <geom> or <joint>.
            inherited: The class from an enclosing `childclass`, if any.
        """
        name = element.get("class") or inherited or _MAIN
        return {**self._classes.get(name, {}).get(element.tag, {}), **_of_interest(element)}


def _of_interest(element: Element) -> dict[str, str]:
    return {name: element.get(name) for name in _ATTRIBUTES[element.tag] if element.get(name) is not None}
