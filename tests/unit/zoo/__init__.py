"""Tests of `kinetree.zoo`."""
