"""Recursions of kinematics."""
