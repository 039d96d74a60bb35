"""Simulation: integrators on the configuration manifold, constraints, contacts, controllers in the loop."""

from kinetree.kernels.contact_response import EDGE, FREE, OPEN, SLIDING, SLIPPING, STICKING, STOPPED, STUCK
from kinetree.model.integrators import METHODS
from kinetree.simulation.contacts import Points
from kinetree.simulation.motors import Motor, MotorRollout, Motors, MotorState
from kinetree.simulation.shapes import Block, Capsule, HeightField, Plane, Shape, Sphere
from kinetree.simulation.simulator import Simulator
from kinetree.simulation.smoothing import Smoothed, smoothed
from kinetree.simulation.step_results import (
    Film,
    FoundContacts,
    Modes,
    Rollout,
    StepDiscretized,
    StepGradients,
    StepInfo,
)

__all__ = [
    "EDGE",
    "FREE",
    "METHODS",
    "OPEN",
    "SLIDING",
    "SLIPPING",
    "STICKING",
    "STOPPED",
    "STUCK",
    "Block",
    "Capsule",
    "Film",
    "FoundContacts",
    "HeightField",
    "Modes",
    "Motor",
    "MotorRollout",
    "MotorState",
    "Motors",
    "Plane",
    "Points",
    "Rollout",
    "Shape",
    "Simulator",
    "Smoothed",
    "Sphere",
    "StepDiscretized",
    "StepGradients",
    "StepInfo",
    "smoothed",
]
