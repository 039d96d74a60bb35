"""Optimal control: the best motion of a robot over a horizon, and model-predictive control.

A motion of 100 steps that takes a frame to a pose::

    problem = ocp.Problem(robot, dt=0.01, nodes=100, terms=[ocp.pose("tool0", last=1e3), ocp.control(weight=1e-4)])
    plan = problem.solve(q, targets={"tool0": pose})
"""

from kinetree.ocp.built_in_terms import (
    center_of_mass,
    control,
    momentum,
    orientation,
    pose,
    position,
    state,
    velocity,
)
from kinetree.ocp.contacts import Contacts
from kinetree.ocp.force_terms import cone, force, friction
from kinetree.ocp.jax_terms import jax_term
from kinetree.ocp.mpc import MPC, MPCCommand, MPCState
from kinetree.ocp.plan import Plan
from kinetree.ocp.problem import Limits, Problem
from kinetree.ocp.sampling import Sampled, sample
from kinetree.ocp.terms import Term

__all__ = [
    "MPC",
    "Contacts",
    "Limits",
    "MPCCommand",
    "MPCState",
    "Plan",
    "Problem",
    "Sampled",
    "Term",
    "center_of_mass",
    "cone",
    "control",
    "force",
    "friction",
    "jax_term",
    "momentum",
    "orientation",
    "pose",
    "position",
    "sample",
    "state",
    "velocity",
]
