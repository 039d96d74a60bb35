"""Operational space: the dynamics of tasks such as the motions of hands and feet.

`robot.tasks(frames)` prepares tasks; its functions compute Λ⁻¹, Λ, J, J̄, N and related quantities at any state.
"""

from kinetree.operational_space.functions import TaskDynamics
from kinetree.operational_space.methods import METHODS
from kinetree.operational_space.prepared import Tasks
from kinetree.operational_space.singular import POLICIES
from kinetree.operational_space.state import TaskState

__all__ = ["METHODS", "POLICIES", "TaskDynamics", "TaskState", "Tasks"]
