"""Limits on what files grow to when they are unpacked: a few kilobytes can hold gigabytes of zeros."""

import tokenize
import zipfile
import zlib

# What NumPy, h5py and zipfile raise for archives and arrays that are cut off, changed, or made by hand.
BROKEN = (ValueError, OSError, EOFError, KeyError, TypeError, RuntimeError, MemoryError)
BROKEN += (SyntaxError, SystemError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
# Weights and embeddings hardly shrink; a file that grows this much was made to fill memory.
MOST_GROWTH = 20
ALWAYS_ALLOWED = 256 * 2**20


def check_growth(size, stored):
    """Raises a ValueError if so many bytes are too many for a file.

    Args:
        size: bytes that it is unpacked to.
        stored: bytes that it has.
    """
    if size > ALWAYS_ALLOWED + MOST_GROWTH * stored:
        raise ValueError(f"it would be unpacked from {stored:,} bytes to {size:,}, more than models or embeddings need")


def check_zip(archive):
    """Raises a ValueError if a zip file would be unpacked to far more than it has, by the sizes that it declares.

    More than it declares is never read: `zipfile` stops there.

    Args:
        archive: `zipfile.ZipFile`.
    """
    members = archive.infolist()
    check_growth(sum(member.file_size for member in members), sum(member.compress_size for member in members))


def check_datasets(file, stored):
    """Raises a ValueError if the datasets of an HDF5 file lie in other files, or take far more than it has bytes.

    Args:
        file: `h5py.File`.
        stored: its bytes.
    """
    import h5py

    sizes = []

    def visit(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise ValueError(f"its dataset {name} lies in another file")
        sizes.append(item.nbytes)

    file.visititems(visit)
    check_growth(sum(sizes), stored)
