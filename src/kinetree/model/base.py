"""A model without its functions: immutable parts, compared by content, and what is computed from them once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.compiler.formats import FLOAT64, FORMATS, format_named, rounded
from kinetree.concurrency import gc_paused
from kinetree.errors import InputError, UnknownNameError
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.assembly.assembly import Assembled, assemble
from kinetree.model.body import Body, Frame, frozen
from kinetree.model.compilation import require_representable
from kinetree.model.coordinates import Coordinates
from kinetree.model.joint import Joint
from kinetree.model.loops.aggregation import Cluster, Clustering, Constraint, Rate
from kinetree.model.loops.clustering import clustered
from kinetree.model.loops.coupling import Coupling
from kinetree.model.loops.loop import Loop
from kinetree.model.nodes.general import node_mass
from kinetree.model.pair_rules import NO_RULES, PairRules
from kinetree.model.printing import printable, tree_text
from kinetree.model.shapes import SolidShape
from kinetree.runtime.bound import ieee_default
from kinetree.runtime.lazy import lazy
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

# what other parts of the library read of a model, and users do not
_INTERNAL = {"mechanism", "site", "sites", "clusters", "named_positions"}


class ModelBase:
    """The parts of a model and what follows from them: the mechanism, its frames, variants, value semantics.

    `Model` lists the attributes. Methods that belong to a topic are in subclasses, which `Model` combines.
    """

    name: str
    gravity: Array
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    fixed_joints: tuple[Joint, ...]
    extra_frames: tuple[Frame, ...]
    joint_constraints: tuple[Constraint, ...]
    independent: tuple[Rate, ...]
    near: tuple[tuple[str, tuple[float, ...]], ...]
    equalities: tuple[Constraint, ...]
    named_positions: tuple[tuple[str, tuple[tuple[str, tuple[float, ...]], ...]], ...]
    shapes: tuple[SolidShape, ...]
    pair_rules: PairRules
    clusters: tuple[Cluster, ...]
    _every_joint: tuple[Joint, ...]
    _clustering: Clustering
    source: str | None
    _sizes: tuple[int, int]
    _scalar: str
    _specialized_for: str

    def __init__(
        self,
        name: str,
        gravity: Any,
        bodies: Sequence[Body],
        joints: Sequence[Joint],
        frames: Sequence[Frame] = (),
        constraints: Sequence[Constraint] = (),
        independent: Sequence[Rate] = (),
        near: Sequence[tuple[str, tuple[float, ...]]] = (),
        equalities: Sequence[Constraint] = (),
        dtype: Any = "float64",
        shapes: Sequence[SolidShape] = (),
        clustering: Clustering | None = None,
        keyframes: Sequence[tuple[str, tuple[tuple[str, tuple[float, ...]], ...]]] = (),
        source: str | None = None,
        pair_rules: PairRules = NO_RULES,
    ) -> None:
        """Create a model from checked parts. Use `Builder` instead.

        Args:
            name: Name of the model.
            gravity: (3,) [m/s²].
            bodies: Depth first.
            joints: One per body, in the same order, including fixed ones; q_start and v_start are set here.
            frames: Extra frames.
            constraints: Couplings between joints, and loops.
            independent: Rates of joints that must not follow others.
            near: Coordinates of joints near which loops are closed.
            equalities: Couplings and loops that are not embedded.
            dtype: The floating-point type in which functions compute; see `astype`.
            shapes: Shapes of the bodies, for distances and collisions.
            clustering: That of a model with the same joints and constraints, if there is one.
            keyframes: Coordinates of joints, by name, for each named configuration; of joints that the model does not
                have, they are ignored.
            source: Path of the file that it was loaded from.
            pair_rules: Which bodies and shapes the file keeps from colliding, or makes collide.
        """
        given = {joint.child: joint for joint in joints}
        if clustering is None:
            clustering = clustered(bodies, given, constraints, independent, dict(near))
        found, groups, closed = clustering
        order = [given[body] for group in groups for body in group] if found else joints
        follows = {joint: how for cluster in found for joint, how in (cluster.follows or {}).items()}
        chosen: dict[str, tuple[int, ...]] = {
            given[body].name: () for cluster in found if cluster.follows is None for body in cluster.bodies
        }
        for cluster in found:
            for owner, component in cluster.independent:
                chosen[owner] = (*chosen[owner], component)
        numbered: dict[str, Joint] = {}
        moving, nq, nv = [], 0, 0
        for joint in order:
            coupled, rates, free = joint.name in follows, chosen.get(joint.name), joint.type.nv
            if rates is not None and rates == tuple(range(free)):
                rates = None
            if (joint.q_start, joint.v_start, joint.coupled, joint.independent) != (nq, nv, coupled, rates):
                joint = joint.numbered(nq, nv, coupled, rates)
            numbered[joint.child] = joint
            if free:
                moving.append(joint)
                nq, nv = nq + joint.nq, nv + joint.nv
        every = tuple(numbered[body.name] for body in bodies)
        scalar = format_named(dtype)
        self.__dict__.update(
            name=name,
            gravity=frozen(gravity, (3,)),
            bodies=tuple(bodies),
            joints=tuple(moving),
            fixed_joints=tuple(joint for joint in every if not joint.type.nv),
            extra_frames=tuple(frames),
            joint_constraints=tuple(constraints),
            # with what was chosen here, so that variants of this model have the same velocities and the same neutral q
            independent=tuple(dict.fromkeys((*independent, *(rate for one in found for rate in one.independent)))),
            near=tuple({**dict(near), **{joint: tuple(x.tolist()) for joint, x in closed.items()}}.items()),
            equalities=tuple(equalities),
            named_positions=tuple(keyframes),
            shapes=tuple(shapes),
            pair_rules=pair_rules,
            clusters=found,
            source=source,
            _every_joint=every,
            _clustering=clustering,
            _sizes=(nq, nv),
            _scalar=scalar.name,
            _specialized_for="",
        )
        # rigid bodies can always be assembled, so this waits until a function needs it; errors do not wait
        if scalar is not FLOAT64 or any(joint.node is not None for joint in joints):
            require_representable(scalar, bodies, every, self.mechanism, self.sites)

    # -- what functions need, computed when it is first used ----------------------------------------------------------

    @lazy
    @ieee_default
    def _assembled(self) -> Assembled:
        joints = {joint.child: joint for joint in self._every_joint}
        with gc_paused():  # a large model consists of a million objects, which the collector would traverse repeatedly
            return assemble(self.bodies, joints, self.extra_frames, self.gravity, self._clustering)

    @lazy
    def mechanism(self) -> Mechanism:
        """Internal. The nodes that recursions run over; fixed bodies are merged into their parents."""
        return self._assembled.mechanism.computing_in(self._scalar)

    @lazy
    @ieee_default
    def sites(self) -> tuple[Site, ...]:
        """Internal. All frames with the nodes that carry them, in the order of `frames`."""
        with gc_paused():
            return self._assembled.sites()

    @lazy
    def _sites_by_name(self) -> dict[str, Site]:
        return {site.name: site for site in self.sites}

    @lazy
    def _coordinates(self) -> Coordinates:
        follows = {joint: how for cluster in self.clusters for joint, how in (cluster.follows or {}).items()}
        return Coordinates(self.joints, follows, self._clustering.q)

    # -- value semantics: frozen; compared, hashed and pickled by its definition --------------------------------------

    def _parts(self) -> dict[str, Any]:
        """The parts of which `__init__` makes the same model."""
        return {
            "name": self.name,
            "gravity": self.gravity,
            "bodies": self.bodies,
            "joints": self._every_joint,
            "frames": self.extra_frames,
            "constraints": self.joint_constraints,
            "independent": self.independent,
            "near": self.near,
            "equalities": self.equalities,
            "dtype": self._scalar,
            "keyframes": self.named_positions,
            "source": self.source,
            "shapes": self.shapes,
            "pair_rules": self.pair_rules,
        }

    def _definition(self) -> tuple[Any, ...]:
        return (*(self._parts() | {"gravity": self.gravity.tobytes(), "source": None}).values(), self._specialized_for)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelBase) and (self is other or self._definition() == other._definition())

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._definition())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._specialized_for, self._parts())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Model is frozen: cannot set {name!r}. Methods such as reduced() and with_inertia() return variants"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Model is frozen: cannot delete {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - _INTERNAL)

    # -- structure ----------------------------------------------------------------------------------------------------

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self._sizes[0]

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self._sizes[1]

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """Couplings between joints."""
        return tuple(one for one in self.joint_constraints if not isinstance(one, Loop))

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of all frames: the world, all bodies in order, then the extra frames."""
        return tuple(self._sites_by_name)

    def site(self, frame: str) -> Site:
        """Internal. The node that carries a frame, and the frame's placement."""
        if not isinstance(frame, str) or frame not in self._sites_by_name:
            joint = next(
                (joint for joint in self._every_joint if joint.node is not None and joint.child == frame), None
            )
            if joint is not None and joint.node is not None:
                outlets = ", ".join(repr(f"{frame}/{outlet}") for outlet in joint.node.outlets) or "it has none"
                raise InputError(f"{frame!r} is a general node, without a frame of its own; name an outlet: {outlets}")
            own = tuple(extra.name for extra in self.extra_frames)
            raise UnknownNameError("frame", frame, (*own, *(name for name in self.frames if name not in own)))
        return self._sites_by_name[frame]

    def joint(self, name: str) -> Joint:
        """A joint by name, moving or fixed."""
        for joint in self._every_joint:
            if joint.name == name:
                return joint
        raise UnknownNameError("joint", name, tuple(joint.name for joint in self._every_joint))

    def body(self, name: str) -> Body:
        """A body by name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownNameError("body", name, tuple(body.name for body in self.bodies))

    @property
    def mass(self) -> float:
        """Total mass, including bodies fixed to the world [kg]."""
        return sum(body.mass for body in self.bodies) + sum(
            node_mass(joint.node) for joint in self._every_joint if joint.node is not None
        )

    def _edited(self, **changes: Any) -> Self:
        """A variant with other parts, as `__init__` names them; with other constraints, clusters are found again."""
        clustering = None if "constraints" in changes else self._clustering
        return type(self)(**(self._parts() | {"clustering": clustering} | changes))

    # -- precision ----------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type in which functions compute, and of their results: float64 or float32."""
        return FORMATS[self._scalar].dtype

    def _rounded(self, array: Array) -> Array:
        """Coordinates in the robot's type; complex ones are left alone."""
        kept: Array = array if array.dtype.kind == "c" else rounded(array, self.dtype)
        return kept

    def astype(self, dtype: Any) -> Self:
        """This robot with functions that compute in float32, or in float64 again.

        In float32, batches take half the time and memory; results have about seven digits less what the computation
        loses. The numbers of the model stay float64 and are rounded once for each function, so `astype("float64")`
        gives back the same robot.

        Args:
            dtype: "float32" or "float64", or NumPy's types of these names.

        Raises:
            InputError: For any other type.
            ModelError: If a number of the model is too large or too small for float32; names the body.
        """
        scalar = format_named(dtype)
        if scalar.name == self._scalar:
            return self
        known: Self | None = self.__dict__.get("_other_precision")
        if known is not None:
            return known
        require_representable(scalar, self.bodies, self._every_joint, self.mechanism, self.sites)
        mechanism = self.mechanism.computing_in(scalar.name)
        other = self._twin(_scalar=scalar.name, _other_precision=self, mechanism=mechanism)
        # kept, and knows the way back: functions of either are compiled once
        kept: Self = self.__dict__.setdefault("_other_precision", other)
        return kept

    def _with_own_code(self, aim: str) -> Self:
        """The same robot, whose functions run on code for it alone; see `compile`. Created once."""
        if self._specialized_for == aim:
            return self
        known: dict[str, Self] = self.__dict__.setdefault("_specialized", {})
        if aim not in known:
            made = self._twin(_specialized_for=aim, mechanism=self.mechanism.with_own_code(aim))
            known.setdefault(aim, made)
        return known[aim]

    def _twin(self, **changes: Any) -> Self:
        """The same parts, with another mechanism and, if they are not the same, its frames."""
        made = object.__new__(type(self))
        same = {name: getattr(self, name) for name in ModelBase.__annotations__}
        made.__dict__.update(same, **({"sites": self.sites} | changes))
        return made

    # -- text ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        precision = format_named(self._scalar).note
        return f"<Model {self.name!r}: nq {self.nq}, nv {self.nv}, {len(self.bodies)} bodies{precision}>"

    def __str__(self) -> str:
        by_child = {joint.child: joint for joint in self._every_joint}
        title = (
            f"{printable(self.name)}: {len(self.joints)} moving joints, nq {self.nq}, nv {self.nv}, "
            f"{len(self.bodies)} bodies, {len(self.frames)} frames, {self.mass:.4g} kg"
        )
        return "\n".join([title, *tree_text(self.bodies, by_child, self.extra_frames)])


def _restored(kind: type[ModelBase], aim: str, parts: dict[str, Any]) -> ModelBase:
    """A pickled model; with an aim, one whose functions run on code for it alone."""
    made = kind(**parts)
    return made._with_own_code(aim) if aim else made
