"""Commands that measure time, memory or bytes, with their workers and the modules that these share."""
