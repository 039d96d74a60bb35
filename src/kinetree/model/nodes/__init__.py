"""Kinds of nodes: rigid, flexible, and with formulas of the user."""
