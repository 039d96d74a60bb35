"""The recursions, one per file, named as in the literature. Each is written once and runs on every engine."""
