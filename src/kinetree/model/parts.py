"""The bodies, joints and frames of a model under construction, by name."""

from __future__ import annotations

from kinetree.errors import ModelError, UnknownNameError
from kinetree.model.specs import WORLD_NAME, BodySpec, FrameSpec, JointSpec
from kinetree.recursion.topology import depth_first


class NamedSpecs:
    """Parts with unique names, in any order.

    Attributes:
        bodies: By name.
        joints: The joint in front of each body, by the body's name.
        children: The body behind each joint, by the joint's name.
        frames: Extra frames, by name.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, BodySpec] = {}
        self.joints: dict[str, JointSpec] = {}
        self.children: dict[str, str] = {}
        self.frames: dict[str, FrameSpec] = {}

    def add(self, body: BodySpec, joint: JointSpec) -> None:
        """Add a body and its joint, whose names are free."""
        self.bodies[body.name], self.joints[body.name] = body, joint
        self.children[joint.name] = body.name

    def refuse_taken(self, name: str, what: str) -> None:
        """Raise unless a body or frame may have a name."""
        if not isinstance(name, str) or not name:
            raise ModelError(f"a {what} needs a name, which must be a non-empty string; got {name!r}")
        if name == WORLD_NAME:
            raise ModelError(f"no {what} may be called {WORLD_NAME!r}, the name of the inertial frame")
        if name in self.bodies or name in self.frames:
            taken = "body" if name in self.bodies else "frame"
            raise ModelError(
                f"{what} {name!r}: a {taken} has that name already; names of bodies and frames must differ"
            )

    def refuse_taken_joint(self, name: str, owner: str) -> None:
        """Raise unless a joint may have a name."""
        if name in self.children:
            taken = self.children[name]
            raise ModelError(f"{owner}: a joint {name!r} exists already, in front of {taken!r}; rename one")

    def joint(self, name: str, what: str) -> JointSpec:
        """A joint by its own name or its body's; `what` needs it."""
        body = self.children.get(name, name)
        if body not in self.joints:
            raise UnknownNameError(f"joint (needed for {what})", name, (*self.children, *self.bodies))
        return self.joints[body]

    def ordered(self) -> tuple[list[BodySpec], list[JointSpec]]:
        """All bodies, depth first, siblings in the order in which they were added.

        Raises:
            UnknownNameError: If a parent, or the body of a frame, does not exist.
            ModelError: If bodies form a cycle.
        """
        children: dict[str, list[str]] = {name: [] for name in (WORLD_NAME, *self.bodies)}
        for name, joint in self.joints.items():
            siblings = children.get(joint.parent)
            if siblings is None:
                raise self._no_body(joint.parent, f"parent of body {name!r}")
            siblings.append(name)
        for frame in self.frames.values():
            if frame.body not in children:
                raise self._no_body(frame.body, f"body of frame {frame.name!r}")
        order = depth_first(children[WORLD_NAME], children)
        if len(order) < len(self.bodies):
            cycle = " → ".join(self._cycle(set(order)))
            raise ModelError(f"bodies form a cycle, each carried by the next: {cycle}; attach one of them to the world")
        return [self.bodies[name] for name in order], [self.joints[name] for name in order]

    def _no_body(self, name: str, role: str) -> UnknownNameError:
        return UnknownNameError(f"body (needed as {role})", name, (WORLD_NAME, *self.bodies))

    def _cycle(self, reached: set[str]) -> list[str]:
        """The bodies of one cycle, each followed by its parent, the first one repeated."""
        name = next(name for name in self.bodies if name not in reached)
        path: list[str] = []
        while name not in path:
            path.append(name)
            name = self.joints[name].parent
        return [*path[path.index(name) :], name]
