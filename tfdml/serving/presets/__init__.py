"""Presets: models to share, in folders and on hubs."""
