"""Makes indexes of images, and adds to them."""

import os
import shutil
from pathlib import Path

import numpy as np

from tfdml.files.checked import cleared, locked, naming
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.serving.embedding.embedding_pass import embed_into
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_files, model_hash, saved_model_folder
from tfdml.serving.index.attributes import named
from tfdml.serving.index.deleting import finish_deletion
from tfdml.serving.index.index_build import build, index_of_kind
from tfdml.serving.index.index_folder import IndexFolder

# What an interrupted indexing leaves in its folder.
UNFINISHED = {".lock", "embeddings", "model", "images", "bad_images.jsonl"}
OURS = ("index-", "images-", "deleted-", ".writing-")


def index_images(out, images, *, model="", kind="flat", add=False, update=False, attributes=None, **options):
    """Makes an index of images, goes on with one that was interrupted, or adds images to one.

    Args:
        out: folder of the index.
        images: `ImageList`.
        model: folder of the exported model; needed to make one, and otherwise checked if it is given.
        kind: spec of an index, such as `flat` or `ivf(probes=32)`.
        add: whether the images are added to a complete index, whose kind stays as it is.
        update: whether images that the index has already are embedded again, and take the place of the earlier ones.
        attributes: table of the images with a column `path`, see `read_attributes`; None: none.
        **options: `shard_rows` and `batch_size` of `embed_into`.

    Returns:
        The number of images in the index, and path to reason of those that could not be read.
    """
    folder, model = IndexFolder(out), saved_model_folder(model) if model else ""
    _check_target(folder, add)
    if not add:
        index_of_kind(kind)
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        if add:
            finish_deletion(folder)
        shards, embedder = _opened(folder, model, add)
        if not add:
            paths = set(images.paths)
            _check_same(folder, shards, paths)
            if gone := shards.bad.keys() - paths:
                shards.forget_bad(gone)
        in_memory = images.contents is not None

        def keep(path, contents):
            target = Path(folder.file_of(path))
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(contents)

        there = set() if update else shards.paths(without=_deleted_ids(folder))
        embed_into(shards, images, embedder, there=there, on_read=keep if in_memory else None, **options)
        build(folder, shards, kind, embedder.metric, attributes=attributes)
        return folder.size(), dict(shards.bad)


def index_embeddings(out, source, *, model, kind="flat", attributes=None):
    """Makes an index of the embeddings that `python -m tfdml.embed` has written; returns what `index_images` does.

    Args:
        out: folder of the index.
        source: folder of the embeddings.
        model: folder of the exported model that computed them.
        kind, attributes: see `index_images`.
    """
    folder, computed, model = IndexFolder(out), EmbeddingShards(source), saved_model_folder(model)
    _check_target(folder, add=False)
    index_of_kind(kind)
    if model_hash(model) != computed.model:
        raise ValueError(f"The embeddings in {source} were not computed by the model {model}; give the one that did.")
    check_files(source, computed)
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        if _has_embeddings(folder):
            _check_same(folder, EmbeddingShards(folder.embeddings), computed.paths())
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        copy_model(model, folder.model)
        shards = computed.copy_to(folder.embeddings)
        build(folder, shards, kind, ExportedModel(folder.model).metric, attributes=attributes)
        return len(shards), dict(shards.bad)


def check_files(source, shards):
    """Raises a ValueError if embeddings are of images that are no files.

    Args:
        source: folder of the embeddings.
        shards: its `EmbeddingShards`.
    """
    relative = next((path for path in sorted(shards.paths()) if not os.path.isabs(path)), None)
    if relative is not None:
        raise ValueError(f"{source} has images of a dataset in memory, such as {relative}; index them with --images.")


