"""Tests of `kinetree.io`."""
