"""Studies: rows of runs, over seeds, and their tables."""
