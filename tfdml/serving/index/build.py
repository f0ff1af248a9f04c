"""Makes indexes of images, adds to them, deletes from them, and moves them to another model."""

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import cleared, damaged, locked, naming
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.serving.embedding import embed_into, embed_rows
from tfdml.serving.exported_model import ExportedModel, model_files, model_hash, saved_model_folder
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.attributes import named
from tfdml.serving.index.folder import GONE, IndexFolder, build, index_of_kind


@contextlib.contextmanager
def _changing(folder):
    """Locks an index for a change, and ends an erasure that was interrupted; returns the names of its images."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        yield _finish_deletion(folder)


def delete_images(out, paths, compact=True):
    """Deletes images from the index in a folder; returns how many were deleted, and how many are left.

    If the index has none of them, nothing is left to do: a command that was killed at its end may be repeated. Paths
    are as the index has them, or relative to the working folder.

    If `compact`, the images are erased from all files, which builds the index again. Otherwise they are marked, and
    erased when a fifth of the rows is.
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
            names.add(next((name for name in spellings if name in there), spellings[-1]))
        unknown = sorted(names - there)
        if len(unknown) == len(names):
            return 0, len(present)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, and nothing is deleted.")
        _delete(folder, rows, names & present, present, compact)
        return len(names), len(present - names)


def delete_ids(folder, ids, compact=False):
    """Deletes the images with these ids, a set, from an `IndexFolder`, see `delete_images`; all must be there."""
    folder.manifest()
    with _changing(folder):
        rows = folder.read_rows(folder.manifest())
        live = rows.selected()
        unknown = sorted(ids - set(rows.ids[live].tolist()))
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {folder.path}, and nothing is deleted.")
        chosen = np.flatnonzero(live & np.isin(rows.ids, list(ids)))
        _delete(folder, rows, {rows.paths[row] for row in chosen}, _present(folder, rows, compact), compact)


def compact_index(out):
    """Erases images that are marked as deleted from all files of an index; returns how many images it has."""
    folder = IndexFolder(out)
    folder.manifest()
    with _changing(folder):
        if folder.read_rows(folder.manifest()).deleted.any():
            _erase(folder, set())
        return folder.size()


def _finish_deletion(folder):
    """Erases the images whose erasure has begun, as far as that is not done; returns their names."""
    names = folder.begun_deletion() if folder.exists() else set()
    if names:
        _erase(folder, names)
        folder.end_deletion()
    return names


def _present(folder, rows, compact):
    """Returns the set of the paths of all images; where files are read anyway, also of those that are only embedded."""
    there = {rows.paths[row] for row in np.flatnonzero(~rows.deleted)}
    if not compact:
        return there
    return there | EmbeddingShards(folder.embeddings).paths(without=rows.deleted_ids)


def _delete(folder, rows, names, present, compact):
    left = len(present - names)
    if not left:
        raise ValueError(f"These are all images of the index {folder.path}; remove the folder instead.")
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
        # Of so few images there is no index of this kind, so that the marks stay.
        return
    _erase(folder, set())


def _mark(folder, rows, names):
    """Marks the rows with these paths as deleted, and returns the mask `[N]` of all that are."""
    deleted = rows.deleted | np.array([path in names for path in rows.paths])
    if (deleted != rows.deleted).any():
        folder.mark_deleted(deleted)
    return deleted


def _erase(folder, names):
    """Builds the index anew without the rows that are deleted, and those with these paths, and removes their files."""
    manifest, shards = folder.manifest(), EmbeddingShards(folder.embeddings)
    files = _files(folder, names)
    rows = folder.read_rows(manifest)
    deleted = _mark(folder, rows, names)
    # Also those that are embedded and not yet in the index.
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
    """Returns the files in the index of these images: those of a dataset in memory."""
    return [Path(folder.file_of(name)) for name in names if not os.path.isabs(name) and os.sep in name]


def _check_size(spec, count):
    """Raises a ValueError if there is no index of this kind for so few images."""
    try:
        index_of_kind(spec).of_size(count)
    except ValueError as error:
        raise ValueError(f"{count} images would be left, and nothing is deleted: {error}") from None


# What an interrupted indexing leaves in its folder.
UNFINISHED = {".lock", "embeddings", "model", "images", "bad_images.jsonl"}
OURS = ("index-", "images-", "deleted-", ".writing-")


