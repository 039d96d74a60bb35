"""Tests of `kinetree.model`."""
