"""Files that are complete or absent: checksums, locks, archives, tables, and embeddings on disk."""
