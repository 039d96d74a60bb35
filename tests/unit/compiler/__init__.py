"""Tests of `kinetree.compiler`."""
