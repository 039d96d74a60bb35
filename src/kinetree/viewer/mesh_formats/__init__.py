"""Readers of mesh files, one per format: from the bytes of a file to meshes. Malformed files raise `LoadError`."""
