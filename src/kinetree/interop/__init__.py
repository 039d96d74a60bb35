"""Conversion of coordinates, vectors and matrices to and from Pinocchio and MuJoCo.

Neither library is imported here: users pass in models that they already have.
"""

from kinetree.interop.counterpart import Counterpart
from kinetree.interop.mujoco_models import MujocoCounterpart, mujoco
from kinetree.interop.pinocchio_models import PinocchioCounterpart, pinocchio

__all__ = ["Counterpart", "MujocoCounterpart", "PinocchioCounterpart", "mujoco", "pinocchio"]
