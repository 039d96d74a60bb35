"""Other libraries as witnesses."""
