"""`FolderStore`: the rows of an index in a folder, with faiss."""

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from tfdml.files.checked import LOCK, locked, naming
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.index import deleting
from tfdml.serving.index.found import Found
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.indexing import add_rows, copy_model
from tfdml.serving.index.searcher import Searcher
from tfdml.serving.index.stores.about import About
from tfdml.serving.index.stores.store import Store


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
        deleting.delete_ids(self.folder, ids, compact)

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
        deleting.compact_index(self.folder.path)

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
