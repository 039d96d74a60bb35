"""Simulation: integrators on the configuration manifold, constraints, contacts, controllers in the loop."""

from kinetree.model.integrators import METHODS
from kinetree.simulation.contact import Points
from kinetree.simulation.results import Film, Rollout, StepInfo
from kinetree.simulation.shapes import Block, Capsule, HeightField, Plane, Shape, Sphere
from kinetree.simulation.simulator import Simulator

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
