"""Laws, engine parity, oracles and units of Kinetree."""
