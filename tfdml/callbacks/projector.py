"""Writes embeddings, labels and thumbnails for TensorBoard's projector."""

from pathlib import Path

import keras
import numpy as np

from tfdml.evaluation.embed import Embedder

# Limits of the projector: number of points, and side of the sprite in pixels.
MOST_POINTS = 10_000
MOST_SPRITE_PIXELS = 8192


class Projector(keras.callbacks.Callback):
    """Writes the embeddings of a split to TensorBoard's log directory at the end of training.

    Args:
        log_dir: TensorBoard's log directory.
        images: dataset of full batches of images, or an array `[N, H, W, 3]`; None if only `write` is called.
        labels: `[N]` class numbers.
        thumbnail: function `row -> uint8 [side, side, 3]`, or None for no thumbnails.
        class_names: class number to name, or None.
        seed: determines the sample of points if there are more than the projector shows.
        verbose: verbosity of embedding, see `tfdml.evaluation.embed.Embedder`.
    """

    def __init__(self, log_dir, images, labels, *, thumbnail=None, class_names=None, seed=0, verbose=0):
        super().__init__()
        self.log_dir, self.images, self.labels = log_dir, images, np.asarray(labels)
        self.thumbnail, self.class_names, self.seed, self.verbose = thumbnail, class_names or {}, seed, verbose

    def on_train_end(self, logs=None):
        self.write(Embedder(self.model, verbose=self.verbose)(self.images, len(self.labels)))

    def write(self, embeddings):
        """Writes the files of embeddings `[N, d]` of all images."""
        count = min(len(embeddings), MOST_POINTS)
        rows = np.sort(np.random.default_rng(self.seed).choice(len(embeddings), count, replace=False))
        labels = [[int(label), self.class_names.get(int(label), "")] for label in self.labels[rows]]
        thumbnails = [self.thumbnail(row) for row in rows] if self.thumbnail else None
        write_projector_files(self.log_dir, embeddings[rows], labels, thumbnails)


def write_projector_files(log_dir, embeddings, labels, thumbnails=None):
    """Writes the projector's files to `log_dir/projector`, and its configuration to `log_dir`.

    Args:
        log_dir: TensorBoard's log directory.
        embeddings: `[N, d]`.
        labels: N pairs (class number, class name).
        thumbnails: N square uint8 images of equal size, or None.
    """
    # TensorBoard's own protobuf writes the configuration that it reads.
    from tensorboard.plugins.projector import ProjectorConfig, visualize_embeddings

    folder = Path(log_dir) / "projector"
    folder.mkdir(parents=True, exist_ok=True)
    np.ascontiguousarray(embeddings, dtype="<f4").tofile(folder / "embeddings.bytes")
    lines = ["label\tname", *(f"{label}\t{_one_field(name)}" for label, name in labels)]
    (folder / "metadata.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = ProjectorConfig()
    entry = config.embeddings.add(
        tensor_name="embeddings",
        tensor_path="projector/embeddings.bytes",
        metadata_path="projector/metadata.tsv",
        tensor_shape=[int(size) for size in embeddings.shape],
    )
    if thumbnails:
        sprite, side = _sprite(thumbnails)
        keras.utils.save_img(folder / "sprite.png", sprite, scale=False)
        entry.sprite.image_path = "projector/sprite.png"
        entry.sprite.single_image_dim.extend([side, side])
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


def _one_field(text):
    return " ".join(str(text).split())
