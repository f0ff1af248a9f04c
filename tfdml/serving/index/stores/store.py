"""Where an index keeps its rows: the protocol of stores, the folder store, and addresses."""

import collections
import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import LOCK, locked, naming
from tfdml.files.shards import EmbeddingShards
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.serving.embedders import VECTORS, checked_vectors
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel, model_hash, saved_model_folder
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build
from tfdml.serving.index.attributes import OWN, table_of_rows
from tfdml.serving.index.build import add_rows, check_files, copy_model
from tfdml.serving.index.filters import condition_of
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.rows import check_once, new_ids
from tfdml.serving.index.searcher import Found, ImageSearcher, Neighbor, Searcher

ENGINE = re.compile(r"([a-z][a-z0-9_]*):(.+)", re.DOTALL)


def is_engine(address):
    """Whether an address names a store that is no folder."""
    match = ENGINE.fullmatch(str(address))
    return bool(match) and match[1] != "folder" and match[1] in registry.names("store") and not Path(address).is_dir()


def open_store(address, **about):
    """Returns the `Store` of an address.

    Args:
        address: a folder, or `name:...` of a registered store.
        **about: `model`, `kind` and `metric`, see `Store`.
    """
    name, rest = str(address).split(":", 1) if is_engine(address) else ("folder", str(address))
    return registry.registered("store")[name](rest, **about)


def searcher_of(address, model=None):
    """Returns a searcher of the index at an address.

    Args:
        address: see `open_store`.
        model: folder of the exported model; None: the copy in the folder of the index.
    """
    if not is_engine(address):
        return Searcher(address, model)
    if not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    store = open_store(address, model=model_hash(saved_model_folder(model)))
    store.embedder = model
    return store.searcher()


def store_name(address):
    """Returns the name of the store of an address, which is no secret."""
    return str(address).split(":", 1)[0]


# Images that are embedded before they are added: what an interruption loses.
ROWS = 1024


def load(address, source, model, *, kind=None, attributes=None, update=False, batch_size=None, workers=1):
    """Adds images, or embeddings, to the store at an address, and builds its index.

    Args:
        address: see `open_store`.
        source: `ImageList`, or the folder of `python -m tfdml.embed`.
        model: folder of the exported model.
        kind: spec of the index; if `None`, a new one is `flat`, and an existing one keeps its kind.
        attributes: table with a column `path`, see `read_attributes`; if `None`, there are no attributes.
        update, batch_size: of images, see `load_images`.
        workers: of embeddings, see `load_shards`.

    Returns:
        The number of images in the store, and path to reason of those that could not be read.
    """
    if not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    folder = saved_model_folder(model)
    embedder = ExportedModel(folder)
    with open_store(address, model=model_hash(folder), kind=kind, metric=embedder.metric) as store:
        if isinstance(source, ImageList):
            bad = load_images(store, source, embedder, attributes, update=update, batch_size=batch_size)
        else:
            bad = load_shards(store, source, attributes, workers=workers)
        store.build()
        return store.count(), bad


def unload(address, paths):
    """Deletes images from the store at an address; returns how many were deleted, and how many are left.

    Args:
        address: see `open_store`.
        paths: list of paths, as the store has them or relative to the working folder.
    """
    with open_store(address) as store:
        ids = store.ids_of({name for path in paths for name in (path, os.path.abspath(path))})
        unknown = sorted(path for path in paths if not {path, os.path.abspath(path)} & ids.keys())
        if ids and unknown:
            raise ValueError(f"{unknown[0]} is not in the index {address}, and nothing is deleted.")
        store.delete(ids.values())
        return len(ids), store.count()


def load_images(store, images, model, attributes=None, *, update=False, batch_size=None):
    """Embeds the images that a store does not have yet, and adds them; returns path to reason of unreadable ones.

    Args:
        store: `Store`.
        images: `ImageList` of files.
        model: `ExportedModel`.
        attributes: table with a column `path`, see `read_attributes`; None: none.
        update: whether images that are there are embedded again, and replaced.
        batch_size: images that the model embeds at once; None: see `embed_into`.
    """
    if images.contents is not None:
        raise ValueError("The images of a dataset in memory have no files; index them in a folder.")
    store.check()
    bar, bad = ProgressBar(len(images), "image"), {}
    for start in range(0, len(images), ROWS):
        part = range(start, min(start + ROWS, len(images)))
        there = set() if update else store.ids_of([images.paths[row] for row in part])
        left = [row for row in part if images.paths[row] not in there]
        bar.add(len(part) - len(left))
        if not left:
            continue
        kept, vectors, reasons = embed_rows(images, left, model, batch_size=batch_size, on_batch=bar.add)
        bad |= reasons
        paths, labels = ([column[row] for row in kept] for column in (images.paths, images.labels))
        store.add(None, vectors, _table(paths, labels, attributes))
    return bad


