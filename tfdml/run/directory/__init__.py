"""What a run leaves on disk, and reads again."""
