"""Robots that differ in masses, gravity, armature, damping and friction, a sample each: domain randomisation.

The constants of compiled code are numbers of the mechanism. Here they are an input instead, so that each sample of a
batch has its own: the same recursions, lanes and bits as of single robots made by `with_inertial_parameters` and
`with_gravity`, whose rounding may differ in the last digit.

The inertia of a node is a linear function of the inertial parameters of the bodies that are fixed to it, since

    I_k = Σ_b X_bᵀ I_b X_b                                                                        (1)

for the transforms X_b from the node to the links of these bodies. Armature is a constant of a node, too. Damping and
dry friction are no part of the dynamics; `Simulator` reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.algorithms.dynamics.energy import energy
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from kinetree.algorithms.dynamics.time_step import midpoint, semi_implicit_euler
from kinetree.compiler.formats import format_of, rounded
from kinetree.errors import InputError, ModelError, ModelWarning, UnknownNameError, UnsupportedError
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.language.mechanism import WORLD
from kinetree.model.constraints import Constraints
from kinetree.model.nodes.rigid import INERTIA, JointedBody
from kinetree.model.physical import clearly_physical, fault, from_parameters
from kinetree.model.results import Energy
from kinetree.model.singularity import require_invertible
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.kernels import bind
from kinetree.spatial.inertia import RigidInertia
from kinetree.spatial.transform import Transform
from kinetree.spatial.value import Array

_STEPS = {"semi_implicit_euler": semi_implicit_euler, "midpoint": midpoint}


class Population:
    """Dynamics of robots that differ in masses, gravity and armature. Created by `robot.population(…)`.

    Functions take leading batch axes, which broadcast with those of the parameters. Immutable and thread-safe.

    Attributes:
        robot: The model; if armature varies, with some armature at each joint.
        shape: Leading axes of the parameters.
        damping: Viscous damping of joints, (…, nv), if it differs.
        friction: Dry friction of joints, (…, nv), if it differs.
    """

    def __init__(
        self,
        robot: Any,
        inertial_parameters: Any = None,
        gravity: Any = None,
        strict: bool = True,
        armature: Any = None,
        damping: Any = None,
        friction: Any = None,
    ) -> None:
        given = robot.inertial_parameters if inertial_parameters is None else inertial_parameters
        theta = _numbers("inertial_parameters", given, (len(robot.bodies), 10))
        g = _numbers("gravity", robot.mechanism.gravity if gravity is None else gravity, (3,))
        of_joints = {"armature": armature, "damping": damping, "friction": friction}
        joints = {what: _of_joints(what, values, robot) for what, values in of_joints.items() if values is not None}
        leads = [theta.shape[:-2], g.shape[:-1], *(values.shape[:-1] for values in joints.values())]
        self.shape = arguments.common_batch("population", ("inertial_parameters", "gravity", *joints), leads)
        self.damping, self.friction = joints.get("damping"), joints.get("friction")
        #: Armature, (…, nv), and the robot with the least of each joint, if it varies.
        self.armature, self._lightest = joints.get("armature"), robot
        if self.armature is not None:
            robot, self._lightest = _with_armature(robot, self.armature)
        self.robot, mechanism = robot, robot.mechanism
        constants = np.empty((*self.shape, len(mechanism.total_parameters) + 3))
        constants[..., :-3], constants[..., -3:] = mechanism.total_parameters, g
        #: Parameters of robots that may lack a mass matrix with an inverse although `robot` has one.
        self._unlike: list[Array] = []
        if inertial_parameters is not None:
            _require_physical(robot, theta, strict)
            self._unlike = _unlike(robot, theta)
            self._put_inertias(constants, theta)
        if self.armature is not None:
            self._put_armature(constants, self.armature)
        constants = rounded(constants, format_of(mechanism).dtype)
        if not np.isfinite(constants).all():
            raise InputError(f"population: a parameter is too large for {mechanism.scalar}; use astype('float64')")
        constants.setflags(write=False)
        #: Constants of all nodes, and gravity, (…, c).
        self.constants = constants
        self._given = inertial_parameters, gravity, strict, armature, damping, friction
        self._bound: dict[Algorithm, Compiled] = {}

    def __repr__(self) -> str:
        return f"<{self.shape} variants of {self.robot.name}>"

    def _put_inertias(self, constants: Array, theta: Array) -> None:
        mechanism = self.robot.mechanism
        starts = np.cumsum([0, *(len(own) for own in mechanism.parameters)])
        total: dict[int, Array] = {}
        for i, node, moved in _inertia_maps(self.robot):
            # sums in a fixed order, whatever the batch
            own = total[node] if node in total else np.zeros(10)
            for j in range(10):
                own = own + theta[..., i, j, None] * moved[:, j]
            total[node] = own
        for node, inertia in total.items():
            constants[..., starts[node] : starts[node + 1]][..., INERTIA] = inertia

    def _put_armature(self, constants: Array, armature: Array) -> None:
        mechanism, stop = self.robot.mechanism, 0
        for kind, own, start in zip(mechanism.kinds, mechanism.parameters, mechanism.v_starts, strict=False):
            first, stop = stop, stop + len(own)
            if isinstance(kind, JointedBody) and kind.has_armature:
                constants[..., first:stop][..., kind.rotors] = armature[..., start : start + kind.nv]

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Array:
        """Joint accelerations, (…, nv), as `robot.forward_dynamics`."""
        return self._array(forward_dynamics, q, v, tau)

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Array:
        """Joint forces, (…, nv), as `robot.inverse_dynamics`."""
        return self._array(inverse_dynamics, q, v, a)

    def mass_matrix(self, q: Any) -> Array:
        """Joint-space inertia, (…, nv, nv), as `robot.mass_matrix`."""
        return self._array(self.robot.mass_matrix.algorithm, q)

    def bias_forces(self, q: Any, v: Any) -> Array:
        """Coriolis, centrifugal and gravity forces, (…, nv), as `robot.bias_forces`."""
        return self._array(bias_forces, q, v)

    def gravity_forces(self, q: Any) -> Array:
        """Gravity forces, (…, nv), as `robot.gravity_forces`."""
        return self._array(gravity_forces, q)

    def energy(self, q: Any, v: Any) -> Energy:
        """Kinetic and potential energy, as `robot.energy`."""
        return Energy(*self._run(energy, q, v))

    def step(self, q: Any, v: Any, tau: Any, dt: Any, method: str = "semi_implicit_euler") -> tuple[Array, Array]:
        """Configuration and velocities after a time step, as `robot.step` with the first two of its methods."""
        if not isinstance(method, str) or method not in _STEPS:
            raise UnknownNameError("method", method, tuple(_STEPS))
        q_end, v_end = self._run(_STEPS[method], q, v, tau, dt)
        return q_end, v_end

    def constraints(self, constraints: Iterable[Any], at: Any = None) -> Constraints:
        """Constraints as of `robot.constraints`, whose functions have these masses: dynamics and all derivatives."""
        return Constraints(self.robot, constraints, at, self)

    def _array(self, algorithm: Algorithm, *inputs: Any) -> Array:
        result: Array = self._run(algorithm, *inputs)
        return result

    def _run(self, algorithm: Algorithm, *inputs: Any) -> Any:
        bound = self._bound.get(algorithm)
        if bound is None:
            if algorithm in (forward_dynamics, *_STEPS.values()):
                self.require_invertible()
            bound = bind(with_constants(algorithm), self.robot.mechanism, (), algorithm.name)
            bound = self._bound.setdefault(algorithm, bound)
        return bound(*inputs, self.constants)

    def require_invertible(self) -> None:
        """Internal: raise if the mass matrix of one of the robots has no inverse."""
        require_invertible(self._lightest.mechanism)
        for theta in self._unlike:
            require_invertible(_quietly(self._lightest, theta).mechanism)

    def of(self, robot: Any) -> Population:
        """The same parameters for a variant of the robot."""
        return self if robot is self.robot else Population(robot, *self._given)

    def with_armature_added(self, added: Array) -> Population:
        """The same robots with more armature, (…, nv)."""
        own = self.robot.armature if self.armature is None else self.armature
        theta, gravity, strict, _, *rest = self._given
        return Population(self.robot, theta, gravity, strict, own + added, *rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Population, (self.robot, *self._given)


@lru_cache(maxsize=16)
def _inertia_maps(robot: Any) -> list[tuple[int, int, Array]]:
    """For each moving body its number, its node and (1) as a matrix, (10, 10)."""
    maps = []
    for i, body in enumerate(robot.bodies):
        site = robot.site(body.name)
        if site.node == WORLD:
            continue
        if not isinstance(robot.mechanism.at((site,)).kinds[site.node], JointedBody):
            raise UnsupportedError(f"body {body.name!r} is part of a coupling, so its inertia cannot vary by sample")
        X = Transform(site.placement)
        maps.append((i, site.node, np.stack([X.congruence(RigidInertia(e)).data for e in np.eye(10)], axis=-1)))
    return maps


def _of_joints(what: str, values: Any, robot: Any) -> Array:
    """Numbers of degrees of freedom, none negative."""
    array = _numbers(what, values, (robot.nv,))
    if (array < 0.0).any():
        raise InputError(f"population: {what} has negative entries")
    return array


def _with_armature(robot: Any, armature: Array) -> tuple[Any, Any]:
    """The robot with the largest armature of each joint, and with the least.

    The largest, or one where all are zero: each joint has a place for it among the constants, whatever the samples are.
    """
    flat = armature.reshape(-1, robot.nv)
    free, of_others = [], np.ones(robot.nv, dtype=bool)
    for joint in robot.joints:
        site = robot.site(joint.child)
        if joint.nv == joint.type.nv and isinstance(robot.mechanism.at((site,)).kinds[site.node], JointedBody):
            free.append(joint)
            of_others[joint.v_slice] = False
    if (flat[:, of_others] != robot.armature[of_others]).any():
        name = next(joint.name for joint in robot.joints if of_others[joint.v_slice].any())
        raise UnsupportedError(f"joint {name!r} is part of a coupling or a node, so its armature cannot vary by sample")
    largest = flat.max(axis=0, initial=0.0)
    bounds = np.where(largest > 0.0, largest, 1.0), flat.min(axis=0, initial=np.inf)
    most, least = ({joint.name: x[joint.v_slice] for joint in free} for x in bounds)
    return robot.with_armature(most), robot.with_armature(least)


def _require_physical(robot: Any, theta: Array, strict: bool) -> None:
    """Raise, or warn, if parameters that are not the robot's own are those of no body."""
    doubtful = ~clearly_physical(theta) & (theta != robot.inertial_parameters).any(axis=-1)
    for place in map(tuple, np.argwhere(doubtful)):
        where = f" of sample {', '.join(map(str, place[:-1]))}" if len(place) > 1 else ""
        owner = f"body {robot.bodies[place[-1]].name!r}{where}"
        mass, _, inertia = from_parameters(owner, theta[place])
        problem = fault(mass, inertia.tolist())
        if problem is not None and strict:
            raise ModelError(f"{owner}: {problem}. strict=False keeps such parameters")
        if problem is not None:
            warnings.warn(f"{owner}: {problem}; others are not looked at", ModelWarning, stacklevel=4)
            return


def _unlike(robot: Any, theta: Array) -> list[Array]:
    """One of all parameters that have zeros where the robot's have none, or are less clearly those of a body."""
    features = np.concatenate([theta != 0.0, clearly_physical(theta)[..., None]], axis=-1)
    own = robot.inertial_parameters
    nominal = np.concatenate([own != 0.0, clearly_physical(own)[..., None]], axis=-1)
    # a body that is clearly physical resists every motion
    lacking = (nominal & ~features & ~features[..., -1:]).reshape(-1, nominal.size)
    some = lacking.any(axis=-1)
    _, first = np.unique(lacking[some], axis=0, return_index=True)
    return list(theta.reshape(-1, *own.shape)[some][first])


def _quietly(robot: Any, theta: Array) -> Any:
    """A robot with parameters that were judged before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return robot.with_inertial_parameters(theta, strict=False)


def _numbers(name: str, values: Any, core: tuple[int, ...]) -> Array:
    array = arguments.doubles("population", name, values, core)
    if not np.isfinite(array).all():
        raise InputError(f"population: {name} has NaN or infinite entries")
    return array
