"""Pictures of a run, a file for each family."""
