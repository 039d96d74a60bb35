"""Tasks on nodes of any kind: clusters of bodies, flexible bodies, nodes of users.

The recursions for Λ⁻¹ and its relatives elsewhere in this package express all nodes in the frame of their tree, which
rigid bodies allow. Here rows, motions and forces are propagated by the weights of [J11], in each node's own
coordinates, whatever their number. Frames sit on rigid bodies or on outlets of other nodes, so tasks still begin and
end with twists and wrenches.

[J11] A. Jain, "Graph theoretic foundations of multibody dynamics, part II", Multibody System Dynamics 26, 2011.
"""

#: The name of the method for Λ⁻¹.
BY_WEIGHTS = "weights"
