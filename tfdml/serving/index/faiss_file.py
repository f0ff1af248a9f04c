"""Reads files of faiss, which may have been made by hand."""

import contextlib
import threading

from tfdml.neighbors.nearest import load_faiss

# Faiss has one limit for the whole process.
_LIMIT = threading.Lock()


@contextlib.contextmanager
def _no_larger_than(size):
    """Has faiss refuse vectors of more bytes: a file that was made by hand can claim to hold more than it has."""
    faiss = load_faiss()
    with _LIMIT:
        before = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(size)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before)


def read_faiss(path):
    """Returns the index in a file; a ValueError if it is none.

    Args:
        path: `pathlib.Path` of the file.
    """
    faiss = load_faiss()
    try:
        with _no_larger_than(max(path.stat().st_size, 2**20)):
            # The table of a compressed index is not in the file, and may be larger.
            return faiss.read_index(str(path), faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    except RuntimeError as error:
        raise ValueError(f"{path} cannot be read by faiss: {str(error)[-200:]}") from None
