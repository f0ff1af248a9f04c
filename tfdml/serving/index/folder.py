"""Files of an index, which are built from embeddings and checked before they are read."""

import contextlib
import dataclasses
import functools
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from pipelines.boxes import TILES, parted
from pipelines.dataset import write_list
from pipelines.stored import local
from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import (
    checked_file,
    fingerprint,
    flush,
    folder_in,
    read_manifest,
    reason_of,
    vacated,
    write_atomically,
    write_manifest,
)
from tfdml.files.shards import read_columns, values_of
from tfdml.neighbors.nearest import compared_vectors, load_faiss
from tfdml.serving.exported_model import ExportedModel, model_hash
from tfdml.serving.index.attributes import joined
from tfdml.serving.index.probes import ROUNDING, distance_from
from tfdml.serving.index.rows import IndexRows

FORMAT, VERSION, MANIFEST = "tfdml index", 1, "manifest.json"
DELETION = "deletion of a tfdml index"
ENTRIES = {
    "model": str,
    "dimension": int,
    "metric": ("cosine", "euclidean").__contains__,
    "kind": str,
    "spec": str,
    "count": int,
    "trained_on": int,
    "generation": int,
    "index": dict,
    "images": dict,
    "deleted": lambda value: value is None or isinstance(value, dict) and isinstance(value.get("number"), int),
    "upgrades": lambda value: value is None or type(value) is int and value >= 0,
    "tiles": lambda value: value is None or isinstance(value, str) and TILES.fullmatch(value) is not None,
}


def numbered(name, upgrades):
    """Returns the name of the model's or the embeddings' folder after this many model upgrades."""
    return f"{name}-{upgrades}" if upgrades else name


# faiss has one limit for the whole process, so only one thread may change it at a time.
_LIMIT = threading.Lock()


def read_faiss(path, mapped=False):
    """Returns the index in a file. Raises a ValueError if it is damaged, or declares vectors larger than the file.

    If `mapped`, vectors stay in the file, from which searches read them, and no more can be added.
    """
    faiss = load_faiss()
    with _LIMIT:
        before = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(max(path.stat().st_size, 2**20))
        try:
            # Skip the precomputed table of a compressed index. It is not in the file and may be larger than the limit.
            flags = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE | (faiss.IO_FLAG_MMAP_IFC if mapped else 0)
            return faiss.read_index(str(path), flags)
        except RuntimeError as error:
            raise ValueError(f"{path} is not a readable faiss index: {str(error)[-200:]}") from None
        finally:
            faiss.set_deserialization_vector_byte_limit(before)


# Files of a generation: the index, its images, and the deletion marks.
FILES = ("index-*.faiss", "images-*.parquet", "deleted-*.bits")


