"""Storage of an index's rows: a folder with faiss, or a vector database."""
