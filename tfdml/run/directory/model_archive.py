"""The archive of a model, a zip file of Keras, and the modules that a run names."""

import io
import sys
import zipfile

from tfdml.files.checked import BROKEN, check_datasets, check_zip, damaged, fingerprint, json_of, open_file, reason_of

WEIGHTS, METADATA, CONFIG = "model.weights.h5", "metadata.json", "config.json"


def damage_of(path):
    """Returns why an archive cannot be read, or would fill memory, a text; None if it is whole."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            check_zip(archive)
            if member := archive.testzip():
                return f"{member} is not what was written"
            if WEIGHTS in archive.namelist():
                # Here, because what only asks for the checksum of a file is to start at once.
                import h5py

                content = archive.read(WEIGHTS)
                with h5py.File(io.BytesIO(content)) as weights:
                    check_datasets(weights, len(content))
    except BROKEN as error:
        return reason_of(error)
    return None


def sha256_of(run, which):
    """Returns the SHA-256 of the `best` or `final` model of a `RunDirectory`; None if only its results are there."""
    path = {"best": run.model, "final": run.final_model}[which]
    return fingerprint(path)["sha256"] if path.is_file() else None


def load_archive(path):
    """Returns the Keras model of an archive that is whole; a ValueError names its path if Keras cannot make it.

    Nothing is made of an archive that names what may run code, see `tfdml.run.directory.model_files`.
    """
    # Here, because what only asks whether a file is whole is to start at once.
    import keras
    import tensorflow as tf

    from tfdml.run.directory.model_files import check_config

    try:
        # Of other names Keras reads a file in its older format, even one that is an archive as well.
        if not str(path).endswith(".keras"):
            raise ValueError("the name of a model's file must end in .keras")
        with zipfile.ZipFile(path) as archive:
            check_config(json_of(archive.read(CONFIG)))
        return keras.models.load_model(path, compile=False)
    except (*BROKEN, AttributeError, IndexError, tf.errors.OpError) as error:
        raise ValueError(f"{path} cannot be loaded: {reason_of(error)}") from error


def metadata_of(path):
    """Returns what an archive states about when and by which version of Keras it was saved, a dictionary."""
    with zipfile.ZipFile(path) as archive:
        try:
            metadata = json_of(archive.read(METADATA))
        except (KeyError, ValueError) as error:
            raise damaged(path, f"{METADATA}: {reason_of(error)}", "Use another copy.") from None
    return metadata if isinstance(metadata, dict) else {}


def check_modules(modules, run_dir, trusted=()):
    """Raises a ValueError if a run's `--import_modules` names modules that nobody but its own folder asks for.

    `trusted` are those that the user names too. Modules that the user has imported need no name.
    """
    missing = [module for module in modules if module not in trusted and sys.modules.get(module) is None]
    if missing:
        named = ",".join(missing)
        raise ValueError(
            f"The run in {run_dir} was trained with --import_modules={named}, and a run that somebody sent could name "
            f"any program. If you trust it, give --import_modules={named} again; in Python import the module first, or "
            "give trust=True."
        )
