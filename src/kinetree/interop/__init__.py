"""The same robot in other libraries: converters to and from Pinocchio's and MuJoCo's numbers.

Neither library is imported here: their models are given by those who have them.
"""

from kinetree.interop.counterpart import Counterpart
from kinetree.interop.mujoco_counterpart import MujocoCounterpart, mujoco
from kinetree.interop.pinocchio_counterpart import PinocchioCounterpart, pinocchio

__all__ = ["Counterpart", "MujocoCounterpart", "PinocchioCounterpart", "mujoco", "pinocchio"]
