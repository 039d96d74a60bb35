"""The LLVM back end: lowered programs to LLVM assembly and object code."""
