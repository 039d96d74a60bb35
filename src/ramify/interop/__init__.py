"""The same robot in other libraries: converters to and from Pinocchio's and MuJoCo's numbers.

Neither library is imported here: their models are given by those who have them.
"""

from ramify.interop.counterpart import Counterpart
from ramify.interop.mujoco_counterpart import MujocoCounterpart, mujoco
from ramify.interop.pinocchio_counterpart import PinocchioCounterpart, pinocchio

__all__ = ["Counterpart", "MujocoCounterpart", "PinocchioCounterpart", "mujoco", "pinocchio"]
