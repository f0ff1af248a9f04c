"""The vectors of a teacher and of the initial model, which a run computes once and stores in its folder."""

import functools
import hashlib
import io
import os
from pathlib import Path

import numpy as np

from pipelines.dataset import Split
from pipelines.datasets.photos import images_below
from pipelines.reading.unreadable import naming_image
from pipelines.stored import StoredVectors
from tfdml.console.progress_bar import verbosity
from tfdml.evaluation.cost import images_per_second, parameters_of
from tfdml.files.checked import write_atomically
from tfdml.files.embeddings import read_arrays
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.registry.loss_hooks import INITIAL, TEACHER, hooks_of
from tfdml.run.loading import ImageEmbedder, is_loadable, load
from tfdml.run.training.model import initial_embedding, is_pretrained
from tfdml.runtime.keras_internals import names_forgotten

# Name of the teacher's vectors of the test images.
TEST = "teacher_test"
OTHER_TEACHER = (
    "Set --teacher to a run directory, a .keras file, an exported model or a folder of python -m tfdml.embed."
)


class References:
    """The reference vectors that the loss of a run compares embeddings with, and their files.

    They are computed at the start of the run, from images without augmentation. A resumed run reads them, so it needs
    neither the teacher nor the initial model. It ends with the same weights.

    `vectors` maps names, such as `"teacher"`, to arrays `[N, d]` of the training images, or of the `anchors` for
    `"initial"`. `test` are the teacher's vectors of the test images, or None. `about` describes the teacher.
    `open_exported` opens a teacher that is the folder of an exported model.
    """

    def __init__(self, experiment, run, open_exported=None):
        self._experiment, self._folder, self._resumes = experiment, run.references, run.has_checkpoint
        batches = experiment.settings.batches
        recorded = run.recorded_dataset() if self._resumes else {}
        self.vectors, self.test, self.about = {}, None, recorded.get(TEACHER, {})
        self.anchors = anchors_in(batches.anchor_images) if batches.anchor_images else None
        if self.anchors is not None and recorded.get("anchors", self._anchor_digest) != self._anchor_digest:
            raise ValueError(
                f"--anchor_images={batches.anchor_images} has other files than when the run was started. Restore them, "
                "or train again in another --run_dir."
            )
        self._path = batches.teacher
        self._teacher = None
        if self._path and not self._resumes:
            # A resumed run creates no such model, and the names of its variables must be the same.
            with names_forgotten():
                self._teacher = opened(self._path, open_exported)

    @functools.cached_property
    def teacher_dims(self):
        """The number of dimensions of the teacher's vectors, or None without a teacher."""
        if not self._path:
            return None
        return self._read(TEACHER, len(self._train)).shape[1] if self._resumes else self._teacher.dimension

    def compute(self, model, build):
        """Computes or reads all vectors that the loss of a model needs. `build` returns the model before training."""
        experiment, names = self._experiment, hooks_of(model.loss).references
        self._check(names, model)
        if TEACHER in names:
            self.vectors[TEACHER] = self._stored(TEACHER, self._train, self._of_teacher)
            self.test = self._stored(TEST, experiment.splits.test, lambda split: self._of_teacher(split, may_miss=True))
            self.about = self.about or {"path": self._path, "dims": self.teacher_dims, **_cost_of(self._teacher)}
            # The memory is needed for training.
            self._teacher = None
        if INITIAL in names:
            of = self._train if self.anchors is None else self.anchors
            with names_forgotten():
                self.vectors[INITIAL] = self._stored(INITIAL, of, lambda split: self._of_initial(split, build))

    def record(self):
        """Returns what `dataset.json` contains about the teacher and the anchors."""
        anchors = {} if self.anchors is None else {"anchors": self._anchor_digest}
        return {**({TEACHER: self.about} if self.about else {}), **anchors}

    def write(self):
        """Stores the vectors of a run that starts."""
        if self._resumes or not self.vectors:
            return
        self._folder.mkdir(exist_ok=True)
        test = {} if self.test is None else {TEST: self.test}
        for name, vectors in {**self.vectors, **test}.items():
            content = io.BytesIO()
            np.save(content, vectors)
            write_atomically(self._folder / f"{name}.npy", content.getvalue())

    def of_training(self):
        """Returns the `StoredVectors` of the training images by name, and of the anchors by name."""
        vectors = {name: StoredVectors([each]) for name, each in self.vectors.items()}
        anchored = {INITIAL: vectors.pop(INITIAL)} if self.anchors is not None and INITIAL in vectors else {}
        return vectors, anchored

    @functools.cached_property
    def _anchor_digest(self):
        """A hash of the paths of the anchors, without the path of their folder."""
        folder = self._experiment.settings.batches.anchor_images
        paths = "\n".join(os.path.relpath(each, folder) for each in self.anchors.images)
        return hashlib.sha256(paths.encode()).hexdigest()

    @property
    def _train(self):
        return self._experiment.splits.train

    def _check(self, names, model):
        """Raises a ValueError if the flags do not fit together, or if the initial model has nothing to keep."""
        settings = self._experiment.settings
        batches, network = settings.batches, settings.network
        keeps = INITIAL in names or hooks_of(model.loss).weights_penalty > 0
        if keeps and not is_pretrained(settings, model.backbone):
            raise ValueError(
                "The loss keeps the model near its initial state, but the backbone starts from random weights. Set "
                "--initial_weights or --initial_model, or remove toward_initial."
            )
        if self._path and TEACHER not in names:
            raise ValueError(
                f"--teacher has no effect, because --loss={batches.loss} has no term teacher. Add one, such as "
                f"--loss='{batches.loss} + 0.5*teacher', or remove --teacher."
            )
        # Without a matrix, as in a preset with two towers, the embedding is the backbone's own.
        is_random = any(len(weight.shape) > 1 for layer in model.embedding_layers() for weight in layer.weights)
        if INITIAL in names and is_random and network.initial_embedding == "random" and not network.initial_model:
            raise ValueError(
                "The loss keeps embeddings near the initial embeddings, but --initial_embedding=random makes them "
                "random. Set --initial_embedding=auto, or --initial_model to a trained model."
            )
        if self.anchors is not None and INITIAL not in names:
            raise ValueError(
                f"--anchor_images has no effect, because --loss={batches.loss} has no term toward_initial. Set "
                "--toward_initial_embeddings, or remove --anchor_images."
            )

    def _stored(self, name, split, compute):
        """Returns the vectors of a split as a resumed run has stored them, or else computes them."""
        if not self._resumes:
            return compute(split)
        if name == TEST and not self._file(name).exists():
            return None
        return self._read(name, len(split))

    def _read(self, name, count):
        file = self._file(name)
        try:
            vectors = read_arrays(file)["embeddings"]
            if vectors.ndim != 2 or len(vectors) != count:
                raise ValueError(f"{file} must have one row for each of {count} images. Received: {vectors.shape}.")
            return np.asarray(vectors)
        except ValueError as error:
            raise ValueError(f"{error} The run cannot resume without this file. Use another --run_dir.") from None

    def _file(self, name):
        return self._folder / f"{name}.npy"

    def _of_teacher(self, split, may_miss=False):
        if isinstance(self._teacher, EmbeddingShards):
            return vectors_by_path(self._teacher, split, self._path, may_miss)
        size, verbose = self._experiment.settings.images.eval_batch_size, verbosity(self._experiment.chief)
        return _finite(self._teacher.embed_split(split, size, verbose), split, f"--teacher={self._path}")

    def _of_initial(self, split, build):
        experiment, model = self._experiment, build(tell=False)[0]
        for initial in initial_embedding(experiment, model):
            initial.apply(model)
        with naming_image(split):
            return experiment.embed(model, split)


