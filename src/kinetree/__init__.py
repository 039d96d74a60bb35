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

import kinetree.interrupts  # noqa: F401 (before the rest, which takes a while to import)

# isort: split
from kinetree import errors, tasks
from kinetree.compiler.count import Count
from kinetree.io import load
from kinetree.kernels.language import kernel
from kinetree.model.body import Body
from kinetree.model.builder import Builder
from kinetree.model.dynamics import FUNCTIONS
from kinetree.model.held_derivatives import ConstrainedDynamics, ConstrainedGradients, LinearizedConstrained
from kinetree.model.held_rows import Distance, Weld
from kinetree.model.joint import Joint, Limits
from kinetree.model.joints.manifold import Manifold
from kinetree.model.loops.coupling import LinearCoupling, PolynomialCoupling
from kinetree.model.model import Model
from kinetree.model.nodes.flexible import Beam, FlexibleBody, Station
from kinetree.model.nodes.general import Node
from kinetree.model.results import (
    Discretized,
    Energy,
    ForwardGradients,
    HybridDynamics,
    InverseGradients,
    LinearizedAcceleration,
    LinearizedForward,
    LinearizedInverse,
    StackedVectors,
)
from kinetree.runtime.function import compiled
from kinetree.runtime.threads import get_threads, set_threads
from kinetree.spatial.scalar import register_scalar
from kinetree.tasks.task_types import CenterOfMassTask, RelativeTask, Task

if typing.TYPE_CHECKING:
    from kinetree import control, geometry, identification, interop, ocp, simulation, viewer, zoo
    from kinetree.interop.mujoco_models import from_mujoco
    from kinetree.interop.pinocchio_models import from_pinocchio
    from kinetree.io.mjcf_write import to_mjcf
    from kinetree.io.save import to_urdf
    from kinetree.model.assembly.denavit_hartenberg import DHRow, from_dh
    from kinetree.model.nodes.laws import check_node
    from kinetree.model.shapes import Scene
    from kinetree.model.sko import sko

__version__ = "0.1.0"

__all__ = [
    "FUNCTIONS",
    "Beam",
    "Body",
    "Builder",
    "CenterOfMassTask",
    "ConstrainedDynamics",
    "ConstrainedGradients",
    "Count",
    "DHRow",
    "Discretized",
    "Distance",
    "Energy",
    "FlexibleBody",
    "ForwardGradients",
    "HybridDynamics",
    "InverseGradients",
    "Joint",
    "Limits",
    "LinearCoupling",
    "LinearizedAcceleration",
    "LinearizedConstrained",
    "LinearizedForward",
    "LinearizedInverse",
    "Manifold",
    "Model",
    "Node",
    "PolynomialCoupling",
    "RelativeTask",
    "Scene",
    "StackedVectors",
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
    "geometry",
    "get_threads",
    "identification",
    "interop",
    "kernel",
    "load",
    "ocp",
    "register_scalar",
    "set_threads",
    "simulation",
    "sko",
    "tasks",
    "to_mjcf",
    "to_urdf",
    "viewer",
    "zoo",
]

# Imported on first use, by name, with the modules that define them: together they would take a quarter of the import.
_ON_FIRST_USE = {
    "DHRow": "model.assembly.denavit_hartenberg",
    "Scene": "model.shapes",
    "check_node": "model.nodes.laws",
    "control": "control",
    "from_dh": "model.assembly.denavit_hartenberg",
    "from_mujoco": "interop.mujoco_models",
    "from_pinocchio": "interop.pinocchio_models",
    "geometry": "geometry",
    "identification": "identification",
    "interop": "interop",
    "ocp": "ocp",
    "simulation": "simulation",
    "sko": "model.sko",
    "to_mjcf": "io.mjcf_write",
    "to_urdf": "io.save",
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
    return sorted({*__all__, "__version__"})
