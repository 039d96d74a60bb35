"""The LLVM back end: lowered programs as LLVM assembly, for samples and lanes."""
