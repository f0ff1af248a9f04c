"""Reading images: sources, caches, unreadable files and near-duplicates."""