class IndexFolder:
    """A folder with a manifest, a faiss index, a table of images, their embeddings, and the model.

    | File | Content |
    |---|---|
    | `manifest.json` | hash of the model, dimension, metric, number of images, fingerprints of the next two files |
    | `index-N.faiss` | the index |
    | `images-N.parquet` | `id`, `path`, `label` and attributes of its rows |
    | `deleted-N-M.bits` | one bit per row, if deleted images are still in the other files |
    | `embeddings/` | `EmbeddingShards` from which the index is built; `embeddings-N/` after model upgrade N |
    | `model/` | the SavedModel; `model-N/` after model upgrade N |
    | `images/` | images of a dataset in memory, which have relative paths |
    | `bad_images.jsonl` | images that could not be read, if there are any |
    | `probes.json` | up to 16 small images with their vectors, to recognize another export of the model |
    | `deletion.json` | names of the images that are being deleted |

    A new generation, N + 1, is written next to the old one, and then the manifest is replaced. So the index is complete
    at any time.
    """

    def __init__(self, path):
        self.path = Path(local(path, "The index "))
        self.bad_images = self.path / "bad_images.jsonl"
        self._deletion = self.path / "deletion.json"
        # Cached per folder, because the check takes longer than finding an image.
        self._is_inside = functools.cache(lambda folder: Path(folder).resolve().is_relative_to(self.path.resolve()))

    @property
    def model(self):
        """Folder of the model."""
        return self.model_after(self.upgrades())

    @property
    def embeddings(self):
        """Folder of the embeddings. A link is a ValueError, because writing would leave the index."""
        return self.embeddings_after(self.upgrades())

    def upgrades(self):
        """Returns how many times the model of the index was upgraded."""
        return self.manifest().get("upgrades", 0) if self.exists() else 0

    def model_after(self, upgrades):
        """Returns the folder of the model after this many upgrades."""
        return self.path / numbered("model", upgrades)

    def embeddings_after(self, upgrades):
        """Returns the folder of the embeddings after this many upgrades."""
        return folder_in(self.path, numbered("embeddings", upgrades), "index")

    def exists(self):
        """Returns whether there is a complete index."""
        return (self.path / MANIFEST).exists()

    def state(self):
        """Returns a value that changes when a file that searches need changes. It reads no files."""
        found = []
        for file in [self.path / MANIFEST, *(file for kind in FILES for file in sorted(self.path.glob(kind)))]:
            # Another process may have removed the file meanwhile.
            with contextlib.suppress(OSError):
                about = file.stat()
                found.append((file.name, about.st_ino, about.st_size, about.st_mtime_ns))
        return found

    def manifest(self):
        """Returns the entries of `manifest.json`. Raises a ValueError if one is missing or wrong."""
        return read_manifest(self.path / MANIFEST, FORMAT, VERSION, ENTRIES, "Create the index again.")

    def begin_deletion(self, names):
        """Records the names of images before their deletion, so that the next command can complete it."""
        write_manifest(self._deletion, DELETION, VERSION, {"images": sorted(names)})

    def begun_deletion(self):
        """Returns the names of images, a set, with a deletion that has started but not ended."""
        if not self._deletion.exists():
            return set()
        entries = {"images": lambda names: isinstance(names, list) and all(isinstance(name, str) for name in names)}
        advice = "Remove it and delete the images again."
        return set(read_manifest(self._deletion, DELETION, VERSION, entries, advice)["images"])

    def end_deletion(self):
        self._deletion.unlink()

    def check_model(self, path, expected):
        """Returns the hash of the model in a folder. Raises a ValueError if it does not embed as the index's model.

        The index's own copy must have the hash `expected`. Another export of the model may have another hash, if its
        vectors of the index's probes are the same except for rounding.
        """
        folder = Path(path)
        is_own = folder == self.model
        # Only the index's own copy must not contain links. A user's model may.
        links = [file for file in (folder, *folder.rglob("*")) if file.is_symlink()] if is_own else []
        if links:
            raise ValueError(f"{links[0]} is a link that leads out of the index {self.path}. Do not use this index.")
        digest = model_hash(folder)
        if digest == expected:
            return digest
        message = (
            f"The model {path} does not belong to the index {self.path}, which was made with another model, "
            "so the embeddings cannot be compared."
        )
        distance, count = (None, 0)
        if not is_own and self.exists():
            distance, count = distance_from(self.path, expected, ExportedModel(folder), self.manifest()["metric"])
        if distance is None:
            raise ValueError(message)
        if distance > ROUNDING:
            raise ValueError(
                f"{message} Its vectors of {count} images in the index differ by up to {distance:.2g} of their length; "
                f"rounding is below {ROUNDING:g}. To move the index to this model, use python -m tfdml.index --upgrade "
                f"--model={path} --out={self.path}."
            )
        return digest

    def read_index(self, manifest, mapped=False):
        """Returns the faiss index. If `mapped`, stored vectors for rescoring stay in the file; see `read_faiss`."""
        faiss = load_faiss()
        path = checked_file(self.path, f"index-{manifest['generation']}.faiss", manifest["index"])
        is_rescored = index_of_kind(manifest["spec"]).rescore > 0
        index = read_faiss(path, mapped and is_rescored)
        if is_rescored != isinstance(index, faiss.IndexRefine):
            has = "has no stored vectors to rescore with" if is_rescored else "has stored vectors"
            raise ValueError(f"{path} {has}, but its manifest has kind={manifest['spec']}. Create the index again.")
        metric = faiss.METRIC_L2 if manifest["metric"] == "euclidean" else faiss.METRIC_INNER_PRODUCT
        lists = faiss.downcast_index(index.base_index) if is_rescored else index
        if isinstance(lists, faiss.IndexIVFPQ) and metric == faiss.METRIC_L2:
            # The table makes searches faster. faiss does not use it for inner products.
            lists.precompute_table()
        if (index.d, index.ntotal, index.metric_type) != (manifest["dimension"], manifest["count"], metric):
            raise ValueError(
                f"{path} has {index.ntotal} vectors with {index.d} dimensions, which does not match the manifest."
            )
        return index

    def read_rows(self, manifest, known=None):
        """Returns the `IndexRows`. If `known` has the rows of this generation, only the deletion marks are read."""
        if known is not None:
            return dataclasses.replace(known, deleted=self._deleted(manifest))
        path = checked_file(self.path, f"images-{manifest['generation']}.parquet", manifest["images"])
        try:
            table = read_columns(path)
            ids, paths, labels = table["id"].to_numpy(), values_of(table["path"]), values_of(table["label"])
            rows = IndexRows(ids, paths, labels, table, np.zeros(len(ids), bool))
            # Check the columns here, where the error names the file.
            _ = rows.kinds
        except (OSError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is not a table of images: {reason_of(error).rstrip('.')}.") from error
        if len(ids) != manifest["count"] or not all(isinstance(each, str) for each in paths):
            raise ValueError(f"{path} does not have a path for each of {manifest['count']} images.")
        for each in paths:
            if not os.path.isabs(each) and ".." in each.split("/"):
                raise ValueError(f"{path} names {each!r}, which leads out of the index. Do not use this index.")
        return dataclasses.replace(rows, deleted=self._deleted(manifest))

    def _deleted(self, manifest):
        """Returns a mask `[N]` of the deleted rows."""
        count = manifest["count"]
        if "deleted" not in manifest:
            return np.zeros(count, bool)
        name = f"deleted-{manifest['generation']}-{manifest['deleted']['number']}.bits"
        bits = np.frombuffer(checked_file(self.path, name, manifest["deleted"].get("file")).read_bytes(), np.uint8)
        if len(bits) != -(-count // 8):
            raise ValueError(
                f"{self.path / name} does not have one bit for each of {count} images. Create the index again."
            )
        return np.unpackbits(bits, count=count, bitorder="little").astype(bool)

    def size(self):
        """Returns the number of images, without deleted images."""
        return int(np.count_nonzero(~self._deleted(self.manifest())))

    def mark_deleted(self, deleted):
        """Records which rows are deleted, a mask `[N]`, without writing other files. Searches then skip these rows."""
        manifest = self.manifest()
        number = manifest.get("deleted", {"number": -1})["number"] + 1
        self._write_manifest(manifest, manifest["generation"], deleted, number)

    def _write_manifest(self, content, generation, deleted, number=0):
        """Writes the deletion marks, and then the manifest, which makes the whole change visible at once."""
        content = {name: value for name, value in content.items() if name != "deleted"}
        names = {f"index-{generation}.faiss", f"images-{generation}.parquet"}
        if deleted.any():
            name = f"deleted-{generation}-{number}.bits"
            write_atomically(self.path / name, np.packbits(deleted, bitorder="little").tobytes())
            content["deleted"] = {"number": number, "file": fingerprint(self.path / name)}
            names.add(name)
        write_manifest(self.path / MANIFEST, FORMAT, VERSION, content)
        for old in [file for kind in FILES for file in self.path.glob(kind)]:
            if old.name not in names:
                old.unlink()

    def file_of(self, path):
        """Returns the path of an image in the index as a string. A name that is not a path is returned as it is."""
        if os.sep not in path:
            return path
        file = os.path.join(self.path, parted(path)[0])
        if not os.path.isabs(path) and (os.path.islink(file) or not self._is_inside(os.path.dirname(file))):
            raise ValueError(f"{file} leads out of the index {self.path}. Do not use this index.")
        return os.path.join(self.path, path)

    def write(self, index, columns, about, deleted):
        """Writes a new generation: a faiss index, the columns of its rows, and a mask `[N]` of deleted rows.

        `about` contains the other entries of the manifest; see `ENTRIES`.
        """
        generation = self.manifest()["generation"] + 1 if self.exists() else 0
        names = {"index": f"index-{generation}.faiss", "images": f"images-{generation}.parquet"}
        for name in names.values():
            vacated(self.path / name)
        try:
            load_faiss().write_index(index, str(self.path / names["index"]))
        except RuntimeError as error:
            raise OSError(
                f"Cannot write {self.path / names['index']}. Make room on the disk and repeat the command."
            ) from error
        types = {"id": pyarrow.int64(), "path": pyarrow.string(), "label": pyarrow.string()}
        table = pyarrow.table(columns | {name: pyarrow.array(columns[name], kind) for name, kind in types.items()})
        pyarrow.parquet.write_table(table, self.path / names["images"])
        for name in names.values():
            flush(self.path / name)
        files = {kind: fingerprint(self.path / name) for kind, name in names.items()}
        self._write_manifest({**about, "generation": generation, **files}, generation, deleted)


# An index is trained again when it has grown by this factor.
GROWTH = 2
# It is built again without the deleted rows when they are this fraction of all rows.
GONE = 0.2


def index_of_kind(kind):
    """Returns the `ApproximateIndex` of a spec, such as `flat`. Raises a ValueError if it makes no index."""
    index = registry.create("index", kind)
    if not index.is_approximate:
        raise ValueError(
            f"kind={kind} does not make an index. Expected flat, ivf, hnsw, pq, int8 or binary. For "
            "exact search, use flat."
        )
    return index


def build(folder, shards, spec, metric, anew=False, attributes=None, upgrades=None, tiles=""):
    """Writes the index of all embeddings, either by adding new ones to the existing index or from scratch.

    If two rows have the same path, the later row is the image, and the other row is deleted. An existing index keeps
    its index type. It keeps its metric as well, unless `upgrades`, the number of model upgrades, is passed. With
    `anew`, its vectors are not reused, and deleted rows disappear. `attributes` is a table with the column `path` and
    other columns, or `None`. `tiles`, such as `2x2+1`, are recorded in a new index, and searches merge them.
    """
    if not len(shards):
        _write_bad(folder, shards)
        if not shards.bad:
            raise ValueError(f"{folder.path} contains no images to index.")
        path, reason = min(shards.bad.items())
        raise ValueError(
            f"None of the {len(shards.bad):,} images can be read, for example {path}: {reason}. {folder.bad_images} "
            "lists all reasons."
        )
    manifest = folder.manifest() if folder.exists() else None
    rows = folder.read_rows(manifest) if manifest else None
    spec = manifest["spec"] if manifest else spec
    metric = manifest["metric"] if manifest and upgrades is None else metric
    columns = _columns(shards)
    deleted = _deleted(columns, rows)
    if manifest and not anew and _can_grow(manifest, rows, columns["id"], deleted):
        index, start = folder.read_index(manifest), manifest["count"]
        kind, trained_on = manifest["kind"], manifest["trained_on"]
    else:
        if deleted.any():
            shards.remove(set(np.array(columns["id"])[deleted].tolist()))
            columns = _columns(shards)
            deleted = np.zeros(len(shards), bool)
        sized = index_of_kind(spec).of_size(len(shards))
        index, kind, trained_on, start = _trained(sized, shards, metric), repr(sized), len(shards), 0
    columns |= joined(rows, columns["id"], columns["path"], attributes)
    bar = ProgressBar(len(shards), "vector", done=start)
    for block in shards.blocks(start):
        vectors = compared_vectors(block.embeddings, metric)
        _check_stored(spec, vectors)
        index.add(vectors)
        bar.add(len(block.embeddings))
    about = {"model": shards.model, "dimension": shards.dimension, "metric": metric, "spec": spec, "kind": kind}
    about |= {"count": len(shards), "trained_on": trained_on}
    tiles = manifest.get("tiles") if manifest else tiles
    if tiles:
        about["tiles"] = tiles
    upgrades = (manifest or {}).get("upgrades", 0) if upgrades is None else upgrades
    if upgrades:
        about["upgrades"] = upgrades
    folder.write(index, columns, about, deleted)
    _write_bad(folder, shards)


def _check_stored(spec, vectors):
    """Raises a ValueError if vectors are too large to be stored in half precision for rescoring."""
    index, most = index_of_kind(spec), np.finfo(np.float16).max
    if index.rescore and index.stored == "float16" and np.abs(vectors).max(initial=0) > most:
        raise ValueError(
            f"An embedding contains {np.abs(vectors).max():g}, but the largest number of float16 is {most:g}. Use "
            f"stored='float32' in kind={spec}."
        )


def _columns(shards):
    """Returns the ids, paths and labels of all rows as a dictionary of lists."""
    columns = {"id": [], "path": [], "label": []}
    for block in shards.blocks():
        for name, values in zip(columns, (block.ids.tolist(), block.paths, block.labels), strict=True):
            columns[name].extend(values)
    return columns


def _deleted(columns, rows):
    """Returns a mask `[N]` of the rows that are deleted, or that have a later row with the same path."""
    ids, paths = np.array(columns["id"]), columns["path"]
    known, gone = ((), ()) if rows is None else (rows.ids, rows.ids[rows.deleted])
    deleted = np.isin(ids, gone)
    # Only new rows replace other rows.
    last = {paths[place]: place for place in np.flatnonzero(~np.isin(ids, known)).tolist()}
    for place, path in enumerate(paths if last else ()):
        deleted[place] |= last.get(path, place) != place
    return deleted


def _can_grow(manifest, rows, ids, deleted):
    """Returns whether embeddings were only appended and the training of the index is still good enough."""
    # After an interrupted deletion, there are fewer embeddings than vectors.
    same = rows.ids.tolist() == ids[: manifest["count"]]
    return same and len(ids) <= GROWTH * manifest["trained_on"] and np.mean(deleted) < GONE


def _trained(index, shards, metric):
    """Returns an empty faiss index that is trained on a sample of the embeddings."""

    def sample(count):
        drawn = np.random.default_rng(0).choice(len(shards), min(count, len(shards)), replace=False)
        return compared_vectors(shards.rows(np.sort(drawn)), metric)

    faiss = load_faiss()
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return index.create(shards.dimension, kind, sample)


def _write_bad(folder, shards):
    folder.bad_images.unlink(missing_ok=True)
    if shards.bad:
        write_list(folder.bad_images, sorted(shards.bad.items()))
