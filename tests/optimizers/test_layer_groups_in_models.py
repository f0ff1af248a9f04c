"""Models name the groups of an optimizer's variables, train with them, and are saved with them."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml import registry
from tfdml.optimizers import SGD, Adam, AdamW


def model_with(optimizer, loss="proxy_nca(classes=4)"):
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=8)
    model(np.zeros((1, 12, 12, 3), np.float32))
    model.compile(optimizer, loss=loss)
    return model


@pytest.mark.slow
def test_nothing_is_retraced_when_the_backbone_begins_to_train(batch):
    traces = []

    class Counting(tfdml.Single):
        def learner_embeddings(self, images, training=False):
            traces.append(training)
            return super().learner_embeddings(images, training=training)

    model = Counting(tfdml.backbones.Small(width=8, stages=2), embedding_size=8)
    model(batch[0])
    schedule = registry.create("schedule", "cosine(warmup_epochs=1)", learning_rate=0.1, steps_per_epoch=2, epochs=4)
    optimizer = AdamW(schedule, frozen_steps={"backbone": 3}, lr_multipliers={"embedding": 10}, global_clipnorm=1.0)
    model.compile(optimizer, loss="triplet")
    model.fit(*batch, batch_size=16, epochs=1, verbose=0)
    before, kernel = len(traces), model.backbone.trainable_variables[0]
    start = kernel.numpy()
    model.fit(*batch, batch_size=16, epochs=2, verbose=0)
    np.testing.assert_array_equal(kernel, start)
    model.fit(*batch, batch_size=16, epochs=2, verbose=0)
    assert np.any(kernel.numpy() != start) and len(traces) == before


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
def test_models_name_their_backbone_and_loss(batch, scaled):
    """The model's own paths do not begin with its name, as those of functional backbones do not."""
    optimizer = SGD(0.1, lr_multipliers={"backbone": 0, "loss": 100})
    wrapped = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0) if scaled else optimizer
    model, plain = model_with(wrapped), model_with(keras.optimizers.SGD(0.1))
    before = {variable.path: variable.numpy() for variable in model.trainable_variables}
    for each in (model, plain):
        each.train_on_batch(*batch)
    for mine, its in zip(model.trainable_variables, plain.trainable_variables, strict=True):
        factor = 100 if "proxies" in mine.path else 1 if "embedding" in mine.path else 0
        start = before[mine.path]
        np.testing.assert_allclose(mine - start, factor * (its - start), rtol=1e-3, atol=1e-6, err_msg=mine.path)
    # A float16 scale of 8 is too small to overflow, so both have stepped.
    assert int(optimizer.iterations) == 1


@pytest.mark.nightly
@pytest.mark.slow
def test_a_saved_model_goes_on_with_its_groups(batch, tmp_path):
    model = model_with(Adam(0.01, frozen_steps={"backbone": 2}, lr_multipliers={"loss": 10}))
    model.fit(*batch, batch_size=16, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(*batch, batch_size=16, epochs=3, verbose=0, shuffle=False)
    for mine, its in zip(model.trainable_variables, loaded.trainable_variables, strict=True):
        np.testing.assert_allclose(mine, its, atol=2e-5, err_msg=mine.path)
    assert int(loaded.optimizer.iterations) == 4


@pytest.mark.slow
@pytest.mark.few_by_day(1)
def test_sparse_gradients_of_frozen_and_clipped_layers(batch):
    """Margins are looked up by class."""
    optimizer = SGD(0.1, lr_multipliers={"margins": 0}, global_clipnorm=1.0)
    model = model_with(optimizer, loss="margin(classes=4, learn_beta='per_class')")
    (margins,) = [variable for variable in model.trainable_variables if "margins" in variable.path]
    before = margins.numpy()
    logs = model.train_on_batch(*batch, return_dict=True)
    np.testing.assert_array_equal(margins, before)
    assert np.isfinite(logs["gradient_norm"])
