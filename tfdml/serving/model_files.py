"""The files of a SavedModel, and their hash."""

import hashlib
from pathlib import Path

from tfdml.checked_files import fingerprint

# What TensorFlow reads of a SavedModel's folder; the model card, which people may edit, is not among it.
READ = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets/*", "assets.extra/*")


def model_files(path):
    """Returns the files that make up a SavedModel, relative to its folder, sorted."""
    folder = Path(path)
    return sorted(file.relative_to(folder).as_posix() for kind in READ for file in folder.glob(kind) if file.is_file())


def model_hash(path):
    """Returns the SHA-256 of a SavedModel, as hexadecimal digits: of the names and contents of all its files."""
    names = model_files(path)
    if "saved_model.pb" not in names:
        raise ValueError(f"{path} is no SavedModel: it has no saved_model.pb. Export one with python -m tfdml.export.")
    lines = [f"{fingerprint(Path(path) / name)['sha256']}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
