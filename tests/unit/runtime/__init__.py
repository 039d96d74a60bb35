"""Tests of `kinetree.runtime`."""
