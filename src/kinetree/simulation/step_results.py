"""Results of simulations."""

from __future__ import annotations

from typing import Any, NamedTuple

from kinetree.spatial.value import Array

#: Contacts have converged if the residual is at most this: corners of a sole that close different gaps, without forces
#: that pull against each other, leave no more. At 1e-6, one sole in forty would not have converged.
CONVERGED = 1e-4


class FoundContacts(NamedTuple):
    """Contacts that a step has found, c at most in each sample; places that are not used have the pair −1.

    Attributes:
        names: Names of the shapes of all pairs that may touch.
        pair: Number of the pair, (…, c).
        point: Half-way between both bodies, or of the one that touches the world, (…, c, 3) [m].
        normal: From the second shape of the pair to the first, (…, c, 3).
        gap: Distance along the normal, negative where shapes overlap, (…, c) [m].
        force: Mean force on the first shape over the step, in world axes, (…, c, 3) [N]; the second one takes its
            opposite.
    """

    names: tuple[tuple[str, str], ...]
    pair: Array
    point: Array
    normal: Array
    gap: Array
    force: Array


class StepInfo(NamedTuple):
    """Forces and accelerations of one step.

    Attributes:
        acceleration: Mean joint acceleration over the step, (…, nv).
        constraint_forces: Force of each constraint, by name, (…, c): on the constrained frame, moment first.
        contact_forces: Mean forces on the contact points, in world axes, (…, k, 3) [N].
        residual: Violation of the laws of contact and friction, relative to the fastest approach, (…).
        penetration: Depth of the deepest point, (…) [m].
        joint_forces: Mean forces of dry friction and stops of joints, (…, nv).
        jammed: Whether no forces can satisfy all contacts, as of a body that is too large for its slot, (…).
        contacts: Contacts that were discovered, with `contacts="discover"`.
    """

    acceleration: Array
    constraint_forces: dict[str, Array]
    contact_forces: Array
    residual: Array
    penetration: Array
    joint_forces: Array
    jammed: Array
    contacts: FoundContacts | None = None

    @property
    def converged(self) -> Array:
        """Whether the laws of contact and friction hold: the residual is at most `CONVERGED`, (…)."""
        return self.residual <= CONVERGED


class Modes(NamedTuple):
    """What contacts and joints do in a step, for which its derivatives hold.

    Attributes:
        contacts: `simulation.OPEN`, `STICKING`, `SLIDING` or `EDGE` of each pair of a shape and a point, (…, n).
        joints: `simulation.FREE`, `STUCK`, `SLIPPING` or `STOPPED`, (…, nv).
        margin: Distance from the nearest other mode, relative to the fastest approach, (…).
        unique: Whether the laws determine the derivatives, (…): not, where undetermined forces press on what slides.
        certain: Whether the modes are known: the margin is larger than 1e-6 and than the residual explains, (…).
        residual: As of `StepInfo`, (…).
    """

    contacts: Array
    joints: Array
    margin: Array
    unique: Array
    certain: Array
    residual: Array


class StepDiscretized(NamedTuple):
    """δx′ = A δx + B δτ of a step, for x = (q, v); tangents of configurations.

    Attributes:
        A: (…, 2 nv, 2 nv).
        B: (…, 2 nv, nv).
        modes: Modes for which they hold.
    """

    A: Array
    B: Array
    modes: Modes


class StepGradients(NamedTuple):
    """Gradients of a weighted sum of what follows a step, or several.

    Attributes:
        q: Along tangents, (…, nv).
        v: (…, nv).
        tau: (…, nv), or of each step, (…, T, nv).
        friction: With respect to μ of each shape, (…, shapes).
        height: With respect to raising each shape along its normals, (…, shapes).
        f_ext: With respect to external wrenches, by frame, (…, 6); none of several steps.
        certain: Whether all modes are certain and all derivatives unique, (…).
        parameters: With respect to `robot.inertial_parameters`, (…, bodies, 10), if they are wanted.
    """

    q: Array
    v: Array
    tau: Array
    friction: Array
    height: Array
    f_ext: dict[str, Array]
    certain: Array
    parameters: Array | None = None


class ContactProblem(NamedTuple):
    """What a step has solved, for its derivatives: see `kinetree.kernels.contact_newton`."""

    G: Any = None  # (…, t, t)
    free: Any = None  # (…, t)
    bounds: Any = None  # (…, t, 3)
    impulse: Any = None  # (…, t)
    velocity: Any = None  # (…, t)
    axes: Any = None  # of contacts, (…, 3 n, 3)
    arms: Any = None  # from bodies to points, (…, 3 n)
    points: Any = None  # in the world, (…, k, 3)
    place: Any = None  # of bodies, (…, m, 15)
    wrench: Any = None  # on bodies, in world axes, (…, 6 m)


class ImpulseResponse(NamedTuple):
    """How impulses respond to changes of a step: see `kinetree.kernels.contact_response` and `discovered_response`."""

    C: Any
    by_place: Any
    by_friction: Any
    by_height: Any
    stopping: Any
    modes: Any
    report: Any
    drift: Any = None  # how wrenches on bodies change at given impulses, of contacts that were discovered

    @property
    def matrices(self) -> tuple[Any, ...]:
        """What changes of velocities, places, frictions and heights do."""
        return self[:4]


class Impulses(NamedTuple):
    """Effect of contacts and joint rows in a step: arrays, or places of a sequence."""

    velocity: Any  # joint velocities after the step, (…, nv)
    forces: Any = None  # impulses in world axes, for all n pairs of a shape and a point, (…, 3 n)
    heights: Any = None  # signed distances before the step, at the normal row, (…, 3 n)
    found: Any = None  # contacts that were discovered, see `kinetree.kernels.contact_discovery`, (…, c, 12)
    number: Any = None  # how many of them there are, (…)
    report: Any = None  # residual of the law with compliance, residual, whether contacts jam, (…, 3)
    joint_impulses: Any = None  # of dry friction and stops, (…, nv)
    problem: ContactProblem | None = None
    response: ImpulseResponse | None = None  # of contacts that were discovered, for derivatives


class Rollout(NamedTuple):
    """A motion under given joint forces.

    Attributes:
        time: (T + 1,) [s].
        q: Configurations, (…, T + 1, nq).
        v: Joint velocities, (…, T + 1, nv).
        residual: Largest violation of the laws of contact in the steps since the state before, as of `StepInfo`,
            (…, T + 1).
    """

    time: Array
    q: Array
    v: Array
    residual: Array

    @property
    def converged(self) -> Array:
        """Whether the laws of contact held in all of these steps, (…, T + 1)."""
        return self.residual <= CONVERGED


class Film(NamedTuple):
    """A motion under a controller, at the times of its commands and at the end.

    Attributes:
        time: (T,) [s].
        q: Configurations, (…, T, nq).
        v: Joint velocities, (…, T, nv).
        tau: Joint torques applied from each time on, (…, T, nv).
        constraint_forces: Constraint forces in the step that follows, by name, (…, T, c).
        commands: Commands of the controller at each time, including the final one.
        residual: Largest violation of the laws of contact in the steps from each time on, as of `StepInfo`, (…, T).
    """

    time: Array
    q: Array
    v: Array
    tau: Array
    constraint_forces: dict[str, Array]
    commands: list[object]
    residual: Array
