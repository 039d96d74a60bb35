"""The C back end: lowered programs as C99 for one mechanism."""
