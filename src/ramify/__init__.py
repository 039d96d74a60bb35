"""Ramify: the dynamics of branching robots.

Fast recursive algorithms on kinematic trees, each written once as it stands in its paper, and run by an engine of
choice.

    import ramify as rf

    robot = rf.zoo.humanoid24()
    q = robot.random_configuration(rng=0)
    M = robot.mass_matrix(q)
"""

from ramify import errors, interop, operational_space
from ramify.engines.count import Count
from ramify.engines.native.threads import get_threads, set_threads
from ramify.interop.mujoco_model import from_mujoco
from ramify.interop.pinocchio_model import from_pinocchio
from ramify.loading import load
from ramify.model import zoo
from ramify.model.body import Body
from ramify.model.builder import Builder
from ramify.model.discretization import Discretized
from ramify.model.dynamics import FUNCTIONS
from ramify.model.joint import Joint, Limits
from ramify.model.linearization import LinearizedForward, LinearizedInverse
from ramify.model.model import Model
from ramify.operational_space.space import OperationalSpace
from ramify.operational_space.tasks import CenterOfMassTask, RelativeTask, Task
from ramify.spatial.scalar import register_scalar

__version__ = "0.1.0"

__all__ = [
    "FUNCTIONS",
    "Body",
    "Builder",
    "CenterOfMassTask",
    "Count",
    "Discretized",
    "Joint",
    "Limits",
    "LinearizedForward",
    "LinearizedInverse",
    "Model",
    "OperationalSpace",
    "RelativeTask",
    "Task",
    "errors",
    "from_mujoco",
    "from_pinocchio",
    "get_threads",
    "interop",
    "load",
    "operational_space",
    "register_scalar",
    "set_threads",
    "zoo",
]
