"""Tests of `kinetree.kernels`."""
