"""Dense kernels."""
