"""Operational space: what forces at hands and feet do, for tasks of any frames, in one call.

`robot.operational_space(q, frames)` gives Λ, J̄, the null space and the rest; `robot.inverse_inertia(frames)` gives a
compiled function for hot loops, `robot.task_dynamics(frames)` one for Λ, J̄ and N together.
"""

from kinetree.operational_space.hot import TaskDynamics
from kinetree.operational_space.inverse import POLICIES
from kinetree.operational_space.methods import METHODS

__all__ = ["METHODS", "POLICIES", "TaskDynamics"]
