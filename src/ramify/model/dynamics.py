"""Placeholder."""


class Dynamics:
    """The dynamics methods of a model."""
