"""What users call: compiled functions of NumPy arrays, their arguments, batches, threads and sequences."""
