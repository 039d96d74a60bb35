"""What MJCF's default classes say about shapes and joints, as far as it decides what is kept."""

from __future__ import annotations

from collections.abc import Iterable

from kinetree.loading.document import Element

# Of a shape: whether it has mass, and whether it touches others. Of a joint: how many coordinates it has.
_ATTRIBUTES = {
    "geom": ("type", "mesh", "mass", "density", "group", "contype", "conaffinity"),
    "joint": ("type",),
}
_MAIN = "main"


class Defaults:
    """Attributes that shapes and joints get from their default classes.

    Args:
        sections: The <default> elements right below the root.
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
        """The attributes of a shape or joint that matter here, its own before those of its class.

        Args:
            element: The <geom> or <joint>.
            inherited: The class that a `childclass` around it says, if any.
        """
        name = element.get("class") or inherited or _MAIN
        return {**self._classes.get(name, {}).get(element.tag, {}), **_of_interest(element)}


def _of_interest(element: Element) -> dict[str, str]:
    return {name: element.get(name) for name in _ATTRIBUTES[element.tag] if element.get(name) is not None}
