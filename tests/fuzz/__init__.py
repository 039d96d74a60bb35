"""Long runs of hostile input, not part of the normal tests."""
