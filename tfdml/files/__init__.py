"""Files that are whole or not there: checksums, locks, archives, tables, embeddings on disk."""
