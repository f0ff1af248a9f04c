"""Finds test images that are nearly identical to training images."""

import dataclasses
import os
from pathlib import Path

import numpy as np

from pipelines.dataset import names_in_list, write_list
from pipelines.images.decoding import thumbnails
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import read_record, write_record
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import unit_length

# The results, for the report of a run, and the list of test images, for --ignore_images.
FILE, LIST = "near_duplicates.json", "near_duplicates.jsonl"
# Side of the small gray images that are compared, and number of images that are resized at once.
SIDE, AT_ONCE = 32, 2048
# Largest rounding error in the similarity of equal images.
ROUNDING = 1e-6
# Number of test images and of training images that are compared at once.
ROWS, COLUMNS = 1024, 16384


@dataclasses.dataclass(frozen=True)
class NearDuplicates:
    """Test images that are nearly identical to a training image."""

    # Ascending rows `[D]` of the test images, with the row and the similarity of the most similar training image.
    rows: np.ndarray
    nearest: np.ndarray
    similarities: np.ndarray
    # Number of all pairs with at least this similarity.
    pairs: int

    @classmethod
    def of(cls, train, test, least):
        """Compares all rows of `test` with all of `train`, finite `[N, d]` arrays, by cosine similarity, in blocks."""
        least = least - ROUNDING
        best, nearest = np.full(len(test), -np.inf, np.float32), np.zeros(len(test), np.int64)
        pairs = 0
        for start in range(0, len(test), ROWS):
            rows = slice(start, start + ROWS)
            block = unit_length(np.asarray(test[rows], np.float32))
            for first in range(0, len(train), COLUMNS):
                products = block @ unit_length(np.asarray(train[first : first + COLUMNS], np.float32)).T
                pairs += int(np.count_nonzero(products >= least))
                columns = products.argmax(axis=1)
                highest = products[np.arange(len(block)), columns]
                larger = highest > best[rows]
                best[rows] = np.where(larger, highest, best[rows])
                nearest[rows] = np.where(larger, first + columns, nearest[rows])
        similar = np.flatnonzero(best >= least)
        return cls(similar, nearest[similar], np.minimum(best[similar], 1), pairs)


def small_images(split, on_rows=lambda count: None):
    """Returns small gray images `[N, 1024]` of a split, centered so that brightness and contrast do not matter.

    Whole images are compared, with the same borders if they have the same aspect ratio. An image without contrast is
    similar to no other image. `on_rows` is called with the number of further rows that are done.
    """
    blocks = [np.zeros([0, SIDE * SIDE], np.float32)]
    for start in range(0, len(split), AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, len(split)))
        gray = thumbnails(split, rows, SIDE).astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
        flat = gray.reshape(len(rows), -1)
        flat -= flat.mean(axis=1, keepdims=True)
        # An image that only differs from its mean by compression noise has no contrast.
        flat[np.abs(flat).max(axis=1) < 2] = 0
        blocks.append(flat)
        on_rows(len(rows))
    return np.concatenate(blocks)


def check_folder(data_dir):
    """Raises an error if the results cannot be written, before all images are compared."""
    folder = _folder(data_dir)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"Cannot write {folder / FILE}, because the folder does not exist or is read-only.")


def read_embeddings(paths, splits):
    """Returns the embeddings `[N, d]` in two `.npy` files by part, training and test; empty without files."""
    if "train" not in splits:
        raise ValueError("--near_duplicates needs a dataset with training images and test images.")
    if not paths:
        return {}
    if len(paths) != 2:
        raise ValueError(
            f"--embeddings needs two files, for the training and the test images. Received: {len(paths)} files."
        )
    found = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        try:
            found[part] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"--embeddings: {path} is not an .npy file with numbers: {error}.") from None
        # An archive with several arrays has no shape.
        shape = found[part].shape if isinstance(found[part], np.ndarray) else ()
        if len(shape) != 2 or shape[0] != len(splits[part]) or found[part].dtype.kind != "f":
            raise ValueError(
                f"--embeddings: {path} must contain floats of shape [{len(splits[part])}, d], with one row for each "
                f"image in {part}. Received: shape {list(shape)}."
            )
        try:
            check_finite(found[part])
        except ValueError as error:
            # Similarities would be NaN, which hides all others.
            raise ValueError(f"--embeddings={path}: {error}") from None
    return found


def find(splits, fine, embeddings, similarity, data_dir):
    """Returns the near-duplicates as a dictionary; `found` is a list of `(test image, training image, similarity)`.

    `splits` and `fine`, the rows that can be read, are dictionaries with `train` and `test`. If `embeddings`, from
    `read_embeddings`, are empty, small images are compared. `similarity` is the minimum similarity.
    """
    if not embeddings:
        bar = ProgressBar(sum(len(fine[part]) for part in ("train", "test")), "small image")
    sides = [
        embeddings[part][fine[part]] if embeddings else small_images(splits[part].where(fine[part]), bar.add)
        for part in ("train", "test")
    ]
    similar = NearDuplicates.of(*sides, similarity)
    names = {part: names_in_list(splits[part], part, data_dir) for part in ("train", "test")}
    images = [
        (names["test"][fine["test"][row]], names["train"][fine["train"][near]], round(float(value), 4))
        for row, near, value in zip(similar.rows, similar.nearest, similar.similarities, strict=True)
    ]
    return {
        "similarity": similarity,
        "by": "embeddings" if embeddings else "small gray images",
        "train": len(fine["train"]),
        "test": len(fine["test"]),
        "pairs": similar.pairs,
        "found": images,
    }


def in_words(found):
    """Returns a sentence that summarizes the result of `find` or `read_near_duplicates`."""
    return (
        f"{len(found['found']):,} of {found['test']:,} test images are nearly identical to training images: their "
        f"{found['by']} have a similarity of {found['similarity']:g} or more ({found['pairs']:,} pairs in all)."
    )


def write_near_duplicates(data_dir, dataset, found):
    """Writes the result of `find` next to the data; returns the path of the list for --ignore_images."""
    folder = _folder(data_dir)
    write_record(folder / FILE, {"dataset": dataset, **found}, indent=1)
    path = folder / LIST
    reasons = [(test, f"is nearly the training image {train}: {value}") for test, train, value in found["found"]]
    write_list(path, reasons)
    return path


def read_near_duplicates(data_dir, dataset):
    """Returns the dictionary that `write_near_duplicates` wrote for a dataset, or None if there is none."""
    entries = {"found": list, "by": str, "test": int, "pairs": int, "similarity": int | float, "dataset": dataset}
    try:
        return read_record(_folder(data_dir) / FILE, entries, "Repeat pipelines.check.")
    except (OSError, ValueError):
        return None


def _folder(data_dir):
    return Path(data_dir or ".").expanduser()
