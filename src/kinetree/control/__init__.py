"""What controllers are made of: poses and the twists between them, and paths in time.

Poses are 4×4 matrices, twists six numbers, angular part first. All functions take leading batch axes.
"""

from kinetree.control.paths import Path, PosePath, PoseState, State, cubic, minimum_jerk, pose_path, quintic
from kinetree.control.poses import exp, interpolate, inverse, log, pose_error

__all__ = [
    "Path",
    "PosePath",
    "PoseState",
    "State",
    "cubic",
    "exp",
    "interpolate",
    "inverse",
    "log",
    "minimum_jerk",
    "pose_error",
    "pose_path",
    "quintic",
]
