"""Recursions of dynamics."""
