"""Spatial operators as objects: the algebra of [J11], applied by sweeps over the tree.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

from kinetree.operators.algebra import Operator
from kinetree.operators.collection import Operators

__all__ = ["Operator", "Operators"]
