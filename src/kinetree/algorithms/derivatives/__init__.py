"""Derivatives of the dynamics, one algorithm of [JR] per file, for trees of any joints.

Derivatives with respect to q are along the tangent: dq is the increment in `robot.integrate(q, dq)`, of the size of v,
in body coordinates for joints with q̇ ≠ v.

[JR] is written for serial chains of one-DoF joints. With several degrees of freedom its Ḣ and Ḧ split into

    Ṡ = V × H,    Ψ̇ = V⁺ × H,    Ψ̈ = α⁺ × H + V⁺ × Ψ̇        (V⁺, α⁺: of the parent, where the node is)

and the term H̃*f of a joint acts on its ancestors only: at the joint itself it cancels with the rotation of H.

[JR] A. Jain, G. Rodriguez, "Linearization of manipulator dynamics using spatial operators", IEEE Transactions on
     Systems, Man and Cybernetics 23, 1993.
"""
