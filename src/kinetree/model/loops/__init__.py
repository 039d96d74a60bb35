"""Closed loops and coupled joints: clusters of bodies that are one node."""
