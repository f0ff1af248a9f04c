"""Nearest neighbors and K-means with faiss."""
