"""Image indexes and searches in them."""
