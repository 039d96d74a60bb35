"""Papers' own tables and examples, reproduced by `benchmarks.papers`."""