def add_rows(folder, ids, vectors, table, *, model, kind="flat", metric="cosine", bad=None):
    """Adds embeddings to an index, or makes one of them; rows of paths that it has take the place of the earlier ones.

    Args:
        folder: `IndexFolder`.
        ids: `[N]` int64; None: the next ones.
        vectors: `[N, D]` float32.
        table: `pyarrow.Table` with `path`, `label` and attributes, see `table_of_rows`.
        model: hash of the model that computed them.
        kind, metric: of a new index.
        bad: path to reason of images that could not be read.

    Returns:
        `[N]`: the ids of the rows.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        finish_deletion(folder)
        shards = _shards_for(folder, model, vectors.shape[1])
        if ids is None:
            ids = np.arange(len(vectors)) + shards.manifest["next_id"]
        else:
            _check_new(folder, shards, kind, metric, set(ids.tolist()))
        table = named(table, ids)
        paths = table["path"].to_pylist()
        shards.append(paths, table["label"].to_pylist(), vectors, bad or {}, ids)
        try:
            build(folder, shards, kind, metric, attributes=table.drop_columns("label"))
        except BaseException:
            # Also of a full disk, or Ctrl-C: who repeats the call would add them twice. The index may have them.
            _remove_unknown(folder, shards, set(ids.tolist()))
            raise
        return ids


def _shards_for(folder, model, dimension):
    if not folder.exists() and not folder.embeddings.exists():
        return EmbeddingShards.create(folder.embeddings, model=model, dimension=dimension)
    shards = EmbeddingShards(folder.embeddings)
    if shards.model != model:
        raise ValueError(f"The index {folder.path} was made with another model; their embeddings cannot be compared.")
    if shards.dimension != dimension:
        raise ValueError(f"The index has vectors of {shards.dimension} dimensions, received vectors of {dimension}.")
    return shards


def _check_new(folder, shards, kind, metric, ids):
    """Raises a ValueError if the index has an image with one of these ids; erases a deleted one that has."""
    used = {id for block in shards.blocks() for id in block.ids.tolist()} & ids
    if not used:
        return
    # A kill left others without the index that has them.
    known = _remove_unknown(folder, shards, used)
    if there := known - _deleted_ids(folder):
        raise ValueError(f"The index has an image {min(there)} already; delete it first, or leave ids out.")
    if known:
        build(folder, shards, kind, metric, anew=True)


def _remove_unknown(folder, shards, ids):
    """Removes the embeddings with these ids that the index does not have; returns the ids that it has."""
    known = ids & set(folder.read_rows(folder.manifest()).ids.tolist()) if folder.exists() else set()
    if ids - known:
        shards.remove(ids - known)
    return known


def _check_target(folder, add):
    if add:
        folder.manifest()
    elif folder.exists():
        raise ValueError(f"{folder.path} holds an index. --add adds images to it; give another --out for a new one.")
    elif folder.path.exists() and not folder.path.is_dir():
        raise ValueError(f"--out={folder.path} is a file; give a folder.")
    elif folder.path.exists() and not _is_ours({entry.name for entry in folder.path.iterdir()}):
        raise ValueError(f"--out={folder.path} is not empty and holds no index; give a new folder.")


def _is_ours(names):
    """Whether a folder with these names is empty, or what an interrupted indexing has left."""
    others = {name for name in names - UNFINISHED if not name.startswith(OURS)}
    return not names or ".lock" in names and not others


def _opened(folder, model, add):
    """Returns the shards and the model of an index; puts both there if it is new."""
    begun = _has_embeddings(folder) and folder.model.is_dir()
    if not begun:
        if add:
            gone = folder.model if _has_embeddings(folder) else folder.embeddings
            raise ValueError(f"The index {folder.path} is damaged: {gone} is missing. Make the index again.")
        if not model:
            raise ValueError(f"--model is missing: the exported model that {folder.path} is made with.")
        embedder = ExportedModel(model)
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        copy_model(model, folder.model)
        shards = EmbeddingShards.create(folder.embeddings, model=model_hash(model), dimension=embedder.dimension)
        return shards, embedder
    shards = EmbeddingShards(folder.embeddings)
    if model:
        folder.check_model(model, shards.model)
    folder.check_model(folder.model, shards.model)
    embedder = ExportedModel(folder.model)
    if embedder.dimension != shards.dimension:
        raise ValueError(f"The embeddings in {folder.embeddings} do not have the dimensions of the model.")
    return shards, embedder


def _has_embeddings(folder):
    """Whether there are embeddings: a kill leaves files without a manifest, if it came before the first one."""
    return (folder.embeddings / MANIFEST).is_file()


def _deleted_ids(folder):
    return folder.read_rows(folder.manifest()).deleted_ids if folder.exists() else set()


def copy_model(model, target):
    """Copies a SavedModel and its card, so that the index needs nothing beside it."""
    unfinished = target.with_name(f".writing-{target.name}")
    for leftover in (unfinished, target):
        cleared(leftover)
    cards = [name for name in ("metadata.json", "README.md") if (Path(model) / name).is_file()]
    for name in (*model_files(model), *cards):
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(model) / name, unfinished / name)
    unfinished.rename(target)


def _check_same(folder, shards, paths):
    others = shards.paths() - paths
    if others:
        raise ValueError(
            f"{folder.path} holds an indexing of other images that was interrupted, such as {min(others)}. Repeat its "
            "command, or give another --out."
        )
