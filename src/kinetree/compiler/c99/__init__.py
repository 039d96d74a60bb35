"""The C99 back end: lowered programs to C source code for one mechanism."""
