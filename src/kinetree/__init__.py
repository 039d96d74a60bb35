"""Kinetree: the dynamics of branching robots.

Fast recursive algorithms on kinematic trees, each written once as it stands in its paper, and run by an engine of
choice.

    import kinetree as kt

    robot = kt.zoo.humanoid24()
    q = robot.random_configuration(rng=0)
    M = robot.mass_matrix(q)
"""

import importlib
import typing

import kinetree.cli.interrupts  # noqa: F401 (before the rest, which takes a while to import)

# isort: split
from kinetree import errors, interop, operational_space, zoo
from kinetree.engines.count import Count
from kinetree.engines.native.threads import get_threads, set_threads
from kinetree.interop.mujoco_model import from_mujoco
from kinetree.interop.pinocchio_model import from_pinocchio
from kinetree.loading import load
from kinetree.model.body import Body
from kinetree.model.builder import Builder
from kinetree.model.constraint_kinds import Distance, Weld
from kinetree.model.constraints import ConstrainedDynamics
from kinetree.model.coupling import LinearCoupling, PolynomialCoupling
from kinetree.model.denavit_hartenberg import DHRow, from_dh
from kinetree.model.dynamics import FUNCTIONS
from kinetree.model.flexible import Beam, FlexibleBody, Station
from kinetree.model.general import Node
from kinetree.model.joint import Joint, Limits
from kinetree.model.model import Model
from kinetree.model.node_laws import check_node
from kinetree.model.results import (
    Discretized,
    Energy,
    ForwardGradients,
    InverseGradients,
    LinearizedForward,
    LinearizedInverse,
)
from kinetree.operational_space.tasks import CenterOfMassTask, RelativeTask, Task
from kinetree.saving.mjcf import to_mjcf
from kinetree.saving.urdf import to_urdf
from kinetree.spatial.scalar import register_scalar

if typing.TYPE_CHECKING:
    from kinetree import control, identification, simulation, viewer

__version__ = "0.1.0"

__all__ = [
    "FUNCTIONS",
    "Beam",
    "Body",
    "Builder",
    "CenterOfMassTask",
    "ConstrainedDynamics",
    "Count",
    "DHRow",
    "Discretized",
    "Distance",
    "Energy",
    "FlexibleBody",
    "ForwardGradients",
    "InverseGradients",
    "Joint",
    "Limits",
    "LinearCoupling",
    "LinearizedForward",
    "LinearizedInverse",
    "Model",
    "Node",
    "PolynomialCoupling",
    "RelativeTask",
    "Station",
    "Task",
    "Weld",
    "check_node",
    "control",
    "errors",
    "from_dh",
    "from_mujoco",
    "from_pinocchio",
    "get_threads",
    "identification",
    "interop",
    "load",
    "operational_space",
    "register_scalar",
    "set_threads",
    "simulation",
    "to_mjcf",
    "to_urdf",
    "viewer",
    "zoo",
]

# Imported on first use: together they are a fifth of the time that `import kinetree` would take.
_ON_FIRST_USE = ("control", "identification", "simulation", "viewer")


def __getattr__(name: str) -> object:
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"kinetree.{name}")
    raise AttributeError(f"module 'kinetree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
