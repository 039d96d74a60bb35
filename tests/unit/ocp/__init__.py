"""Tests of `kinetree.ocp`."""
