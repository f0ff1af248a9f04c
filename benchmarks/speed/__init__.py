"""Commands that measure time, memory or bytes, with their workers and shared modules."""
