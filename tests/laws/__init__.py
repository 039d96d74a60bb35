"""Identities of mechanics that hold on every engine, batch shape and tree."""
