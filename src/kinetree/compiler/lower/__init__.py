"""From places to addresses: layout, liveness, loops over tables and ranges."""
