"""From bodies and joints to a mechanism of nodes."""
