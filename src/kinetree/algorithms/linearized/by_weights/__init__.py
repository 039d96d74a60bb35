"""Derivatives of the dynamics for nodes of any kind, with the weights of [J11] and the variables of [JR].

The recursions beside this package work in the frame of the tree, where rigid bodies need fewer operations. Here,
changes of velocity ϑ and of acceleration ζ (`recursion.variation`), and the forces that they require, are propagated by
weights.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
[JR]  A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
      Systems, Man and Cybernetics 23, 1993.
"""
