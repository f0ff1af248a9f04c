"""Cached rows: bytes by row number, in memory or in a folder, read by TensorFlow's operations."""

import contextlib
import logging
import os
import shutil
import time
import uuid

import tensorflow as tf

# A folder with a file for each of a million rows would be slow on some disks.
ROWS_IN_FOLDER = 1000
# Seconds in which a process that still writes has added a folder of rows.
SURELY_KILLED = 24 * 60 * 60


def rows_in_memory(rows):
    """Returns a function from a row number (int64) to the row's bytes.

    Args:
        rows: list of bytes.
    """
    cached = tf.constant(rows)

    def read(row):
        return cached[row]

    return read


def rows_on_disk(folder):
    """Returns a function from a row number (int64) to the row's bytes, in a folder that `write_rows` wrote."""
    _check_files(folder)

    def read(row):
        part, name = tf.strings.as_string(row // ROWS_IN_FOLDER), tf.strings.as_string(row)
        return tf.io.read_file(tf.strings.join([str(folder), part, name], "/"))

    return read


def _check_files(folder):
    """Raises an OSError if a row is a pipe or the like, for which TensorFlow would wait for ever."""
    for part in folder.iterdir():
        with os.scandir(part) as entries:
            wrong = next((entry.path for entry in entries if not entry.is_file()), None)
        if wrong:
            raise OSError(f"{wrong} is no file. Remove {folder}, which is then made anew.")


def write_rows(folder, rows, count):
    """Writes rows to a folder, which appears when it is complete.

    Args:
        folder: path of the folder to make.
        rows: iterable of bytes.
        count: number of rows.
    """
    logging.getLogger(__name__).info(
        "Caching %d images in %s, for later runs too; remove it when you need the room.", count, folder
    )
    _remove_leftovers(folder.parent)
    unfinished = folder.with_name(f".writing-{uuid.uuid4().hex}")
    try:
        for number, row in enumerate(rows):
            file = unfinished / str(number // ROWS_IN_FOLDER) / str(number)
            if number % ROWS_IN_FOLDER == 0:
                file.parent.mkdir(parents=True)
            file.write_bytes(row)
        os.sync()
        unfinished.rename(folder)
    except OSError as error:
        if folder.exists():
            return  # Another process was faster; its folder holds the same.
        raise OSError(
            f"Cannot cache images in {folder}: {error.strerror or error}. Make room, name another folder with "
            "--cache_dir, or give --cache=none."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_leftovers(folder):
    """Removes what killed processes were writing, and nothing of those that still do."""
    for leftover in folder.glob(".writing-*"):
        # Another process may remove it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > SURELY_KILLED:
                shutil.rmtree(leftover, ignore_errors=True)
