"""Exit codes of the command, besides 0 for success and 1 for a failed check."""

#: The arguments, the file or the output cannot be used.
UNUSABLE = 2
