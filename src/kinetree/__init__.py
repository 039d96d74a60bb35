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
from kinetree import errors, operational_space
from kinetree.engines.count import Count
from kinetree.engines.kernel_function import compiled
from kinetree.engines.native.threads import get_threads, set_threads
from kinetree.kernels.language import kernel
from kinetree.loading import load
from kinetree.model.body import Body
from kinetree.model.builder import Builder
from kinetree.model.constraint_kinds import Distance, Weld
from kinetree.model.constraints import ConstrainedDynamics
from kinetree.model.coupling import LinearCoupling, PolynomialCoupling
from kinetree.model.dynamics import FUNCTIONS
from kinetree.model.flexible import Beam, FlexibleBody, Station
from kinetree.model.general import Node
from kinetree.model.joint import Joint, Limits
from kinetree.model.model import Model
from kinetree.model.results import (
    Discretized,
    Energy,
    ForwardGradients,
    InverseGradients,
    LinearizedForward,
    LinearizedInverse,
)
from kinetree.operational_space.tasks import CenterOfMassTask, RelativeTask, Task
from kinetree.spatial.scalar import register_scalar

if typing.TYPE_CHECKING:
    from kinetree import control, identification, interop, simulation, viewer, zoo
    from kinetree.interop.mujoco_model import from_mujoco
    from kinetree.interop.pinocchio_model import from_pinocchio
    from kinetree.model.denavit_hartenberg import DHRow, from_dh
    from kinetree.model.node_laws import check_node
    from kinetree.saving.mjcf import to_mjcf
    from kinetree.saving.urdf import to_urdf

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
    "compiled",
    "control",
    "errors",
    "from_dh",
    "from_mujoco",
    "from_pinocchio",
    "get_threads",
    "identification",
    "interop",
    "kernel",
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

# Imported on first use, by name, with the modules that define them: together they would take a quarter of the import.
_ON_FIRST_USE = {
    "DHRow": "model.denavit_hartenberg",
    "check_node": "model.node_laws",
    "control": "control",
    "from_dh": "model.denavit_hartenberg",
    "from_mujoco": "interop.mujoco_model",
    "from_pinocchio": "interop.pinocchio_model",
    "identification": "identification",
    "interop": "interop",
    "simulation": "simulation",
    "to_mjcf": "saving.mjcf",
    "to_urdf": "saving.urdf",
    "viewer": "viewer",
    "zoo": "zoo",
}


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'kinetree' has no attribute {name!r}")
    module = importlib.import_module(f"kinetree.{_ON_FIRST_USE[name]}")
    found = globals()[name] = module if _ON_FIRST_USE[name] == name else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
