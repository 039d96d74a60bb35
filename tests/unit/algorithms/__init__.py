"""Tests of `kinetree.algorithms`."""
