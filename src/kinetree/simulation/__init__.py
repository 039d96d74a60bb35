"""Simulation: integrators on the configuration manifold, constraints, contacts, controllers in the loop."""

from kinetree.model.integrators import METHODS
from kinetree.simulation.contacts import Points
from kinetree.simulation.shapes import Block, Capsule, HeightField, Plane, Shape, Sphere
from kinetree.simulation.simulator import Simulator
from kinetree.simulation.step_results import Film, Rollout, StepInfo

__all__ = [
    "METHODS",
    "Block",
    "Capsule",
    "Film",
    "HeightField",
    "Plane",
    "Points",
    "Rollout",
    "Shape",
    "Simulator",
    "Sphere",
    "StepInfo",
]
