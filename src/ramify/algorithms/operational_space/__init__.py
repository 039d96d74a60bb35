"""Operational-space inertia Λ⁻¹ = J M⁻¹ Jᵀ of many task frames at once: one file per published algorithm."""