def load_shards(store, source, attributes=None, *, workers=1):
    """Adds the embeddings that `python -m tfdml.embed` has written to a store, under their ids; returns what it notes.

    Args:
        store: `Store` of the model that computed them.
        source: their folder.
        attributes: table with a column `path`, see `read_attributes`; None: none.
        workers: number of shards that are added at once, each over a connection of its own.
    """
    shards = EmbeddingShards(source)
    if shards.model != store.model:
        raise ValueError(f"The embeddings in {source} were not computed by this model; give the one that did.")
    check_files(source, shards)
    if workers > 1:
        store.prepare(shards.dimension, shards.manifest["next_id"], attributes)
    bar = ProgressBar(len(shards), "image")
    with ThreadPoolExecutor(workers) as pool:
        begun = collections.deque()
        for block in shards.blocks():
            begun.append(pool.submit(_load_block, store, block, attributes, bar.add))
            # No more shards are in memory than are added.
            if len(begun) == workers:
                begun.popleft().result()
        while begun:
            begun.popleft().result()
    return dict(shards.bad)


def _load_block(store, block, attributes, on_batch):
    for start in range(0, len(block.paths), ROWS):
        part = slice(start, start + ROWS)
        table = _table(block.paths[part], block.labels[part], attributes)
        store.add(block.ids[part], np.asarray(block.embeddings[part]), table)
        on_batch(len(table))


def _table(paths, labels, attributes):
    """Returns the rows of some paths as `Store.add` takes them."""
    if attributes is None:
        return table_of_rows(paths, labels, None)
    places = {path: place for place, path in enumerate(attributes["path"].to_pylist())}
    rows = attributes.take([places[path] for path in paths])
    return table_of_rows(paths, labels, {name: rows[name] for name in rows.column_names if name != "path"})


@dataclasses.dataclass(frozen=True)
class About:
    """The description of the rows of a store.

    Args:
        model: hash of the model whose embeddings these are.
        dimension: of an embedding.
        metric: `cosine` or `euclidean`.
        kind: spec of the index, such as `flat` or `hnsw(ef_search=200)`.
        columns: name of an attribute to `text`, `number`, `boolean` or `time`.
    """

    model: str
    dimension: int
    metric: str
    kind: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def kinds(self, hidden: Collection[str] = ()) -> dict[str, str]:
        """Returns name of a column to its kind, of attributes and of the columns that every index has.

        Args:
            hidden: names of columns to leave out.
        """
        return {name: kind for name, kind in {**OWN, **self.columns}.items() if name not in hidden}


class StoreError(OSError):
    """A store does not answer, or cannot do what it is asked for now; it may pass.

    What is wrong with the request, or with the table, is a ValueError.
    """


class OtherIndex(ValueError):
    """A store has rows of another model, an index of another kind, or none."""


class StoreSearcher(ImageSearcher):
    """Searches an index in a store. It has no rows itself: each search is of what the store has then.

    Args:
        store: `Store`, whose rows are of the model.
        model: an exported model or its folder, or an `ArrayEmbedder`; None: searches are by vectors alone.
    """

    def __init__(self, store: Any, model: Any = None):
        self.store = store
        about = store.existing()
        self._manifest = {
            "model": about.model,
            "dimension": about.dimension,
            "metric": about.metric,
            "kind": about.kind,
        }
        embedder, path = None if model is None or isinstance(model, str | os.PathLike) else model, None
        if isinstance(model, str | os.PathLike):
            path = saved_model_folder(model)
        super().__init__(str(store), embedder, path)

    @property
    def manifest(self) -> dict[str, Any]:
        return self._manifest

    @property
    def embeddings(self) -> None:
        return None

    def __len__(self) -> int:
        return self.store.count()

    def has_labels(self) -> bool:
        return self.store.count("label is not null") > 0

    def selection(self, where: str | None, hidden: Collection[str] = ()) -> Any:
        if where is not None:
            with _still():
                about = self.store.existing()
            condition_of(where, about.kinds(hidden))
        return where, hidden

    def found(self, vectors: Embeddings, k: int, selection: Any) -> Found:
        with _still():
            return self.store.search(vectors, k, *selection)

    def neighbors_of(self, embeddings: Embeddings, k: int) -> list[list[Neighbor]]:
        return self.found(embeddings, k, (None,))

    def file_of(self, id: int) -> str | None:
        path = self.store.paths_of([id]).get(id)
        return path if path is not None and os.sep in path else None

    def state(self) -> Any:
        return self.store.existing().model

    def reopened(self) -> Self:
        self.store.existing()
        return self

    @property
    def rows(self) -> NoReturn:
        """Raises a ValueError: an engine's rows are not in memory."""
        raise ValueError(f"Duplicates are found in an index that is a folder, and {self.store} is none.")


