"""The native engine: traced loops as machine code behind real NumPy generalised ufuncs."""
