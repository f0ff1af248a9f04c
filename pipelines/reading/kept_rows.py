"""Bytes by row number, in memory or in a folder, as functions of TensorFlow that read them."""

import os
import shutil
import sys
import uuid

import tensorflow as tf

# A folder with a file for each of a million rows would be slow on some disks.
ROWS_IN_FOLDER = 1000


def rows_in_memory(rows):
    """A function of a row number (int64) that gives the row's bytes.

    Args:
        rows: list of bytes.
    """
    kept = tf.constant(rows)

    def read(row):
        return kept[row]

    return read


def rows_on_disk(place):
    """A function of a row number (int64) that gives the bytes of a row that `write_rows` has written."""

    def read(row):
        part, name = tf.strings.as_string(row // ROWS_IN_FOLDER), tf.strings.as_string(row)
        return tf.io.read_file(tf.strings.join([str(place), part, name], "/"))

    return read


def write_rows(place, rows, count):
    """Writes rows to a folder, which is there when it is complete.

    Args:
        place: the folder to make.
        rows: iterable of bytes.
        count: how many there will be.
    """
    print(f"Keeping {count} images in {place}, for later runs too; remove it when you need the room.", file=sys.stderr)
    unfinished = place.with_name(f".writing-{uuid.uuid4().hex}")
    try:
        for number, row in enumerate(rows):
            file = unfinished / str(number // ROWS_IN_FOLDER) / str(number)
            if number % ROWS_IN_FOLDER == 0:
                file.parent.mkdir(parents=True)
            file.write_bytes(row)
        os.sync()
        unfinished.rename(place)
    except OSError as error:
        if place.exists():
            return  # Another process was faster; its folder holds the same.
        raise OSError(
            f"Cannot keep images in {place}: {error.strerror or error}. Make room, name another folder with "
            "--cache_dir, or give --cache=none."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