@contextlib.contextmanager
def _still():
    """That the index is another one by now is nothing that those who search can help."""
    try:
        yield
    except OtherIndex as error:
        raise StoreError(str(error)) from error


class Store:
    """Adds, deletes, searches and counts rows: an id, a path, a label, attributes and a vector each.

    A row is there or is not there, whenever the process or the machine stops, and a batch that is added again changes
    nothing. A store is made by the first batch. A `StoreError` says that it does not answer; it may be asked again.

    Args:
        address: what follows the name of the store in `name:address`.
        model: hash of the model whose embeddings are kept; None: that of the rows which are there.
        kind: spec of a new index, such as `hnsw`; None: `flat`, and what is there keeps its own.
        metric: of a new index, `cosine` or `euclidean`.

    Attributes:
        embedder: what embeds images for `searcher`: `ExportedModel` or its folder, or `ArrayEmbedder`; None: what the
            store has with it.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        self.address, self.model, self.kind, self.metric = address, model, kind, metric
        self.embedder: Any = None

    def about(self) -> About | None:
        """Returns what the store says of its rows; None: there are none yet, and nothing is made."""
        raise NotImplementedError

    def count(self, where: str | None = None) -> int:
        """Returns the number of rows, or of those that a filter takes."""
        raise NotImplementedError

    def paths_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Returns id to path of the rows with these ids, of those that are there."""
        raise NotImplementedError

    def ids_of(self, paths: Iterable[str]) -> dict[str, int]:
        """Returns path to id of the rows with these paths, of those that are there."""
        raise NotImplementedError

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        """Returns for each vector a list of the k nearest `Neighbor`s, the nearest first; see `Index.search`.

        Args:
            vectors: `[Q, D]`, finite.
            k: number of neighbors; all if there are fewer.
            where: filter; None: all rows.
            hidden: names of columns that `where` must not ask for.
        """
        raise NotImplementedError

    def _add(self, ids, vectors, table, bad):
        """Adds rows whose ids are new, or None, and returns their ids."""
        raise NotImplementedError

    def _delete(self, ids, compact):
        """Deletes rows with these ids, a set; a ValueError if one is not there."""
        raise NotImplementedError

    def add(
        self,
        ids: Sequence[int] | np.ndarray | None,
        vectors: Embeddings,
        table: Any = None,
        bad: Mapping[str, str] | None = None,
    ) -> np.ndarray:
        """Adds rows, each in the place of an earlier one of the same path; returns their ids `[N]`.

        Rows whose id and path are there already are left as they are, so that a load that was interrupted may begin
        again.

        Args:
            ids: `[N]` integers; None: the next ones.
            vectors: `[N, D]`, finite.
            table: `pyarrow.Table` with `path`, `label` and attributes, see `table_of_rows`; None: names such as `#7`.
            bad: path to reason of images that could not be read, where the store keeps a list of them.
        """
        vectors = checked_vectors(vectors)
        table = table_of_rows([None] * len(vectors), [None] * len(vectors), None) if table is None else table
        if len(table) != len(vectors):
            raise ValueError(
                f"Expected a row of the table for each of {len(vectors):,} vectors, received {len(table):,}."
            )
        check_once([path for path in table["path"].to_pylist() if path is not None], "path")
        self.check()
        if ids is None:
            return self._add(None, vectors, table, bad)
        ids = new_ids(ids)
        if len(ids) != len(vectors):
            raise ValueError(f"Expected an id for each of {len(vectors):,} vectors, received {len(ids):,}.")
        there = self.paths_of(ids.tolist())
        paths = [
            f"#{id}" if path is None else path for id, path in zip(ids.tolist(), table["path"].to_pylist(), strict=True)
        ]
        taken = next((id for id, path in zip(ids.tolist(), paths, strict=True) if there.get(id, path) != path), None)
        if taken is not None:
            raise ValueError(f"The index has an image {taken} already; delete it first, or leave ids out.")
        new = [place for place, id in enumerate(ids.tolist()) if id not in there]
        if new or bad:
            self._add(ids[new], vectors[new], table.take(new), bad)
        return ids

    def delete(self, ids: Iterable[int], compact: bool = False) -> None:
        """Deletes rows; a ValueError, and nothing is deleted, if there is none with one of these ids.

        Args:
            ids: integers.
            compact: whether a store that only marks them erases them at once.
        """
        ids = set(ids)
        if ids:
            self.check()
            self._delete(ids, compact)

    def build(self) -> None:
        """Makes searches fast after many rows were added, where a store does not do so by itself."""

    def searcher(self) -> ImageSearcher:
        """Returns a searcher of images on these rows."""
        return StoreSearcher(self, self.embedder)

    def compact(self) -> None:
        """Erases what is only marked as deleted, where a store does that."""

    def keep_embedder(self) -> None:
        """Copies the embedder beside the rows, where a store has room for it, so that commands find it."""

    def save(self, target: FilePath) -> None:
        """Copies all, and the embedder, to a new folder, where a store can."""
        raise ValueError(f"{self} is no folder that can be copied.")

    def check(self) -> About | None:
        """Returns what `about` does; a ValueError if the rows are of another model, or the index of another kind."""
        about = self.about()
        if about and self.model and about.model != self.model:
            what = "of vectors without a model" if about.model == VECTORS else "with another model"
            raise OtherIndex(f"The index {self} was made {what}; their embeddings cannot be compared.")
        if about and self.kind is not None and self.kind != about.kind:
            raise OtherIndex(f"The index {self} is of the kind {about.kind}, received {self.kind}.")
        return about

    def existing(self) -> About:
        """Returns what `check` does; a ValueError if there are no rows yet."""
        about = self.check()
        if about is None:
            raise OtherIndex(f"The index has no images; add some first: {self}.")
        return about

    def check_there(self) -> None:
        """Raises a ValueError if there is no index that can be opened."""
        self.existing()

    def close(self) -> None:
        """Ends connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address


@register("store", "folder")
class FolderStore(Store):
    """Rows in a folder, searched by faiss in the memory of this process.

    Args:
        address: the folder.
        model, kind, metric: see `Store`.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        super().__init__(address, model, kind, metric)
        self.folder, self._searcher = IndexFolder(address), None

    def about(self) -> About | None:
        if not self.folder.exists():
            return None
        manifest = self.folder.manifest()
        return About(*[manifest[name] for name in ("model", "dimension", "metric", "spec")])

    def check_there(self) -> None:
        # It says what is in the folder instead.
        self.folder.manifest()
        self.check()

    def _add(self, ids, vectors, table, bad):
        model = self.model or self.folder.manifest()["model"]
        about = {"model": model, "kind": self.kind or "flat", "metric": self.metric, "bad": bad}
        return add_rows(self.folder, ids, vectors, table, **about)

    def _delete(self, ids, compact):
        build.delete_ids(self.folder, ids, compact)

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        return self.searcher().search_vectors(vectors, k, where, hidden)

    def count(self, where: str | None = None) -> int:
        return self.searcher().selection(where).count if self.folder.exists() else 0

    def paths_of(self, ids: Iterable[int]) -> dict[int, str]:
        rows, wanted = self._rows(), set(ids)
        return {} if rows is None else {id: rows.paths[row] for id, row in self._live(rows) if id in wanted}

    def ids_of(self, paths: Iterable[str]) -> dict[str, int]:
        rows, wanted = self._rows(), set(paths)
        return (
            {} if rows is None else {rows.paths[row]: id for id, row in self._live(rows) if rows.paths[row] in wanted}
        )

    def _rows(self):
        return self.folder.read_rows(self.folder.manifest()) if self.folder.exists() else None

    def _live(self, rows):
        live = np.flatnonzero(~rows.deleted)
        return zip(rows.ids[live].tolist(), live.tolist(), strict=True)

    def searcher(self) -> Searcher:
        self.existing()
        if self._searcher is None:
            self._searcher = Searcher(self.folder.path, self.embedder)
        else:
            self._searcher = self._searcher.reopened()
        return self._searcher

    def compact(self) -> None:
        build.compact_index(self.folder.path)

    def keep_embedder(self) -> None:
        if isinstance(self.embedder, ExportedModel) and not self.folder.model.exists():
            self.folder.path.mkdir(parents=True, exist_ok=True)
            with locked(self.folder.path, "index"):
                copy_model(self.embedder.path, self.folder.model)

    def save(self, target: FilePath) -> None:
        self.searcher()
        target = Path(target)
        if target.exists():
            raise ValueError(f"{target} exists already; give a new folder.")
        unfinished = target.with_name(f".writing-{target.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        with naming(target), locked(self.folder.path, "index"):
            shutil.copytree(self.folder.path, unfinished, ignore=shutil.ignore_patterns(LOCK))
            if isinstance(self.embedder, ExportedModel) and not (unfinished / self.folder.model.name).exists():
                copy_model(self.embedder.path, unfinished / self.folder.model.name)
            (unfinished / LOCK).touch()
            unfinished.rename(target)
