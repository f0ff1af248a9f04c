"""The model of a run."""

import re

import keras
import numpy as np
import tensorflow as tf

from pipelines.preprocessing import image_size_of
from tfdml import registry
from tfdml.backbones import Backbone
from tfdml.console.tensorflow_errors import tensorflow_reason
from tfdml.registry.image_sizes import sides_of
from tfdml.run.directory.models_on_disk import load_weights
from tfdml.run.training.batch_pairs import check_pairs
from tfdml.run.training.fine_tuning import without_auto
from tfdml.run.training.optimizer import check_loss, make_optimizer
from tfdml.run.training.run_sampler import sampler_of


def build_model(experiment, sampler, *, tell=True):
    """Builds the model with all variables, compiled, under the strategy; the same weights every time.

    Args:
        experiment: `Experiment`.
        sampler: sampler bound to the training rows.
        tell: whether to print which weights were loaded, and what flags that say `auto` stand for.

    Returns:
        The model, the sampler as its method wraps it, and the `Length` of the run.
    """
    train, tell = experiment.splits.train, tell and experiment.chief
    keras.utils.set_random_seed(experiment.settings.run.seed)
    with experiment.strategy.scope():
        backbone = _pretrained_backbone(experiment.settings.network, tell)
        settings = _settings_for(backbone, experiment, tell)
        model = _embedding_model(experiment, settings.network, backbone)
    # Not under the strategy, which would copy its tables to every replica.
    wrapped, length = sampler_of(model, sampler, experiment)
    with experiment.strategy.scope():
        batches, run = settings.batches, settings.run
        loss = registry.create("loss", batches.loss, classes=train.num_classes)
        check_loss(loss, train.num_classes, batches.loss, settings.data.dataset)
        check_pairs(loss, sampler, train.labels, batches, run.seed)
        optimizer = make_optimizer(settings.optimization, length, scale_loss=run.precision == "mixed_float16")
        model.compile(
            optimizer=optimizer,
            loss=loss,
            pieces=batches.pieces,
            memory=batches.memory or None,
            jit_compile=run.jit_compile,
        )
        optimizer.build(model.trainable_variables)
    return model, wrapped, length


def make_backbone(spec):
    """The backbone of a spec, which declares how pixels are scaled, or a ValueError."""
    backbone = registry.create("backbone", spec)
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"--backbone={spec}: {type(backbone).__name__} must be a tfdml.backbones.Backbone, which "
            "declares how pixels are scaled: Backbone(inputs, {'output': outputs}, mean=..., std=..., image_size=...)."
        )
    return backbone


def _pretrained_backbone(network, tell):
    """The backbone with its first weights."""
    backbone = make_backbone(network.backbone)
    if network.initial_weights:
        loaded = load_weights(backbone, network.initial_weights)
        if tell:
            print(loaded, flush=True)
    return backbone


def _settings_for(backbone, experiment, tell):
    """The settings without `auto`; prints what took its place."""
    before, after = experiment.settings.values(), without_auto(experiment.settings, backbone)
    chosen = [f"--{name}={value}" for name, value in after.values().items() if value != before[name]]
    if chosen and tell:
        print(f"Defaults for this backbone: {' '.join(chosen)}", flush=True)
    return after


def _embedding_model(experiment, network, backbone):
    """The method's model of the backbone, with variables."""
    arguments = {"backbone": backbone, "embedding_size": network.embedding_size}
    if network.freeze_batch_norm != "none":
        arguments["freeze_batch_norm"] = network.freeze_batch_norm
    if network.head != "linear":
        arguments["head"] = registry.create("head", network.head)
    # What `auto` chose is an offer, which a method may not take, or set itself.
    given = vars(experiment.settings.network)
    demanded = {name: f"--{name}" for name in arguments if given[name] != "auto"}
    model = registry.create("method", network.method, demanded, **arguments)
    model.preprocessing = experiment.images.preprocessing(model)
    size = image_size_of(backbone, experiment.settings.images.image_size)
    _check_takes(backbone, size, network.backbone)
    model.call_on((1, *sides_of(size), 3))
    return model


def _check_takes(backbone, size, spec):
    """Raises a ValueError if a backbone does not take images of a size: alone, which tells it in clearer words."""
    sides, own = sides_of(size), backbone.image_size
    shape = (1, *sides, 3)
    try:
        # First by shapes: of smaller images than its own a network may leave nothing, and TensorFlow then crashes.
        if min(sides) < min(sides_of(own)) and 0 in backbone.compute_output_spec(keras.KerasTensor(shape)).shape:
            raise ValueError("Nothing would be left of them.")
        backbone(np.zeros(shape, np.float32))
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        such = f", such as {own}, its own" if own != size else ""
        raise ValueError(
            f"--backbone={spec} does not take images of {sides.height} x {sides.width} pixels; give another "
            f"--image_size{such}. It says: {_said(error)}."
        ) from error


def _said(error):
    """Returns the sentence of an error that says what is wrong; Keras prints it in bold."""
    if isinstance(error, tf.errors.OpError):
        return tensorflow_reason(error)
    *_, last = re.findall(r"\x1b\[1m([^\x1b]*)", str(error)) or [str(error)]
    return last.split(". ")[0].strip().rstrip(".")
