"""Export of robots to the file formats of other programs."""
