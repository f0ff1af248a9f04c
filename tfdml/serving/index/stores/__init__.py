"""Where an index keeps its rows: a folder with faiss, or an engine."""
