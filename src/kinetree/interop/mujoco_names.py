"""Names of a MuJoCo model's bodies, joints and sites.

MuJoCo allows things without names, and the same name for a body, a joint and a site. Kinetree wants a name for
everything, unique among bodies and frames, and unique among joints.
"""

from __future__ import annotations

from typing import Any

from kinetree.model.builder import WORLD_NAME


class Names:
    """What MuJoCo's things are called here, by their numbers there.

    Attributes:
        bodies: The world comes first.
        joints: Unnamed ones are "joint" with their number.
        sites: One that shares its name with a body gets " (site)" behind.
    """

    def __init__(self, model: Any) -> None:
        joints = [model.joint(i).name for i in range(model.njnt)]
        self._taken_joints = set(joints)
        self.joints = tuple(name or self.free_joint(f"joint{i}") for i, name in enumerate(joints))
        bodies = [model.body(i).name for i in range(1, model.nbody)]
        self._taken = {WORLD_NAME, *bodies}
        self.bodies = (WORLD_NAME, *(name or self.free(f"body{i}") for i, name in enumerate(bodies, start=1)))
        sites = [model.site(i).name for i in range(model.nsite)]
        self.sites = tuple(
            self.free(name if name not in self._taken else f"{name} (site)") if name else self.free(f"site{i}")
            for i, name in enumerate(sites)
        )

    def free(self, name: str) -> str:
        """A name that no body and no frame has yet, and which is then taken."""
        return _free(name, self._taken)

    def free_joint(self, name: str) -> str:
        """A name that no joint has yet, and which is then taken."""
        return _free(name, self._taken_joints)


def _free(name: str, taken: set[str]) -> str:
    count, tried = 1, name
    while tried in taken:
        count += 1
        tried = f"{name} ({count})"
    taken.add(tried)
    return tried
