"""The archive in which Keras saves a model, a zip file: whether it is whole."""

import io
import zipfile

from tfdml.archive_sizes import BROKEN, check_datasets, check_zip
from tfdml.checked_files import json_of, open_file, reason_of

WEIGHTS, METADATA = "model.weights.h5", "metadata.json"


def damage_of(path):
    """Returns why an archive cannot be read, or would fill memory, a text; None if it is whole."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            check_zip(archive)
            if damaged := archive.testzip():
                return f"{damaged} is not what was written"
            if WEIGHTS in archive.namelist():
                _check_weights(archive.read(WEIGHTS))
    except BROKEN as error:
        return reason_of(error)
    return None


def load_archive(path):
    """Returns the Keras model of an archive that is whole; a ValueError with its path if Keras cannot make it."""
    # Imported here, and h5py below, because what only asks whether a file is whole is to start at once.
    import keras

    try:
        return keras.models.load_model(path, compile=False)
    except (*BROKEN, AttributeError, IndexError) as error:
        raise ValueError(f"{path} cannot be loaded: {reason_of(error)}") from error


def _check_weights(content):
    import h5py

    with h5py.File(io.BytesIO(content)) as file:
        check_datasets(file, len(content))


def metadata_of(path):
    """Returns what an archive says of when and by which version of Keras it was saved, a dictionary."""
    with zipfile.ZipFile(path) as archive:
        try:
            found = json_of(archive.read(METADATA))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path} is damaged ({METADATA}: {error}).") from None
    return found if isinstance(found, dict) else {}
