"""Writes embeddings, labels and thumbnails for TensorBoard's embedding projector."""

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

# Limits of the projector: the number of points and the side of the sprite image in pixels.
MOST_POINTS = 10_000
MOST_SPRITE_PIXELS = 8192


class Projector(keras.callbacks.Callback):
    """Callback that writes embeddings for TensorBoard's embedding projector at the end of training.

    For each point, the projector shows the label, the class name, the image, and whether the nearest neighbor among the
    points has the same class. It shows at most 10,000 points. If the model has several learners, the projector also has
    one tensor per learner and shows which learner separates the image best from other classes. To look at the result,
    run `tensorboard --logdir=LOG_DIR` and open the tab "Projector".

    Args:
        log_dir: String or path. TensorBoard's log directory.
        images: Images to embed: an array `[N, H, W, 3]` or a dataset of full batches. It can be `None` if you only call
            `write`.
        labels: `[N]` integer class labels.
        thumbnail: Function from the index of an image to its thumbnail, a `uint8` array `[side, side, 3]`. If `None`,
            the projector shows no images. Defaults to `None`.
        class_names: Dictionary from class label to name, or a list of the names in the order of the labels. If `None`,
            names are empty. Defaults to `None`.
        seed: Integer. Determines the sample of points if there are more than the projector shows. Defaults to `0`.
        verbose: Verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`. Defaults to `0`.
        learners: Integer. Number of learners with embeddings that are concatenated. Defaults to `1`.
        names: `[N]` names of the images, such as paths. If `None`, the projector shows none. Defaults to `None`.
        clusters: `[N]` cluster of each image, for example from Divide and Conquer. If `None`, the projector shows none.
            Defaults to `None`.

    Raises:
        ValueError: If the numbers of images, labels, names and clusters differ.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    projector = tfdml.callbacks.Projector("logs", None, labels, class_names=["cup", "pot"])
    projector.write(embeddings)
    projector.rows  # [0, 1, 2, 3]
    ```

    It writes `logs/projector_config.pbtxt` and files in `logs/projector`.
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
                raise ValueError(
                    f"{name} must have one value per image. Expected {len(self.labels)} values. Received: "
                    f"{len(values)} values."
                )

    def on_train_end(self, logs=None):
        self.write(Embedder(self.model, verbose=self.verbose)(self.images, len(self.labels)))

    @property
    def rows(self) -> np.ndarray:
        """Indices of the images that the projector shows, in ascending order."""
        count = min(len(self.labels), MOST_POINTS)
        return np.sort(np.random.default_rng(self.seed).choice(len(self.labels), count, replace=False))

    def write(self, embeddings: Embeddings) -> None:
        """Writes the files for the embeddings of all images, without training.

        Args:
            embeddings: `[N, D]` embeddings in the order of the labels.
        """
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
    """Writes the projector's files to `log_dir/projector` and its configuration to `log_dir`.

    `tensors` maps names to embeddings `[N, d]`, and `columns` maps names to N values that the projector shows. It needs
    at least two columns. `thumbnails` are N square uint8 images of equal size, or None.
    """
    # TensorBoard's own protobuf class writes the format that TensorBoard reads.
    from tensorboard.plugins.projector import ProjectorConfig, visualize_embeddings

    folder = folder_in(log_dir, "projector", "folder")
    folder.mkdir(parents=True, exist_ok=True)
    table = [columns.keys(), *zip(*columns.values(), strict=True)]
    # Tabs and line breaks separate fields, so replace them in values.
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
    """Arranges all thumbnails in one square image and returns it with the side of a thumbnail."""
    across = int(np.ceil(np.sqrt(len(thumbnails))))
    side = min(thumbnails[0].shape[0], MOST_SPRITE_PIXELS // across)
    sprite = np.full((across * side, across * side, 3), 255, np.uint8)
    for place, picture in enumerate(thumbnails):
        top, left = place // across * side, place % across * side
        step = np.arange(side) * picture.shape[0] // side
        sprite[top : top + side, left : left + side] = picture[step][:, step]
    return sprite, side
