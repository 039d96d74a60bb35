"""Tests of `kinetree.cli`."""
