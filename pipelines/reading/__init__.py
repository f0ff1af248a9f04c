"""Reading rows: sources, caches, what cannot be read."""
