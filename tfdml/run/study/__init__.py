"""Studies: rows of runs with several seeds, and their tables."""
