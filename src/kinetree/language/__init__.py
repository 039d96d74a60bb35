"""The tree language: loops as data, roles, node kinds, the rules."""
