"""Choices between values: see `kinetree.kernels.branchless`."""

from kinetree.kernels.branchless import UNBOUNDED, between, larger, largest, less, magnitude, smaller, stand_in, where

__all__ = ["UNBOUNDED", "between", "larger", "largest", "less", "magnitude", "smaller", "stand_in", "where"]
