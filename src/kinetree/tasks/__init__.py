"""Operational space: the dynamics of tasks such as the motions of hands and feet.

`robot.tasks(frames)` prepares tasks; its functions compute Λ⁻¹, Λ, J, J̄, N and related quantities at any state.
"""

from kinetree.tasks.functions import TaskDynamics
from kinetree.tasks.singular import POLICIES
from kinetree.tasks.state import TaskState
from kinetree.tasks.task_types import METHODS
from kinetree.tasks.tasks import Tasks

__all__ = ["METHODS", "POLICIES", "TaskDynamics", "TaskState", "Tasks"]
