"""Built-in robots."""

from ramify.model.zoo.humanoid import humanoid24
from ramify.model.zoo.pendulums import cart_pole, double_pendulum, pendulum
from ramify.model.zoo.random import chain, random_tree

__all__ = ["cart_pole", "chain", "double_pendulum", "humanoid24", "pendulum", "random_tree"]
