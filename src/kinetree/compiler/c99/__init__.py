"""The C99 back end: lowered programs to a header and a source file for one robot."""
