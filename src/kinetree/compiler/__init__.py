"""Engines run the one text of an algorithm: as it stands, compiled, or counted."""
