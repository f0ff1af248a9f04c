"""Images that an index keeps with their vectors, to recognize another export of its model."""

import base64
import io
from pathlib import Path

import numpy as np

from pipelines.checks import as_decodable
from tfdml.files.checked import damaged, read_manifest, write_manifest
from tfdml.neighbors.nearest import compared_vectors
from tfdml.serving.image_list import ImageList

FILE, FORMAT, VERSION = "probes.json", "probes of a tfdml index", 1
ADVICE = "Remove it."
# Number of images, and their longest side and quality as JPEG files, which need about 100 kB each.
COUNT, SIDE, QUALITY = 16, 512, 95
# Vectors of two exports of one model that are computed on different devices are at most this far apart, relative to
# their length. The models of two trainings are about 1 apart.
ROUNDING = 2e-3


def keep_probes(folder, embedder):
    """Keeps up to 16 images of an `IndexFolder` with their vectors by its model, if it does not keep enough of them.

    The images are evenly spaced among those that can be read.
    """
    manifest = folder.manifest()
    rows = folder.read_rows(manifest)
    live = np.flatnonzero(~rows.deleted)
    kept = _read(folder.path)
    if kept and kept["model"] == manifest["model"] and len(kept["images"]) >= min(COUNT, len(live)):
        return
    chosen = live[np.unique(np.linspace(0, len(live) - 1, COUNT).astype(int))]
    images = ImageList([folder.file_of(rows.paths[row]) for row in chosen], [None] * len(chosen))
    contents = {rows.paths[row]: content for place, row in enumerate(chosen) if (content := _jpeg(images, place))}
    vectors, valid = embedder.embed_readable(list(contents.values())) if contents else ((), ())
    found = {
        path: {"image": _text(content), "vector": _text(np.asarray(vector, "<f4").tobytes())}
        for (path, content), vector, readable in zip(contents.items(), vectors, valid, strict=True)
        if readable
    }
    write_manifest(folder.path / FILE, FORMAT, VERSION, {"model": manifest["model"], "images": found})


def drop_probes(path, names):
    """Removes images with these paths, a set, from the probes of the index in a folder."""
    kept = _read(path)
    if kept and names & kept["images"].keys():
        left = {name: each for name, each in kept["images"].items() if name not in names}
        write_manifest(Path(path, FILE), FORMAT, VERSION, {"model": kept["model"], "images": left})


def distance_from(path, expected, embedder, metric):
    """Returns how far an embedder's vectors of an index's probes are from the kept ones, and the number of probes.

    The distance is the largest one, relative to the longest vector. It is infinite if the dimensions differ, and `None`
    if the index in the folder has no probes of the model with the hash `expected`.
    """
    kept = _read(path)
    if not kept or not kept["images"] or kept["model"] != expected:
        return None, 0
    try:
        contents, vectors = (
            [base64.b64decode(each[name], validate=True) for each in kept["images"].values()]
            for name in ("image", "vector")
        )
        own = np.stack([np.frombuffer(vector, "<f4") for vector in vectors])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(Path(path, FILE), error, ADVICE) from None
    found, valid = embedder.embed_readable(contents)
    if found.shape != own.shape or not np.all(valid):
        return np.inf, len(own)
    own, found = (compared_vectors(each, metric) for each in (own, found))
    longest = np.linalg.norm(own, axis=1).max()
    return float(np.linalg.norm(own - found, axis=1).max() / longest), len(own)


def _read(path):
    """Returns the record of an index's probes, or None if it has none."""
    file = Path(path, FILE)
    return read_manifest(file, FORMAT, VERSION, {"model": str, "images": dict}, ADVICE) if file.is_file() else None


def _jpeg(images, place):
    """Returns an image of a list as a JPEG file of limited size, or None if it cannot be read."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(as_decodable(images.read(place)))) as image:
            small = ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    file = io.BytesIO()
    small.thumbnail((SIDE, SIDE))
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _text(content):
    return base64.b64encode(content).decode()
