"""Makes indexes of images, adds to them and deletes from them."""

import os
import shutil
from pathlib import Path

from tfdml.files.checked_files import cleared, naming
from tfdml.files.embedding_shards import EmbeddingShards
from tfdml.files.folder_lock import locked
from tfdml.serving.embedding.embedding_pass import embed_into
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_files, model_hash, saved_model_folder
from tfdml.serving.index.index_build import build, index_of_kind
from tfdml.serving.index.index_folder import IndexFolder

# What an interrupted indexing leaves in its folder.
UNFINISHED = {".lock", "embeddings", "model", "images", "bad_images.jsonl"}


def index_images(out, images, *, model="", kind="flat", add=False, **options):
    """Makes an index of images, goes on with one that was interrupted, or adds images to one.

    Args:
        out: folder of the index.
        images: `ImageList`.
        model: folder of the exported model; needed to make one, and otherwise checked if it is given.
        kind: spec of an index, such as `flat` or `ivf(probes=32)`.
        add: whether the images are added to a complete index, whose kind stays as it is.
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
            _finish_deletion(folder)
        shards, embedder = _opened(folder, model, add)
        if not add:
            _check_same(folder, shards, images)
        in_memory = images.contents is not None

        def keep(path, contents):
            target = Path(folder.file_of(path))
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(contents)

        embed_into(shards, images, embedder, on_read=keep if in_memory else None, **options)
        build(folder, shards, kind, embedder.metric)
        return len(shards), dict(shards.bad)


def index_embeddings(out, source, *, model, kind="flat"):
    """Makes an index of the embeddings that `python -m tfdml.embed` has written; returns what `index_images` does.

    Args:
        out: folder of the index.
        source: folder of the embeddings.
        model: folder of the exported model that computed them.
        kind: see `index_images`.
    """
    folder, given, model = IndexFolder(out), EmbeddingShards(source), saved_model_folder(model)
    _check_target(folder, add=False)
    index_of_kind(kind)
    if model_hash(model) != given.model:
        raise ValueError(f"The embeddings in {source} were not computed by the model {model}; give the one that did.")
    relative = next((path for path in sorted(given.paths()) if not os.path.isabs(path)), None)
    if relative is not None:
        raise ValueError(f"{source} has images of a dataset in memory, such as {relative}; index them with --images.")
    folder.path.mkdir(parents=True, exist_ok=True)
    with naming(folder.path), locked(folder.path, "index"):
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        _copy(model, folder.model)
        shards = given.copy_to(folder.embeddings)
        build(folder, shards, kind, ExportedModel(folder.model).metric)
        return len(shards), dict(shards.bad)


def delete_images(out, paths):
    """Deletes images from an index, with their embeddings; returns how many were deleted, and how many are left.

    Args:
        out: folder of the index.
        paths: list of paths, as the index has them or relative to the working folder.
    """
    folder = IndexFolder(out)
    folder.manifest()
    with naming(folder.path), locked(folder.path, "index"):
        earlier = _finish_deletion(folder)
        shards, manifest = EmbeddingShards(folder.embeddings), folder.manifest()
        embedded = [path for block in shards.blocks() for path in block.paths]
        # Also those that are in the index alone: an earlier version was interrupted.
        present = {*embedded, *folder.read_images(manifest)[1]}
        there = present | earlier
        names = {_name_of(path, out, there) for path in paths}
        unknown = sorted(names - there)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, and nothing is deleted.")
        left = sum(path not in names for path in embedded)
        if not left:
            raise ValueError(f"These are all images of the index {out}; remove the folder instead.")
        _check_size(manifest["spec"], left)
        if names & present:
            folder.begin_deletion(names)
            _finish_deletion(folder)
        return len(names), left


def _finish_deletion(folder):
    """Deletes the images whose deletion has begun, as far as that is not done; returns their names.

    Args:
        folder: `IndexFolder`.
    """
    names = folder.begun_deletion()
    if names:
        files = [Path(folder.file_of(name)) for name in names if not os.path.isabs(name)]
        shards, manifest = EmbeddingShards(folder.embeddings), folder.manifest()
        shards.remove(names)
        build(folder, shards, manifest["spec"], manifest["metric"], anew=True)
        for file in files:
            file.unlink(missing_ok=True)
        folder.end_deletion()
    return names


def _check_size(spec, count):
    """Raises a ValueError if there is no index of this kind for so few images."""
    try:
        index_of_kind(spec).of_size(count)
    except ValueError as error:
        raise ValueError(f"{count} images would be left, and nothing is deleted: {error}") from None


def _name_of(path, out, there):
    """Returns the name in the index of an image with this path."""
    names = (str(path), os.path.relpath(path, out), os.path.abspath(path))
    return next((name for name in names if name in there), names[-1])


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
    others = {name for name in names - UNFINISHED if not name.startswith(("index-", "images-", ".writing-"))}
    return not names or ".lock" in names and not others


def _opened(folder, model, add):
    """Returns the shards and the model of an index; puts both there if it is new."""
    begun = folder.embeddings.is_dir() and folder.model.is_dir()
    if not begun:
        if add:
            gone = folder.model if folder.embeddings.is_dir() else folder.embeddings
            raise ValueError(f"The index {folder.path} is damaged: {gone} is missing. Make the index again.")
        if not model:
            raise ValueError(f"--model is missing: the exported model that {folder.path} is made with.")
        embedder = ExportedModel(model)
        shutil.rmtree(folder.embeddings, ignore_errors=True)
        _copy(model, folder.model)
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


def _copy(model, target):
    """Copies a SavedModel and its card, so that the index needs nothing beside it."""
    unfinished = target.with_name(f".writing-{target.name}")
    for leftover in (unfinished, target):
        cleared(leftover)
    cards = [name for name in ("metadata.json", "README.md") if (Path(model) / name).is_file()]
    for name in (*model_files(model), *cards):
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(model) / name, unfinished / name)
    unfinished.rename(target)


def _check_same(folder, shards, images):
    others = shards.paths() - set(images.paths)
    if others:
        raise ValueError(
            f"{folder.path} holds an indexing of other images that was interrupted, such as {min(others)}. Repeat its "
            "command, or give another --out."
        )
    gone = shards.bad.keys() - set(images.paths)
    if gone:
        shards.forget_bad(gone)
