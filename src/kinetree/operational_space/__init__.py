"""Operational space: what forces at hands and feet do, for tasks of any frames.

`robot.tasks(frames)` prepares tasks; its functions give Λ⁻¹, Λ, J, J̄, N and the rest, at any state.
"""

from kinetree.operational_space.functions import TaskDynamics
from kinetree.operational_space.methods import METHODS
from kinetree.operational_space.prepared import Tasks
from kinetree.operational_space.singular import POLICIES
from kinetree.operational_space.state import TaskState

__all__ = ["METHODS", "POLICIES", "TaskDynamics", "TaskState", "Tasks"]
