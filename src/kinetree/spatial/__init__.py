"""Motions, forces, transforms and inertias, generic in the scalar."""
