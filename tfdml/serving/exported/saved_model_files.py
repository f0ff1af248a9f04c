"""The files of a SavedModel, and their hash."""

import hashlib
from pathlib import Path

from tfdml.files.checked import fingerprint

# What TensorFlow reads of a SavedModel's folder; the model card, which people may edit, is not among it.
READ = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets/*", "assets.extra/*")


def saved_model_folder(path):
    """Returns the folder of the SavedModel that is meant: this one, or the only version in it.

    Args:
        path: such as `exported/1`, or `exported`. A ValueError about another one says what to do.
    """
    folder = Path(path)
    if (folder / "saved_model.pb").is_file():
        return folder
    versions = sorted(file.parent for file in folder.glob("*/saved_model.pb") if file.parent.name.isdecimal())
    if len(versions) == 1:
        return versions[0]
    if versions:
        raise ValueError(f"{path} has several versions of a model; give one of {', '.join(map(str, versions))}.")
    raise ValueError(f"{path} {_instead(folder)}")


def _instead(folder):
    """Returns what a path is that is no SavedModel, and how to get one."""
    run = next((each for each in (folder, folder.parent) if (each / "flags.txt").is_file()), "runs/...")
    how = f"python -m tfdml.export --run_dir={run} --out=exported/1, then give exported/1."
    if not folder.exists():
        return f"does not exist: expected the folder of an exported model. Export one: {how}"
    if folder.is_file():
        return f"is a file: expected the folder of an exported model. Export the model's run: {how}"
    if run == folder:
        return f"is a run, and its model is not exported. Export it: {how}"
    return f"is no SavedModel: it has no saved_model.pb. Export one: {how}"


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
