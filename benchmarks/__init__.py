"""Ramify against its peers, in one process on one core."""
