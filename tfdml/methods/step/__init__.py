"""The training step that all methods share."""
