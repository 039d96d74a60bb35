"""Dense algebra without a tree, one kernel or family of kernels per file, over the IR that recursions use."""
