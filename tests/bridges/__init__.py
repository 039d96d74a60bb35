"""Automatic differentiation through the compiled kernels."""
