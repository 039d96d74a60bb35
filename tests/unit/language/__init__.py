"""Tests of `kinetree.language`."""
