"""Robots as files of other programs."""
