"""Reads `manifest.json` of an index, and what it notes of a deletion."""

from tfdml.files.checked import read_manifest

FORMAT, VERSION, MANIFEST = "tfdml index", 1, "manifest.json"
DELETION = "deletion of a tfdml index"
TYPES = {"model": str, "dimension": int, "metric": str, "kind": str, "spec": str, "count": int, "trained_on": int}
TYPES |= {"generation": int, "index": dict, "images": dict}


def read_index_manifest(path):
    """Returns the entries of the manifest of an index; a ValueError if one is missing or wrong.

    Args:
        path: `pathlib.Path` of the file.
    """
    found = read_manifest(path, FORMAT, VERSION)
    for name, kind in TYPES.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(f"{path} is damaged: {name} is missing or wrong. Make the index anew.")
    deleted = found.get("deleted", {"number": 0, "file": {}})
    if not (isinstance(deleted, dict) and isinstance(deleted.get("number"), int)):
        raise ValueError(f"{path} is damaged: deleted is wrong. Make the index anew.")
    if found["metric"] not in ("cosine", "euclidean"):
        raise ValueError(f"{path} is damaged: the metric is {found['metric']!r}.")
    if type(found.get("upgrades", 0)) is not int or found.get("upgrades", 0) < 0:
        raise ValueError(f"{path} is damaged: upgrades is wrong. Make the index anew.")
    return found


def read_begun_deletion(path):
    """Returns the names of the images in the note of a deletion that has begun, a set.

    Args:
        path: `pathlib.Path` of the file.
    """
    names = read_manifest(path, DELETION, VERSION).get("images")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{path} is damaged: expected a list of images. Remove it, and delete them again.")
    return set(names)


def numbered(name, upgrades):
    """Returns the name of the folder of the model or of the embeddings after so many upgrades of the model."""
    return f"{name}-{upgrades}" if upgrades else name
