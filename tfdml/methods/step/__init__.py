"""The training step that all methods take."""
