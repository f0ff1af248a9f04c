"""Every registered loss trains the quickstart's configuration, made small, by its name alone."""

import functools

import keras
import numpy as np
import pytest

from pipelines.preprocessing import preprocessing_of
from tests.run_helpers import pictures
from tfdml import registry

# Every batch is the whole training split, without augmentation and dropout: what falls, falls because it is learned.
CLASSES, PER_CLASS, STEPS = 8, 8, 4
# The manifold losses stay near log(classes) for long, their similarities being small: they fall by the least.
MANIFOLD = ("manifold_n_pair", "intrinsic_manifold", "contextual_manifold")
# Of losses that do not train by their names alone: what is nested has no default, rows at unit length have one norm,
# and some regularize the proxies of another loss.
SPECS = {
    "center_invariance": "center_invariance + norm_softmax",
    "lp_norm": "lp_norm + norm_softmax",
    "nested": "nested(loss='triplet', dims=(4, 8))",
    "regular_face": "regular_face + norm_softmax",
    "sparse_centers": "sparse_centers + sub_center_arc_face",
}
# They learn from reference vectors, see `tests.losses.test_teacher`.
OF_REFERENCES = ("teacher", "toward_initial")


@functools.cache
def training_images():
    """All training images of tiny toycars as the training pipeline prepares them, and their labels."""
    from pipelines.build import evaluation_batches
    from pipelines.preprocessor import Preprocessor
    from tfdml.backbones import Small

    train_split = registry.create(
        "dataset",
        f"toycars(classes={2 * CLASSES}, images_per_class={PER_CLASS}, image_size=24)",
        data_dir=str(pictures()),
    ).train.numbered()
    prepare = Preprocessor("center_crop", image_size=24, **preprocessing_of(Small()))
    batch = next(iter(evaluation_batches(train_split, prepare, batch_size=CLASSES * PER_CLASS)))
    return np.asarray(batch), train_split.labels


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in registry.names("loss") if name not in OF_REFERENCES])
def test_loss_falls_from_the_first_epoch_to_the_second(name):
    images, labels = training_images()
    keras.utils.set_random_seed(0)
    backbone = registry.create("backbone", "small(width=8, stages=2)")
    model = registry.create("method", "single", backbone=backbone, embedding_size=16)
    loss = registry.create("loss", SPECS.get(name, name), classes=CLASSES)
    # Eagerly, because tracing a step takes longer than twelve steps; graphs and XLA have tests of their own.
    model.compile(optimizer=registry.create("optimizer", "adam(learning_rate=0.01)"), loss=loss, run_eagerly=True)
    model(images[:1])
    model.optimizer.build(model.trainable_variables)
    data = [np.concatenate([array] * STEPS) for array in (images, labels)]
    losses = model.fit(*data, batch_size=len(labels), epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < (0.9999 if name in MANIFOLD else 0.995) * losses[0], losses
