"""`FolderStore`: the rows of an index in a folder, with faiss."""

import shutil
from pathlib import Path

from tfdml.files.checked_files import naming
from tfdml.files.folder_lock import LOCK, locked
from tfdml.serving.index import deleting
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.indexing import add_rows, copy_model
from tfdml.serving.index.searcher import Searcher


class FolderStore:
    """Adds, deletes, searches and counts rows: all that an `Index` asks of the place where it keeps them.

    Args:
        path: the folder of an index, or of one to make.
        digest: hash of the model whose embeddings these are.
        model: what embeds images for a search, see `Searcher`.
        kind, metric: of a new index.
    """

    def __init__(self, path, digest, model=None, *, kind="flat", metric="cosine"):
        self.folder, self.digest = IndexFolder(path), digest
        self._model, self._kind, self._metric = model, kind, metric
        self._searcher = None

    def add(self, rows):
        """Adds `NewRows`, in the place of those of the same paths; returns their ids `[N]`."""
        return add_rows(self.folder, rows, model=self.digest, kind=self._kind, metric=self._metric)

    def delete(self, ids, compact=False):
        """Deletes rows; a ValueError if there is none with one of these ids.

        Args:
            ids: set of integers.
            compact: whether they are erased from the files at once.
        """
        deleting.delete_ids(self.folder, ids, compact)

    def search(self, vectors, k, where=None):
        """Returns `Found` for vectors `[Q, D]`."""
        return self.searcher().search_vectors(vectors, k, where)

    def count(self):
        """Returns the number of rows."""
        return len(self.searcher()) if self.folder.exists() else 0

    def searcher(self):
        """Returns a `Searcher` of what the store has now."""
        if not self.folder.exists():
            raise ValueError("The index has no images; add some first.")
        self._searcher = (
            Searcher(self.folder.path, self._model) if self._searcher is None else self._searcher.reopened()
        )
        return self._searcher

    def compact(self):
        """Erases what is deleted from the files."""
        deleting.compact_index(self.folder.path)

    def save(self, target, model=None):
        """Copies all to a folder, which must not be there.

        Args:
            target: its path.
            model: folder of the SavedModel, which is copied, too; None: there is none.
        """
        self.searcher()
        target = Path(target)
        if target.exists():
            raise ValueError(f"{target} exists already; give a new folder.")
        unfinished = target.with_name(f".writing-{target.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        with naming(target), locked(self.folder.path, "index"):
            shutil.copytree(self.folder.path, unfinished, ignore=shutil.ignore_patterns(LOCK))
            if model and not (unfinished / "model").exists():
                copy_model(model, unfinished / "model")
            (unfinished / LOCK).touch()
            unfinished.rename(target)
