"""Writes embeddings, labels and thumbnails for TensorBoard's projector."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from tfdml.evaluation.diversity import learners_of, margins
from tfdml.evaluation.embedder import Embedder, ImageBatches, check_count
from tfdml.evaluation.queries import flat_labels
from tfdml.files.checked import folder_in, vacated
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Embeddings, FilePath, Labels, Verbosity

# Limits of the projector: number of points, and side of the sprite in pixels.
MOST_POINTS = 10_000
MOST_SPRITE_PIXELS = 8192


class Projector(keras.callbacks.Callback):
    """Writes the embeddings of a split to TensorBoard's log directory at the end of training.

    The projector shows a class number and name of each point, whether its nearest neighbor among the points is right,
    and its image. Where there are several learners, it has a tensor of each beside the one of all, and says which
    learner tells the image best from other classes.

    Args:
        log_dir: TensorBoard's log directory.
        images: dataset of full batches of images, or an array `[N, H, W, 3]`; None if only `write` is called.
        labels: `[N]` class numbers.
        thumbnail: function `row -> uint8 [side, side, 3]`, or None for no thumbnails.
        class_names: dictionary from class number to name, a list of names by class number, or None.
        seed: determines the sample of points if there are more than the projector shows.
        verbose: verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`.
        learners: number of learners whose embeddings lie side by side.
        names: `[N]` names of images, such as paths, or None.
        clusters: `[N]` numbers of clusters, such as those of Divide and Conquer, or None.
    """

    def __init__(
        self,
        log_dir: FilePath,
        images: ImageBatches | None,
        labels: Labels,
        *,
        thumbnail: Callable[[int], np.ndarray] | None = None,
        class_names: Mapping[int, str] | Sequence[str] | None = None,
        seed: int = 0,
        verbose: Verbosity = 0,
        learners: int = 1,
        names: Sequence[str] | None = None,
        clusters: Labels | None = None,
    ):
        super().__init__()
        self.log_dir, self.images, self.labels = log_dir, images, flat_labels(labels)
        class_names = {} if class_names is None else class_names
        self.class_names = class_names if isinstance(class_names, Mapping) else dict(enumerate(class_names))
        self.thumbnail, self.seed, self.verbose = thumbnail, seed, verbose
        self.learners, self.names, self.clusters = learners, names, clusters
        check_count(images, len(self.labels))
        for name, values in (("names", names), ("clusters", clusters)):
            if values is not None and len(values) != len(self.labels):
                raise ValueError(f"Expected {name} of {len(self.labels)} images, received {len(values)}.")

    def on_train_end(self, logs=None):
        self.write(Embedder(self.model, verbose=self.verbose)(self.images, len(self.labels)))

    @property
    def rows(self) -> np.ndarray:
        """The rows of the points, ascending."""
        count = min(len(self.labels), MOST_POINTS)
        return np.sort(np.random.default_rng(self.seed).choice(len(self.labels), count, replace=False))

    def write(self, embeddings: Embeddings) -> None:
        """Writes the files of embeddings `[N, D]` of all images."""
        rows = self.rows
        embeddings, labels = np.asarray(embeddings)[rows], self.labels[rows]
        tensors = {"embeddings": embeddings}
        columns = {"label": labels.tolist(), "name": [self.class_names.get(label, "") for label in labels.tolist()]}
        whole = margins(unit_length(embeddings)[:, None], labels)[:, 0]
        columns["nearest"] = ["right" if margin > 0 else "wrong" for margin in whole]
        if self.learners > 1:
            learners = learners_of(embeddings, self.learners)
            tensors |= {f"learner_{k}": learners[:, k] for k in range(self.learners)}
            columns["best_learner"] = margins(learners, labels).argmax(axis=1).tolist()
        if self.clusters is not None:
            columns["cluster"] = [self.clusters[row] for row in rows]
        if self.names is not None:
            columns["image"] = [self.names[row] for row in rows]
        thumbnails = [self.thumbnail(row) for row in rows] if self.thumbnail else None
        write_projector_files(self.log_dir, tensors, columns, thumbnails)


def write_projector_files(log_dir, tensors, columns, thumbnails=None):
    """Writes the projector's files to `log_dir/projector`, and its configuration to `log_dir`.

    Tensors are embeddings `[N, d]` by name, and columns N values by name, what is told of each point: two columns or
    more. Thumbnails are N square uint8 images of equal size, or None.
    """
    # TensorBoard's own protobuf writes the configuration that it reads.
    from tensorboard.plugins.projector import ProjectorConfig, visualize_embeddings

    folder = folder_in(log_dir, "projector", "folder")
    folder.mkdir(parents=True, exist_ok=True)
    table = [columns.keys(), *zip(*columns.values(), strict=True)]
    # Tabs and line ends would end a field.
    lines = ["\t".join(" ".join(str(value).split()) for value in row) for row in table]
    vacated(folder / "metadata.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    side = None
    if thumbnails is not None:
        sprite, side = _sprite(thumbnails)
        keras.utils.save_img(vacated(folder / "sprite.png"), sprite, scale=False)
    config = ProjectorConfig()
    for name, embeddings in tensors.items():
        np.ascontiguousarray(embeddings, dtype="<f4").tofile(vacated(folder / f"{name}.bytes"))
        entry = config.embeddings.add(
            tensor_name=name,
            tensor_path=f"projector/{name}.bytes",
            metadata_path="projector/metadata.tsv",
            tensor_shape=[int(size) for size in embeddings.shape],
        )
        if side is not None:
            entry.sprite.image_path = "projector/sprite.png"
            entry.sprite.single_image_dim.extend([side, side])
    vacated(Path(log_dir) / "projector_config.pbtxt")
    visualize_embeddings(str(log_dir), config)


def _sprite(thumbnails):
    """Arranges all thumbnails in one square image; returns it and the side of each."""
    across = int(np.ceil(np.sqrt(len(thumbnails))))
    side = min(thumbnails[0].shape[0], MOST_SPRITE_PIXELS // across)
    sprite = np.full((across * side, across * side, 3), 255, np.uint8)
    for place, picture in enumerate(thumbnails):
        top, left = place // across * side, place % across * side
        step = np.arange(side) * picture.shape[0] // side
        sprite[top : top + side, left : left + side] = picture[step][:, step]
    return sprite, side