def opened(path, open_exported=None):
    """Returns the model or the `EmbeddingShards` of a teacher. Raises a ValueError for anything else."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"--teacher={path} does not exist. {OTHER_TEACHER}")
    if (Path(path) / MANIFEST).is_file():
        return EmbeddingShards(path)
    # The folder of an exported model may contain its versions.
    is_exported = any(each for place in ("", "*/") for each in Path(path).glob(f"{place}saved_model.pb"))
    if not is_loadable(path) and not is_exported:
        raise ValueError(f"--teacher={path} is neither a model nor a folder of embeddings. {OTHER_TEACHER}")
    try:
        return load(path) if is_loadable(path) else open_exported(path)
    except ValueError as error:
        raise ValueError(f"--teacher={path}: {error}") from None


def vectors_by_path(shards, split, name, may_miss=False):
    """Returns the vectors `[N, d]` of a split's images in a folder of embeddings, in the order of the split.

    If `may_miss`, the result is None if an image is missing. Otherwise, that is a ValueError.
    """
    if split.encoded or split.boxes is not None:
        raise ValueError(
            f"--teacher={name} contains embeddings of whole files by their paths, but this dataset has archives or "
            "boxes. Set --teacher to a run directory or a .keras file."
        )
    place_of = {os.path.realpath(path): row for row, path in enumerate(split.images)}
    found, known = np.zeros((len(split), shards.dimension), np.float32), np.zeros(len(split), bool)
    for block in shards.blocks():
        places = [place_of.get(os.path.realpath(path), -1) for path in block.paths]
        here = [number for number, place in enumerate(places) if place >= 0]
        rows = [places[number] for number in here]
        found[rows], known[rows] = block.embeddings[here], True
    if not known.all():
        if may_miss:
            return None
        missing = np.flatnonzero(~known)
        raise ValueError(
            f"--teacher={name} has no embedding of {len(missing):,} of {len(split):,} training images, such as "
            f"{split.name_of(missing[0])}. Embed these images as well, with python -m tfdml.embed."
        )
    return _finite(found, split, f"--teacher={name}")


def anchors_in(folder):
    """Returns a `Split` of all images in a folder, at any depth."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"--anchor_images={folder} is not a folder. Set it to a folder with images.")
    names = images_below(Path(folder))
    return Split(np.array([f"{folder}/{name}" for name in names], object), np.arange(len(names)))


def _finite(vectors, split, what):
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise ValueError(f"{what}: the embedding of {split.name_of(wrong[0])} is NaN or infinite.")
    return vectors


def _cost_of(teacher):
    """Returns the number of parameters and the speed of a teacher, which are not known for stored embeddings."""
    if not isinstance(teacher, ImageEmbedder):
        return {}
    model, shape = teacher.model, teacher.preprocessing.image_shape
    return {"parameters": parameters_of(model), "images_per_second": images_per_second(model, shape)}
