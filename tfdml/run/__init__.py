"""A run: from its flags to its result."""
