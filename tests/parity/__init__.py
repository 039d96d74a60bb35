"""The same sample gives the same bits, however it is computed."""
