"""Robots: bodies behind joints, their coordinates, and how to build them."""

from kinetree.model.body import Body, Frame
from kinetree.model.builder import Builder
from kinetree.model.joint import Joint, Limits
from kinetree.model.model import Model

__all__ = ["Body", "Builder", "Frame", "Joint", "Limits", "Model"]
