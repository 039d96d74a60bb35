"""Recursions of the operational space."""
