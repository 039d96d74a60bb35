"""Motion in time: integrators on the manifold of configurations, constraints, damping, controllers in the loop."""

from kinetree.simulation.integrators import METHODS
from kinetree.simulation.results import Film, Rollout, StepInfo
from kinetree.simulation.simulator import Simulator

__all__ = ["METHODS", "Film", "Rollout", "Simulator", "StepInfo"]
