"""Tests of `kinetree.spatial`."""
