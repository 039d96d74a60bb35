"""Built-in robots."""

from kinetree.zoo.arm import arm7
from kinetree.zoo.asimo import ASIMO_VARIANTS, asimo35, asimo35_tasks
from kinetree.zoo.box import box
from kinetree.zoo.humanoid import humanoid24
from kinetree.zoo.pendulums import cart_pole, double_pendulum, pendulum
from kinetree.zoo.random import MOVING_KINDS, chain, random_tree

__all__ = [
    "ASIMO_VARIANTS",
    "MOVING_KINDS",
    "arm7",
    "asimo35",
    "asimo35_tasks",
    "box",
    "cart_pole",
    "chain",
    "double_pendulum",
    "humanoid24",
    "pendulum",
    "random_tree",
]
