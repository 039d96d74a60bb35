"""Tests of `kinetree.tasks`."""
