"""The archive of a model, which is a Keras zip file, and the modules that a run imports."""

import io
import sys
import zipfile

from tfdml.files.checked import BROKEN, check_datasets, check_zip, damaged, fingerprint, json_of, open_file, reason_of

WEIGHTS, METADATA, CONFIG = "model.weights.h5", "metadata.json", "config.json"


def damage_of(path):
    """Returns a text on why an archive cannot be read or would fill memory, or None if it is intact."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            check_zip(archive)
            if member := archive.testzip():
                return f"{member} has a wrong checksum"
            if WEIGHTS in archive.namelist():
                # Imported here, because callers that only need the checksum of a file should start fast.
                import h5py

                content = archive.read(WEIGHTS)
                with h5py.File(io.BytesIO(content)) as weights:
                    check_datasets(weights, len(content))
    except BROKEN as error:
        return reason_of(error)
    return None


def sha256_of(run, which):
    """Returns the SHA-256 of the `best` or `final` model of a `RunDirectory`, or None if the model is missing."""
    path = {"best": run.model, "final": run.final_model}[which]
    return fingerprint(path)["sha256"] if path.is_file() else None


def load_archive(path):
    """Returns the Keras model of an intact archive, or raises a ValueError with its path if Keras cannot create it.

    An archive that names anything that may run code is not loaded at all; see `tfdml.run.directory.model_files`.
    """
    # Imported here, because callers that only check whether a file is intact should start fast.
    import keras

    from pipelines.operations import OPERATION_ERRORS
    from tfdml.run.directory.model_files import check_config

    try:
        # Keras would read a file with another name in its older format, even if it is also an archive.
        if not str(path).endswith(".keras"):
            raise ValueError("the name of a model file must end in .keras")
        with zipfile.ZipFile(path) as archive:
            check_config(json_of(archive.read(CONFIG)))
        return keras.models.load_model(path, compile=False)
    except (*BROKEN, AttributeError, IndexError, *OPERATION_ERRORS) as error:
        raise ValueError(f"{path} cannot be loaded: {reason_of(error)}") from error


def metadata_of(path):
    """Returns the metadata of an archive, a dictionary with the date and the Keras version that saved it."""
    with zipfile.ZipFile(path) as archive:
        try:
            metadata = json_of(archive.read(METADATA))
        except (KeyError, ValueError) as error:
            raise damaged(path, f"{METADATA}: {reason_of(error)}", "Use another copy.") from None
    return metadata if isinstance(metadata, dict) else {}


def check_modules(modules, run_dir, trusted=()):
    """Raises a ValueError if a run's `--import_modules` names modules that only its own folder asks for.

    `trusted` are modules that the user names as well. Modules that the user has already imported are also allowed.
    """
    missing = [module for module in modules if module not in trusted and sys.modules.get(module) is None]
    if missing:
        named = ",".join(missing)
        raise ValueError(
            f"The run in {run_dir} was trained with --import_modules={named}. A run from someone else could name any "
            f"program here. If you trust it, pass --import_modules={named} again. In Python, import the module first "
            "or pass trust=True."
        )
