"""Controllers and their building blocks: goals, poses and the twists between them, paths in time.

Poses are 4×4 matrices, twists six numbers, angular part first. All functions take leading batch axes.
"""

from kinetree.control.adaptive import Adaptive, AdaptiveCommand
from kinetree.control.avoid import Avoid
from kinetree.control.command import Command
from kinetree.control.differential import DifferentialIK
from kinetree.control.goals import Bounds, Foot, ForceGoal, Goal, Posture, Target
from kinetree.control.inverse_kinematics import InverseKinematics, inverse_kinematics
from kinetree.control.operational_space import OperationalSpace
from kinetree.control.paths import Path, PosePath, PoseState, State, cubic, minimum_jerk, pose_path, quintic
from kinetree.control.pose_functions import exp, interpolate, inverse, log, pose_error
from kinetree.control.sharing import AugmentedObject, augmented_object
from kinetree.control.targets import ControllerState
from kinetree.control.track import Tracker, track
from kinetree.control.whole_body import WholeBody, WholeBodyCommand

#: The former name of `ForceGoal`.
Force = ForceGoal

__all__ = [
    "Adaptive",
    "AdaptiveCommand",
    "AugmentedObject",
    "Avoid",
    "Bounds",
    "Command",
    "ControllerState",
    "DifferentialIK",
    "Foot",
    "Force",
    "ForceGoal",
    "Goal",
    "InverseKinematics",
    "OperationalSpace",
    "Path",
    "PosePath",
    "PoseState",
    "Posture",
    "State",
    "Target",
    "Tracker",
    "WholeBody",
    "WholeBodyCommand",
    "augmented_object",
    "cubic",
    "exp",
    "interpolate",
    "inverse",
    "inverse_kinematics",
    "log",
    "minimum_jerk",
    "pose_error",
    "pose_path",
    "quintic",
    "track",
]
