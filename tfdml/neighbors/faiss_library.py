"""Imports faiss."""

import logging


def load_faiss():
    """Imports faiss where it is needed: it is slow to load, and only one of its two builds can be installed."""
    logging.getLogger("faiss").setLevel(logging.WARNING)  # It logs which CPU instructions it looks for, and times.
    import faiss

    return faiss