def index_images(out, images, *, model="", kind="flat", add=False, update=False, attributes=None, **options):
    """Makes an index of an `ImageList`, goes on with one that was interrupted, or adds the images to one with `add`.

    A new index needs a `model`, an exported one, and has a `kind`, such as `ivf(probes=32)`; another one keeps its own.
    With `update` images that the index has already are embedded again. `attributes` is a table of `read_attributes`, or
    `None`. Other options are `shard_rows` and `batch_size` of `embed_into`.

    Returns the number of images in the index, and path to reason of those that could not be read.
    """
    folder, model = IndexFolder(out), saved_model_folder(model) if model else ""
    _check_target(folder, add)
    if not add:
        index_of_kind(kind)
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
        build(folder, shards, kind, embedder.metric, attributes=attributes)
        return folder.size(), dict(shards.bad)


def index_embeddings(out, source, *, model, kind="flat", attributes=None):
    """Makes an index of embeddings that `tfdml.embed` has written with a model; returns what `index_images` does."""
    folder, computed, model = IndexFolder(out), EmbeddingShards(source), saved_model_folder(model)
    _check_target(folder, add=False)
    index_of_kind(kind)
    if model_hash(model) != computed.model:
        raise ValueError(f"The embeddings in {source} were not computed by the model {model}; give the one that did.")
    check_files(source, computed)
    with _changing(folder):
        if _has_embeddings(folder):
            _check_same(folder, EmbeddingShards(folder.embeddings), computed.paths())
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        copy_model(model, folder.model)
        shards = computed.copy_to(folder.embeddings)
        build(folder, shards, kind, ExportedModel(folder.model).metric, attributes=attributes)
        return len(shards), dict(shards.bad)


def check_files(source, shards):
    """Raises a ValueError if the `EmbeddingShards` in a source are of images that are not files."""
    relative = next((path for path in sorted(shards.paths()) if not os.path.isabs(path)), None)
    if relative is not None:
        raise ValueError(f"{source} has images of a dataset in memory, such as {relative}; index them with --images.")


def add_rows(folder, ids, vectors, table, *, model, kind="flat", metric="cosine", bad=None):
    """Adds embeddings to an `IndexFolder`, or makes an index of them; returns the ids of the rows, `[N]`.

    Rows of paths that it has take the place of the earlier ones. The table is that of `table_of_rows`, `model` a hash,
    and `bad` maps paths of unreadable images to reasons. If the ids are `None`, they are the next ones.
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
    elif folder.path.exists() and (names := {entry.name for entry in folder.path.iterdir()}):
        others = {name for name in names - UNFINISHED if not name.startswith(OURS)}
        if others or ".lock" not in names:
            raise ValueError(f"--out={folder.path} is not empty and holds no index; give a new folder.")


def _opened(folder, model, add):
    """Returns the shards and the model of an index; puts both there if it is new."""
    begun = _has_embeddings(folder) and folder.model.is_dir()
    if not begun:
        if add:
            gone = folder.model if _has_embeddings(folder) else folder.embeddings
            raise damaged(f"The index {folder.path}", f"{gone} is missing", "Make the index again.")
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


def upgrade_index(out, model, *, shard_rows=4096, batch_size=None):
    """Embeds all images of an index by another model, and has the index use it then; returns how many these are.

    It returns 0 if the index has this model already, as after a command that was killed at its end.

    Until the end searches find what they found before, and nothing can be added or deleted. What is done is noted after
    `shard_rows` images, and is not done again if it is interrupted and repeated. Ids, labels and attributes stay.
    """
    folder, model = IndexFolder(out), saved_model_folder(model)
    folder.manifest()
    with _changing(folder):
        manifest, digest = folder.manifest(), model_hash(model)
        # What a kill has left of an upgrade that was done.
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
        _remove_before(folder, number)
        return folder.size()


def _remove_before(folder, number):
    """Removes the models and the embeddings that an index had before so many upgrades."""
    for earlier in range(number):
        for old in (folder.model_after(earlier), folder.embeddings_after(earlier)):
            shutil.rmtree(old, ignore_errors=True)


def _begun(folder, model, digest, number):
    """Returns the shards of the upgrade, with the model next to them: those of an interrupted one, or empty ones."""
    embeddings, target = folder.embeddings_after(number), folder.model_after(number)
    if embeddings.is_dir() and target.is_dir():
        shards = EmbeddingShards(embeddings)
        if shards.model == digest == model_hash(target):
            return shards
    shutil.rmtree(embeddings, ignore_errors=True)
    copy_model(model, target)
    return EmbeddingShards.create(embeddings, model=digest, dimension=ExportedModel(target).dimension)


def _embed(folder, rows, shards, embedder, shard_rows, batch_size):
    """Embeds the images that the shards do not have yet, and removes those that the index has no more."""
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
    """Raises a ValueError if images of an index with so many cannot be read: path to reason."""
    if missing:
        path, reason = min(missing.items())
        raise ValueError(
            f"{len(missing):,} of {count:,} images cannot be read, first {path}: {reason}. Bring them back, or "
            "delete them from the index, and repeat the command. The index stays as it was."
        )
