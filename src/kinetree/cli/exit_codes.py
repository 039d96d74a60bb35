"""Exit codes of the command; those of success and of a failed check are 0 and 1."""

#: The arguments, the file or the output cannot be used.
UNUSABLE = 2
