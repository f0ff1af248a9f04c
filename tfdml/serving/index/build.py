"""Builds image indexes, adds and deletes images, and moves an index to another model."""

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np

from pipelines.boxes import parted, tile_boxes
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import cleared, damaged, locked, naming
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.serving.embedding import embed_into, embed_rows
from tfdml.serving.exported_model import ExportedModel, model_files, model_hash, saved_model_folder
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.attributes import named
from tfdml.serving.index.folder import GONE, IndexFolder, build, index_of_kind
from tfdml.serving.index.probes import drop_probes, keep_probes


@contextlib.contextmanager
def _changing(folder):
    """Locks an index for a change. Completes an interrupted erasure first, and yields the names of its images."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        yield _finish_deletion(folder)


def delete_images(out, paths, compact=True):
    """Deletes images from the index in a folder. Returns the number of deleted and of remaining images.

    If the index has none of the images, there is nothing to do, so a command that was killed at its end can be
    repeated. Paths are written as in the index, or relative to the working directory. The path of a photo with boxes
    stands for all of them.

    If `compact`, the images are erased from all files, which builds the index again. Otherwise, they are marked as
    deleted, and erased once 20% of the rows are marked.
    """
    folder = IndexFolder(out)
    folder.manifest()
    with _changing(folder) as earlier:
        rows = folder.read_rows(folder.manifest())
        present = _present(folder, rows, compact)
        there = present | earlier
        names = set()
        for path in paths:
            spellings = (str(path), os.path.relpath(path, out), os.path.abspath(path))
            chosen = next((name for name in spellings if name in there), None)
            boxes = {name for name in there if parted(name)[0] in spellings} if chosen is None else {chosen}
            names |= boxes or {spellings[-1]}
        unknown = sorted(names - there)
        if len(unknown) == len(names):
            return 0, len(present)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, so nothing was deleted.")
        _delete(folder, rows, names & present, present, compact)
        return len(names), len(present - names)


def delete_ids(folder, ids, compact=False):
    """Deletes the images with these ids, a set, from an `IndexFolder`; see `delete_images`. All of them must exist."""
    folder.manifest()
    with _changing(folder):
        rows = folder.read_rows(folder.manifest())
        live = rows.selected()
        unknown = sorted(ids - set(rows.ids[live].tolist()))
        if unknown:
            raise ValueError(f"The id {unknown[0]} is not in the index {folder.path}, so nothing was deleted.")
        chosen = np.flatnonzero(live & np.isin(rows.ids, list(ids)))
        _delete(folder, rows, {rows.paths[row] for row in chosen}, _present(folder, rows, compact), compact)


def compact_index(out):
    """Erases images that are marked as deleted from all files of an index. Returns the number of remaining images."""
    folder = IndexFolder(out)
    folder.manifest()
    with _changing(folder):
        if folder.read_rows(folder.manifest()).deleted.any():
            _erase(folder, set())
        return folder.size()


def _finish_deletion(folder):
    """Completes an erasure that was started, if any. Returns the names of its images."""
    names = folder.begun_deletion() if folder.exists() else set()
    if names:
        _erase(folder, names)
        folder.end_deletion()
    return names


def _present(folder, rows, compact):
    """Returns the set of all paths. With `compact`, it includes images that are embedded but not indexed yet."""
    there = {rows.paths[row] for row in np.flatnonzero(~rows.deleted)}
    if not compact:
        return there
    return there | EmbeddingShards(folder.embeddings).paths(without=rows.deleted_ids)


def _delete(folder, rows, names, present, compact):
    left = len(present - names)
    if not left:
        raise ValueError(f"These are all images in the index {folder.path}. Remove the folder instead.")
    if not names:
        return
    if compact:
        _check_size(folder.manifest()["spec"], left)
        folder.begin_deletion(names)
        _finish_deletion(folder)
        return
    deleted = _mark(folder, rows, names)
    for file in _files(folder, names):
        file.unlink(missing_ok=True)
    if np.mean(deleted) < GONE:
        return
    try:
        _check_size(folder.manifest()["spec"], left)
    except ValueError:
        # There is no index of this type for so few images, so keep the marks.
        return
    _erase(folder, set())


def _mark(folder, rows, names):
    """Marks the rows with these paths as deleted. Returns a mask `[N]` of all rows that are deleted."""
    deleted = rows.deleted | np.array([path in names for path in rows.paths])
    drop_probes(folder.path, names)
    if (deleted != rows.deleted).any():
        folder.mark_deleted(deleted)
    return deleted


def _erase(folder, names):
    """Builds the index again without deleted rows and rows with these paths, and removes the files of these images."""
    manifest, shards = folder.manifest(), EmbeddingShards(folder.embeddings)
    files = _files(folder, names)
    rows = folder.read_rows(manifest)
    deleted = _mark(folder, rows, names)
    # Include images that are embedded but not in the index yet.
    ids = {
        id
        for block in shards.blocks()
        for id, path in zip(block.ids.tolist(), block.paths, strict=True)
        if path in names
    }
    shards.remove(ids | set(rows.ids[deleted].tolist()))
    build(folder, shards, manifest["spec"], manifest["metric"], anew=True)
    for file in files:
        file.unlink(missing_ok=True)


def _files(folder, names):
    """Returns the files of these images in the index folder, which only images of a dataset in memory have."""
    return [Path(folder.file_of(name)) for name in names if not os.path.isabs(name) and os.sep in name]


def _check_size(spec, count):
    """Raises a ValueError if an index of this type cannot have so few images."""
    try:
        index_of_kind(spec).of_size(count)
    except ValueError as error:
        raise ValueError(f"{count} images would be left, so nothing was deleted: {error}") from None


# Files and folders that an interrupted indexing leaves behind.
UNFINISHED = {".lock", "embeddings", "model", "images", "bad_images.jsonl"}
OURS = ("index-", "images-", "deleted-", ".writing-")


def index_images(out, images, *, model="", kind="flat", tiles="", add=False, update=False, attributes=None, **options):
    """Indexes an `ImageList`, resumes an interrupted indexing, or adds the images to an existing index with `add`.

    A new index needs an exported `model`. It has the type `kind`, such as `ivf(probes=32)`. An existing index
    keeps its model, its type and its tiles. With `tiles`, such as `2x2+1`, each of these parts of an image is a row.
    With `update`, images that are already in the index are embedded again. `attributes` is a table from
    `read_attributes`, or `None`. The other options are `shard_rows` and `batch_size` of `embed_into`.

    Returns the number of images in the index, and a dictionary from the paths of unreadable images to the reasons.
    """
    folder, model = IndexFolder(out), saved_model_folder(model) if model else ""
    _check_target(folder, add)
    if not add:
        index_of_kind(kind)
    tiles = folder.manifest().get("tiles", "") if add else tiles
    images = images.tiled(tile_boxes(tiles)) if tiles else images
    with _changing(folder):
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
        build(folder, shards, kind, embedder.metric, attributes=attributes, tiles=tiles)
        if update:
            drop_probes(folder.path, set(images.paths))
        keep_probes(folder, embedder)
        return folder.size(), dict(shards.bad)


def index_embeddings(out, source, *, model, kind="flat", attributes=None):
    """Indexes embeddings that `tfdml.embed` has computed with a model. Returns the same as `index_images`."""
    folder, computed, model = IndexFolder(out), EmbeddingShards(source), saved_model_folder(model)
    _check_target(folder, add=False)
    index_of_kind(kind)
    if model_hash(model) != computed.model:
        raise ValueError(
            f"The embeddings in {source} were not computed by the model {model}. Pass the model that computed them."
        )
    check_files(source, computed)
    with _changing(folder):
        if _has_embeddings(folder):
            _check_same(folder, EmbeddingShards(folder.embeddings), computed.paths())
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        copy_model(model, folder.model)
        shards = computed.copy_to(folder.embeddings)
        embedder = ExportedModel(folder.model)
        build(folder, shards, kind, embedder.metric, attributes=attributes)
        keep_probes(folder, embedder)
        return len(shards), dict(shards.bad)


def check_files(source, shards):
    """Raises a ValueError if the `EmbeddingShards` in a source contain images that are not files."""
    relative = next((path for path in sorted(shards.paths()) if not os.path.isabs(path)), None)
    if relative is not None:
        raise ValueError(
            f"{source} contains images of a dataset in memory, such as {relative}. Index them with --images."
        )


def add_rows(folder, ids, vectors, table, *, model, kind="flat", metric="cosine", bad=None):
    """Adds embeddings to an `IndexFolder`, which is created if necessary. Returns the ids of the rows, `[N]`.

    New rows replace existing rows with the same paths. The table is from `table_of_rows`, `model` is a hash, and `bad`
    maps paths of unreadable images to reasons. If `ids` is `None`, the next ids are used.
    """
    with _changing(folder):
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
            # Also clean up after a full disk or Ctrl-C, because repeating the call would add the images twice. The
            # index may already contain them.
            _remove_unknown(folder, shards, set(ids.tolist()))
            raise
        return ids


def _shards_for(folder, model, dimension):
    if not folder.exists() and not folder.embeddings.exists():
        return EmbeddingShards.create(folder.embeddings, model=model, dimension=dimension)
    shards = EmbeddingShards(folder.embeddings)
    if shards.model != model:
        raise ValueError(f"The index {folder.path} was made with another model, so the embeddings cannot be compared.")
    if shards.dimension != dimension:
        raise ValueError(
            f"The index has vectors with {shards.dimension} dimensions. Received: vectors with {dimension} dimensions."
        )
    return shards


def _check_new(folder, shards, kind, metric, ids):
    """Raises a ValueError if the index has an image with one of these ids. Erases deleted images with such ids."""
    used = {id for block in shards.blocks() for id in block.ids.tolist()} & ids
    if not used:
        return
    # A killed process may have left embeddings that are in no index.
    known = _remove_unknown(folder, shards, used)
    if there := known - _deleted_ids(folder):
        raise ValueError(f"The index already has an image with the id {min(there)}. Delete it first, or omit ids.")
    if known:
        build(folder, shards, kind, metric, anew=True)


def _remove_unknown(folder, shards, ids):
    """Removes embeddings with these ids that are not in the index. Returns the ids that are in it."""
    known = ids & set(folder.read_rows(folder.manifest()).ids.tolist()) if folder.exists() else set()
    if ids - known:
        shards.remove(ids - known)
    return known


def _check_target(folder, add):
    if add:
        folder.manifest()
    elif folder.exists():
        raise ValueError(
            f"{folder.path} contains an index. Use --add to add images to it, or another --out for a new index."
        )
    elif folder.path.exists() and not folder.path.is_dir():
        raise ValueError(f"--out={folder.path} is a file. Use a folder.")
    elif folder.path.exists() and (names := {entry.name for entry in folder.path.iterdir()}):
        others = {name for name in names - UNFINISHED if not name.startswith(OURS)}
        if others or ".lock" not in names:
            raise ValueError(f"--out={folder.path} is not empty and contains no index. Use a new folder.")


def _opened(folder, model, add):
    """Returns the shards and the model of an index, and first creates both if the index is new."""
    begun = _has_embeddings(folder) and folder.model.is_dir()
    if not begun:
        if add:
            gone = folder.model if _has_embeddings(folder) else folder.embeddings
            raise damaged(f"The index {folder.path}", f"{gone} is missing", "Create the index again.")
        if not model:
            raise ValueError(f"--model is missing. Pass the exported model to make {folder.path} with.")
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
        raise ValueError(
            f"The embeddings in {folder.embeddings} have {shards.dimension} dimensions, but the model has "
            f"{embedder.dimension}. Create the index again."
        )
    return shards, embedder


def _has_embeddings(folder):
    """Returns whether there are embeddings. A process that was killed early may leave files without a manifest."""
    return (folder.embeddings / MANIFEST).is_file()


def _deleted_ids(folder):
    return folder.read_rows(folder.manifest()).deleted_ids if folder.exists() else set()


def copy_model(model, target):
    """Copies a SavedModel and its card, so that the index needs no files outside its folder."""
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
            f"{folder.path} contains an interrupted indexing of other images, such as {min(others)}. Repeat its "
            "command, or use another --out."
        )


def upgrade_index(out, model, *, shard_rows=4096, batch_size=None):
    """Embeds all images of an index with another model, which the index then uses. Returns the number of images.

    It returns 0 if the index already has this model, for example when a command that was killed at its end is repeated.

    Until the upgrade is complete, searches use the old model, and images cannot be added or deleted. Progress is saved
    after every `shard_rows` images, and an interrupted upgrade resumes from there. Ids, labels and attributes stay the
    same.
    """
    folder, model = IndexFolder(out), saved_model_folder(model)
    folder.manifest()
    with _changing(folder):
        manifest, digest = folder.manifest(), model_hash(model)
        # A killed process may have left files of an upgrade that is complete.
        _remove_before(folder, manifest.get("upgrades", 0))
        if digest == manifest["model"]:
            return 0
        number = manifest.get("upgrades", 0) + 1
        shards = _begun(folder, model, digest, number)
        embedder, rows = ExportedModel(folder.model_after(number)), folder.read_rows(manifest)
        _embed(folder, rows, shards, embedder, shard_rows, batch_size)
        before = EmbeddingShards(folder.embeddings)
        shards.skip_ids(before.manifest["next_id"], before.bad)
        build(folder, shards, manifest["spec"], embedder.metric, anew=True, upgrades=number)
        keep_probes(folder, embedder)
        _remove_before(folder, number)
        return folder.size()


def _remove_before(folder, number):
    """Removes the models and the embeddings from before the upgrade with this number."""
    for earlier in range(number):
        for old in (folder.model_after(earlier), folder.embeddings_after(earlier)):
            shutil.rmtree(old, ignore_errors=True)


def _begun(folder, model, digest, number):
    """Returns the shards of the upgrade, with its model next to them, from an interrupted upgrade or new."""
    embeddings, target = folder.embeddings_after(number), folder.model_after(number)
    if embeddings.is_dir() and target.is_dir():
        shards = EmbeddingShards(embeddings)
        if shards.model == digest == model_hash(target):
            return shards
    shutil.rmtree(embeddings, ignore_errors=True)
    copy_model(model, target)
    return EmbeddingShards.create(embeddings, model=digest, dimension=ExportedModel(target).dimension)


def _embed(folder, rows, shards, embedder, shard_rows, batch_size):
    """Embeds the images that the shards do not have yet, and removes images that are no longer in the index."""
    live = {id: row for row, id in enumerate(rows.ids.tolist()) if not rows.deleted[row]}
    done = {id for block in shards.blocks() for id in block.ids.tolist()}
    if done - live.keys():
        shards.remove(done - live.keys())
    names = {row: rows.paths[row] for id, row in live.items() if id not in done}
    left = list(names)
    images = ImageList([folder.file_of(path) for path in rows.paths], rows.labels)
    bar, missing = ProgressBar(len(live), "image", done=len(live) - len(left)), {}
    for start in range(0, len(left), shard_rows):
        part = left[start : start + shard_rows]
        kept, found, bad = embed_rows(images, part, embedder, batch_size=batch_size, on_batch=bar.add)
        shards.append([names[row] for row in kept], [rows.labels[row] for row in kept], found, {}, rows.ids[kept])
        missing |= bad
    check_readable(missing, len(live))


def check_readable(missing, count):
    """Raises a ValueError if images of an index cannot be read. `missing` maps their paths to the reasons."""
    if missing:
        path, reason = min(missing.items())
        raise ValueError(
            f"{len(missing):,} of {count:,} images cannot be read, for example {path}: {reason}. Restore them, "
            "or delete them from the index, and repeat the command. The index has not changed."
        )
