"""Laws, engine parity, oracles and units of Ramify."""
