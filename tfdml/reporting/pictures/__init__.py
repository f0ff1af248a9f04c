"""Pictures of a run, one a file."""
