"""`EmbeddingShards`: embeddings of images on disk, as a folder of Parquet files with a manifest."""

import shutil
from pathlib import Path

import numpy as np

from tfdml.files.checked_files import flush, read_manifest, reason_of, write_manifest
from tfdml.files.parquet_files import is_of_texts, read_columns, values_of
from tfdml.files.shard import NAME, Shard, are_entries, checked_shard, write_shard

FORMAT, VERSION, MANIFEST = "folder of tfdml embeddings", 1, "manifest.json"
TYPES = {"model": str, "dimension": int, "next_id": int, "next_shard": int, "shards": dict, "bad": dict}


class EmbeddingShards:
    """A folder of Parquet files with the columns `id`, `path`, `label` and `embedding`, a list of D float32.

    The manifest has their fingerprints, the hash of the model, and the images that could not be read. It is written
    after each shard, so that a shard is in it or is not there, whenever the machine stops.

    Args:
        folder: the folder, which `create` makes.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self._manifest = read_manifest(self.folder / MANIFEST, FORMAT, VERSION)
        if not _is_whole(self._manifest):
            raise ValueError(
                f"{self.folder / MANIFEST} is damaged: an entry is missing or wrong. Make the embeddings anew."
            )

    @classmethod
    def create(cls, folder, *, model, dimension):
        """Creates an empty folder.

        Args:
            folder: its path.
            model: hash of the model, see `tfdml.serving.exported.saved_model_files.model_hash`.
            dimension: number of dimensions of an embedding.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        content = {"model": model, "dimension": dimension, "next_id": 0, "next_shard": 0, "shards": {}, "bad": {}}
        write_manifest(Path(folder) / MANIFEST, FORMAT, VERSION, content)
        return cls(folder)

    @property
    def manifest(self):
        """The entries of the manifest, a dictionary."""
        return dict(self._manifest)

    @property
    def model(self):
        """Hash of the model that computed the embeddings."""
        return self._manifest["model"]

    @property
    def dimension(self):
        return self._manifest["dimension"]

    @property
    def bad(self):
        """Path to reason of the images that could not be read."""
        return self._manifest["bad"]

    def __len__(self):
        return sum(shard["rows"] for shard in self._manifest["shards"].values())

    def copy_to(self, folder):
        """Copies the embeddings to a folder, which must not be there; returns its `EmbeddingShards`."""
        copy = Path(folder)
        copy.mkdir(parents=True)
        for name in self._manifest["shards"]:
            shutil.copyfile(checked_shard(self.folder, name, self._manifest["shards"][name]), copy / name)
            flush(copy / name)
        write_manifest(copy / MANIFEST, FORMAT, VERSION, {name: self._manifest[name] for name in TYPES})
        return EmbeddingShards(copy)

    def append(self, paths, labels, embeddings, bad=None, ids=None):
        """Adds a shard, if there is an embedding.

        Args:
            paths: list of N texts.
            labels: list of N texts or None.
            embeddings: `[N, D]` array.
            bad: path to reason of images that could not be read.
            ids: `[N]` int64 that no other row has; None: the next ones.
        """
        first, shards = self._manifest["next_id"], dict(self._manifest["shards"])
        number = self._manifest["next_shard"]
        ids = np.arange(first, first + len(paths)) if ids is None else ids
        if paths:
            shards |= write_shard(self.folder, number, Shard(ids, paths, labels, np.asarray(embeddings, np.float32)))
        read = set(paths)
        reasons = {path: why for path, why in self.bad.items() if path not in read} | (bad or {})
        changes = {
            "next_id": max([first, *(1 + ids).tolist()]),
            "next_shard": number + 1,
            "shards": shards,
            "bad": reasons,
        }
        self._change(changes)

    def skip_ids(self, next_id, bad):
        """Gives no row an id below this one any more, and notes images that could not be read, path to reason."""
        self._change({"next_id": max(self._manifest["next_id"], next_id), "bad": bad})

    def forget_bad(self, paths):
        """Forgets that these images could not be read.

        Args:
            paths: set of texts.
        """
        self._change({"bad": {path: why for path, why in self.bad.items() if path not in paths}})

    def remove(self, ids):
        """Removes rows by their ids, from the disk, too.

        Args:
            ids: set of integers.
        """
        shards, number = {}, self._manifest["next_shard"]
        for name in self._manifest["shards"]:
            shard = self._read(name)
            keep = [place for place, id in enumerate(shard.ids.tolist()) if id not in ids]
            if len(keep) == len(shard.paths):
                shards[name] = self._manifest["shards"][name]
            elif keep:
                kept = [[column[place] for place in keep] for column in (shard.paths, shard.labels)]
                shards |= write_shard(self.folder, number, Shard(shard.ids[keep], *kept, shard.embeddings[keep]))
                number += 1
        self._change({"shards": shards, "next_shard": number})

    def blocks(self, start=0):
        """Yields the `Shard`s in order, each checked before it is read, from a row on, at which a shard begins."""
        for name, about in self._manifest["shards"].items():
            if start <= 0:
                yield self._read(name)
            start -= about["rows"]

    def paths(self, without=frozenset()):
        """Returns the set of all paths, but for those of rows whose ids are in a set."""
        return {
            path
            for block in self.blocks()
            for id, path in zip(block.ids.tolist(), block.paths, strict=True)
            if id not in without
        }

    def rows(self, rows):
        """Returns the embeddings `[R, D]` of rows `[R]`, ascending."""
        found, first = [], 0
        for block in self.blocks():
            begin, end = np.searchsorted(rows, [first, first + len(block.ids)])
            found.append(block.embeddings[rows[begin:end] - first])
            first += len(block.ids)
        return np.concatenate(found)

    def _change(self, changes):
        content = {name: value for name, value in self._manifest.items() if name not in ("format", "version")}
        write_manifest(self.folder / MANIFEST, FORMAT, VERSION, {**content, **changes})
        self._manifest |= changes
        # Of shards that were replaced, or that a kill left without an entry.
        for path in self.folder.iterdir():
            if NAME.fullmatch(path.name) and path.name not in self._manifest["shards"]:
                path.unlink()

    def _read(self, name):
        entry = self._manifest["shards"][name]
        path, rows = checked_shard(self.folder, name, entry), entry["rows"]
        try:
            table = read_columns(path)
            if len(table) != rows or not is_of_texts(table["path"]) or table["path"].null_count:
                raise ValueError(f"expected {rows:,} rows with a path each, received {len(table):,}")
            if not is_of_texts(table["label"]) and table["label"].null_count < rows:
                raise ValueError(f"expected labels that are texts, received {table['label'].type}")
            embeddings = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            columns = [values_of(table[column]) for column in ("path", "label")]
            return Shard(table["id"].to_numpy(), *columns, embeddings.reshape(rows, self.dimension))
        except (OSError, KeyError, ValueError, AttributeError, TypeError, OverflowError) as error:
            raise ValueError(f"{path} is no shard of embeddings: {reason_of(error)}. Make it anew.") from error


def _is_whole(manifest):
    """Whether a manifest has all entries, of the right types."""
    typed = all(isinstance(manifest.get(name), kind) for name, kind in TYPES.items())
    return typed and manifest["dimension"] > 0 and are_entries(manifest["shards"])
