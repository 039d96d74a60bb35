"""Tests of `kinetree.control`."""
