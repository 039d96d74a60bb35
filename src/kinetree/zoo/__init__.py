"""Built-in robots."""

from kinetree.zoo.asimo import ASIMO_VARIANTS, asimo35, asimo35_tasks
from kinetree.zoo.humanoid import humanoid24
from kinetree.zoo.small import MOVING_KINDS, arm7, box, cart_pole, chain, double_pendulum, pendulum, random_tree

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
