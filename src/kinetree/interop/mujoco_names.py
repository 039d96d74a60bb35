"""Names of a MuJoCo model's bodies, joints and sites.

MuJoCo allows objects without names, and the same name for a body, a joint and a site. In Kinetree every object has a
name, unique among bodies and frames or among joints.
"""

from __future__ import annotations

from typing import Any

from kinetree.model.specs import WORLD_NAME


class Names:
    """Names of MuJoCo's objects in Kinetree, by MuJoCo's index.

    Attributes:
        bodies: Bodies, the world first.
        joints: Joints; unnamed ones are called "joint" followed by their index.
        sites: Sites; one that shares its name with a body gets the suffix " (site)".
    """

    def __init__(self, model: Any) -> None:
        joints = _written(model, model.name_jntadr)
        self._taken_joints = set(joints)
        self.joints = tuple(name or self.free_joint(f"joint{i}") for i, name in enumerate(joints))
        bodies = _written(model, model.name_bodyadr)[1:]
        self._taken = {WORLD_NAME, *bodies}
        self.bodies = (WORLD_NAME, *(name or self.free(f"body{i}") for i, name in enumerate(bodies, start=1)))
        sites = _written(model, model.name_siteadr)
        self.sites = tuple(
            self.free(name if name not in self._taken else f"{name} (site)") if name else self.free(f"site{i}")
            for i, name in enumerate(sites)
        )

    def free(self, name: str) -> str:
        """Reserve a name that no body or frame has yet."""
        return _free(name, self._taken)

    def free_joint(self, name: str) -> str:
        """Reserve a name that no joint has yet."""
        return _free(name, self._taken_joints)


def _written(model: Any, starts: Any) -> list[str]:
    """The names that start at given places of the model's text, empty for objects without."""
    text = bytes(model.names)
    return [text[start : text.index(0, start)].decode() for start in starts.tolist()]


def _free(name: str, taken: set[str]) -> str:
    count, tried = 1, name
    while tried in taken:
        count += 1
        tried = f"{name} ({count})"
    taken.add(tried)
    return tried
