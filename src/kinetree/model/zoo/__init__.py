"""Built-in robots."""

from kinetree.model.zoo.asimo import ASIMO_VARIANTS, asimo35, asimo35_tasks
from kinetree.model.zoo.humanoid import humanoid24
from kinetree.model.zoo.pendulums import cart_pole, double_pendulum, pendulum
from kinetree.model.zoo.random import MOVING_KINDS, chain, random_tree

__all__ = [
    "ASIMO_VARIANTS",
    "MOVING_KINDS",
    "asimo35",
    "asimo35_tasks",
    "cart_pole",
    "chain",
    "double_pendulum",
    "humanoid24",
    "pendulum",
    "random_tree",
]
