"""Robots: bodies behind joints, their coordinates, and how to build them."""

from ramify.model.body import Body, Frame
from ramify.model.builder import Builder
from ramify.model.joint import Joint, Limits
from ramify.model.model import Model

__all__ = ["Body", "Builder", "Frame", "Joint", "Limits", "Model"]
