"""The unknowns of a regression: ten inertial parameters of each body, and friction parameters of joints.

    τ = Y(q, v, a) θ + armature a + viscous v + coulomb sign(v) + offset

Parameters of different units become comparable when divided by a scale: of a body, its mass m, m l and m l², where l is
its radius of gyration about the link's origin, all from the model before identification.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinetree.errors import InputError, UnknownNameError
from kinetree.model.model import Model
from kinetree.runtime.dask import Once
from kinetree.spatial.value import Array

#: Friction terms: their columns, as functions of v and a.
FRICTION = ("viscous", "coulomb", "offset", "armature")
_INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")


@dataclass(frozen=True)
class Parameters(Once):
    """The unknowns for one robot."""

    robot: Model  # the model before identification
    bodies: tuple[str, ...]  # bodies whose inertial parameters are unknown
    friction: tuple[str, ...]  # terms of `FRICTION` that are unknown, for all joints with one degree of freedom

    @staticmethod
    def of(robot: Any, bodies: Iterable[str] | None, friction: Iterable[str]) -> Parameters:
        """Check the user's choice; by default all bodies that have mass and a frame."""
        if not isinstance(robot, Model):
            raise InputError(f"identification needs a kinetree.Model, got {type(robot).__name__}")
        if isinstance(friction, str) or isinstance(bodies, str):
            raise InputError("bodies and friction are sequences of names; for one name write [name]")
        terms = tuple(dict.fromkeys(friction))
        for term in terms:
            if term not in FRICTION:
                raise UnknownNameError("friction term", term, FRICTION)
        usable = tuple(body.name for body in robot.bodies if body.name in robot.frames)
        if bodies is None:
            names = tuple(body.name for body in robot.bodies if body.name in usable and body.mass > 0.0)
        else:
            names = tuple(dict.fromkeys(bodies))
            for name in names:
                if name not in usable:
                    raise UnknownNameError("body", name, usable)
        if not names:
            raise InputError(f"robot {robot.name!r} has no body with mass; name the bodies to identify: bodies=[…]")
        return Parameters(robot, names, tuple(term for term in FRICTION if term in terms))

    @cached_property
    def rows(self) -> list[int]:
        """Place of each identified body in `robot.bodies`."""
        places = {body.name: i for i, body in enumerate(self.robot.bodies)}
        return [places[name] for name in self.bodies]

    @cached_property
    def joints(self) -> list[tuple[str, int]]:
        """Joints with friction: the name, and the place in v."""
        return [(joint.name, joint.v_slice.start) for joint in self.robot.joints if joint.nv == 1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each column, such as "upper_arm.mx" or "elbow.viscous"."""
        inertial = [f"{body}.{each}" for body in self.bodies for each in _INERTIAL]
        return (*inertial, *(f"{joint}.{term}" for term in self.friction for joint, _ in self.joints))

    @cached_property
    def lengths(self) -> Array:
        """Radius of gyration of each body about its link's origin, (m,) [m]; of the robot's mean, if it has none."""
        theta = self.robot.inertial_parameters[self.rows]
        masses, traces = theta[:, 0], theta[:, 4] + theta[:, 7] + theta[:, 9]
        return _or_mean(np.sqrt(traces / 2.0 / np.where(masses > 0.0, masses, 1.0)))

    @cached_property
    def masses(self) -> Array:
        """Mass of each body, (m,) [kg]; the robot's mean, if it has none."""
        return _or_mean(self.robot.inertial_parameters[self.rows, 0])

    @cached_property
    def scales(self) -> Array:
        """Scale of each parameter, (p,)."""
        m, l = self.masses, self.lengths
        inertial = np.stack([m, *[m * l] * 3, *[m * l * l] * 6], axis=1).ravel()
        # joint forces of the robot's weight at its size, at one radian per second
        typical = float(self.robot.mass * np.linalg.norm(self.robot.gravity) * l.mean()) or 1.0
        return np.concatenate([inertial, [0.01 * typical] * len(self.friction) * len(self.joints)])

    @cached_property
    def prior(self) -> Array:
        """The model's own values, (p,); no friction, its own armature."""
        inertial = self.robot.inertial_parameters[self.rows].ravel()
        armature = self.armature
        own = {"armature": [armature[i] for _, i in self.joints]}
        others = [value for term in self.friction for value in own.get(term, [0.0] * len(self.joints))]
        return np.concatenate([inertial, others])

    @cached_property
    def armature(self) -> Array:
        """Rotor inertias of the model, (nv,)."""
        return np.concatenate([np.broadcast_to(joint.armature, joint.nv) for joint in self.robot.joints])

    def matrix(self, q: Array, v: Array, a: Array) -> Array:
        """Joint forces per unit of each unknown, (n, nv, p)."""
        n, nv = v.shape
        Y = self.robot.regressor(q, v, a, list(self.bodies)).reshape(n, nv, -1)
        columns = np.zeros((n, nv, len(self.names)))
        columns[..., : Y.shape[-1]] = Y
        values = {"viscous": v, "coulomb": np.sign(v), "offset": np.ones_like(v), "armature": a}
        at = Y.shape[-1]
        for term in self.friction:
            for _, i in self.joints:
                columns[:, i, at] = values[term][:, i]
                at += 1
        return columns

    def known(self, q: Array, v: Array, a: Array) -> Array:
        """Joint forces that are not unknown: of rotors, and of bodies that are not identified, (n, nv)."""
        rotors = self.armature.copy()
        if "armature" in self.friction:
            rotors[[i for _, i in self.joints]] = 0.0
        forces: Array = rotors * a
        rest = [body.name for body in self.robot.bodies if body.name not in self.bodies and body.mass != 0.0]
        rest = [name for name in rest if name in self.robot.frames]
        if rest:
            places = {body.name: i for i, body in enumerate(self.robot.bodies)}
            theta = self.robot.inertial_parameters[[places[name] for name in rest]]
            forces = forces + np.tensordot(self.robot.regressor(q, v, a, rest), theta, 2)
        return forces

    def split(self, theta: Array) -> tuple[Array, dict[str, Array]]:
        """Inertial parameters of all bodies, (bodies, 10), and friction terms of all joints, (nv,) each."""
        inertial = self.robot.inertial_parameters
        count = 10 * len(self.bodies)
        inertial[self.rows] = theta[:count].reshape(-1, 10)
        terms: dict[str, Array] = {}
        places = [i for _, i in self.joints]
        for k, term in enumerate(self.friction):
            value = self.armature.copy() if term == "armature" else np.zeros(self.robot.nv)
            start = count + k * len(places)
            value[places] = theta[start : start + len(places)]
            terms[term] = value
        return inertial, terms

    def samples_per_slice(self, numbers: int) -> int:
        """How many samples have this many numbers in their matrices."""
        return max(1, math.ceil(numbers / (self.robot.nv * (len(self.names) + 1))))


def _or_mean(values: Array) -> Array:
    """Positive values, in place of others their mean."""
    positive = values > 0.0
    return np.where(positive, values, float(values[positive].mean()) if positive.any() else 1.0)
