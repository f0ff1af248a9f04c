"""The model of a run, its initial embedding, and settings that depend on pretrained weights."""

import logging

import keras
import numpy as np

from pipelines.preprocessing import declared_by, image_size_of
from pipelines.sampling import each_alone
from pipelines.stored import vector_dims
from tfdml import registry
from tfdml.backbones import Identity, enable_lora, recompute_blocks
from tfdml.callbacks import InitialEmbedding
from tfdml.console.flags import quoted
from tfdml.console.progress_bar import verbosity
from tfdml.console.settings import PRETRAINED, NetworkSettings, Settings, names_with
from tfdml.registry.arguments import sides_of
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.training.initial_model import InitialModel, check_takes, initial_backbone
from tfdml.run.training.optimizer import check_loss, make_optimizer
from tfdml.run.training.run_sampler import check_pairs, sampler_of

# Optimizers for pretrained backbones, which forget at a higher learning rate, and for others.
OPTIMIZERS = {True: "adam(learning_rate=0.0001)", False: "adam(learning_rate=0.001)"}


def without_auto(settings, backbone, labels=()):
    """Returns the settings with `auto` replaced: the optimizer, the frozen batch norm, and the initial embedding.

    The backbone has its initial weights. `labels` are the integer class labels of the training images.
    """
    pretrained = is_pretrained(settings, backbone)
    frozen = "statistics" if pretrained and backbone.has_batch_norm else "none"
    # If there are classes, `InitialEmbedding` compares the kinds.
    first = "auto" if has_classes(settings.data, labels) else "pca_whitened"
    chosen = {
        "optimizer": OPTIMIZERS[pretrained and not isinstance(backbone, Identity)],
        "freeze_batch_norm": frozen,
        "initial_embedding": first if pretrained else "random",
    }
    values = settings.values()
    return settings.replace(**{name: value for name, value in chosen.items() if values[name] == "auto"})


def has_classes(data, labels):
    """Whether labels `[N]` show which training images are similar, so that LDA can separate their classes.

    Initial clusters and meta-classes of images are random, so they do not.
    """
    random = data.labels or (data.meta_classes and data.meta_classes_of == "images")
    return not random and (len(labels) == 0 or not each_alone(labels))


def is_pretrained(settings, backbone):
    """Whether a backbone starts from pretrained weights, its own or those in the settings."""
    return bool(settings.network.initial_weights) or backbone.pretrained


LOGGER = logging.getLogger(__name__)


def build_model(experiment, sampler, teacher_dims=None, *, tell=True):
    """Builds and compiles the model with all its variables under the strategy, with reproducible weights.

    The sampler is bound to the training rows. `teacher_dims` is the number of dimensions of the teacher's vectors, or
    None. If `tell`, it logs which weights were loaded and what `auto` was replaced with. Returns the model, the sampler
    as the method wraps it, and the `Length` of the run.
    """
    train, tell = experiment.splits.train, tell and experiment.chief
    keras.utils.set_random_seed(experiment.settings.run.seed)
    with experiment.strategy.scope():
        network = experiment.settings.network
        initial = InitialModel.of(network.initial_model) if network.initial_model else None
        backbone = initial.new_backbone() if initial else initial_backbone(network, tell, vector_dims(train))
        _check_input(backbone, train, network.backbone_or_origin)
        if network.lora:
            count = _changed(f"--lora={network.lora}", enable_lora, backbone, network.lora)
            if tell:
                message = "--lora=%d: %d layers of %s are trained with low-rank adapters of rank %d."
                LOGGER.info(message, network.lora, count, backbone.name, network.lora)
        settings = _settings_for(backbone, experiment, tell)
        model = _embedding_model(experiment, settings.network, backbone)
        if settings.batches.remat:
            count = sum(_changed("--remat", recompute_blocks, backbone) for backbone in model.backbones())
            if tell:
                LOGGER.info("--remat: %d blocks are recomputed for gradients.", count)
        if initial:
            message = initial.hand_over(model)
            if tell:
                LOGGER.info(message)
    # Outside of the strategy, which would copy the tables of the sampler to every replica.
    wrapped, length = sampler_of(model, sampler, experiment)
    with experiment.strategy.scope():
        batches, run = settings.batches, settings.run
        loss = loss_of(batches.whole_loss, train, teacher_dims)
        check_loss(loss, train.num_classes, batches.loss, settings.data.dataset)
        check_pairs(loss, sampler, train.labels if train.attributes is None else train.attributes, batches, run.seed)
        optimizer = make_optimizer(settings.optimization, length, scale_loss=run.precision == "mixed_float16")
        options = {"pieces": batches.pieces, "memory": batches.memory or None, "jit_compile": run.jit_compile}
        model.compile(optimizer=optimizer, loss=loss, **options)
        optimizer.build(model.trainable_variables)
    decay = settings.optimization.layer_decay
    if decay != 1 and tell:
        blocks = model.blocks()
        rates = ", ".join(f"{block.name} {decay**power:.3g}" for power, block in enumerate(reversed(blocks), 1))
        LOGGER.info("--layer_decay=%g: learning rate multipliers of %d blocks: %s", decay, len(blocks), rates)
    return model, wrapped, length


def loss_of(spec, train, teacher_dims=None):
    """Returns the loss of a spec for a training split, or a loss per level of a class hierarchy."""
    loss = registry.create("loss", spec, classes=train.num_classes, teacher_dims=teacher_dims)
    if not train.level_names or hooks_of(loss).takes_levels:
        return loss
    return hooks_of(loss).with_levels(loss, lambda each: registry.create("loss", "by_level", loss=each))


def _changed(flag, change, *arguments):
    """Calls a function that changes a backbone. Errors name the flag."""
    try:
        return change(*arguments)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


def _settings_for(backbone, experiment, tell):
    """Returns the settings with `auto` replaced; logs the replacements and flags without effect."""
    settings = experiment.settings
    before, after = settings.values(), without_auto(settings, backbone, experiment.splits.train.labels)
    chosen = [quoted(f"--{name}={value}") for name, value in after.values().items() if value != before[name]]
    sentences = [f"Defaults for this backbone: {' '.join(chosen)}"] if chosen else []
    if not is_pretrained(after, backbone):
        defaults = Settings().values()
        unused = [name for name in names_with(needs=PRETRAINED) if before[name] != defaults[name]]
        why = "because this backbone starts from random weights"
        sentences += [f"--{name} has no effect, {why}." for name in unused]
    for sentence in sentences if tell else ():
        LOGGER.info(sentence)
    return after


def _embedding_model(experiment, network, backbone):
    """Returns the model of the method for a backbone, with its variables."""
    arguments = {"backbone": backbone}
    # Methods without a linear layer have no such argument. If the flag is set anyway, the check below fails.
    has_size = registry.takes("method", network.method, "embedding_size")
    if has_size or network.embedding_size != NetworkSettings.embedding_size:
        arguments["embedding_size"] = network.embedding_size
    if network.freeze_batch_norm != "none":
        arguments["freeze_batch_norm"] = network.freeze_batch_norm
    if network.head != "linear":
        arguments["head"] = registry.create("head", network.head)
    # A method may ignore the replacement of `auto`, but not a value that the user has set.
    requested = vars(experiment.settings.network)
    for name in arguments:
        if requested[name] != "auto":
            registry.check_effect("method", network.method, name, arguments[name], f"--{name}")
    model = registry.create("method", network.method, **arguments)
    model.preprocessing = experiment.images.preprocessing(model)
    if isinstance(backbone, Identity):
        model.call_on((1, backbone.vector_dims))
        return model
    size = image_size_of(backbone, experiment.settings.images.image_size)
    check_takes(backbone, size, network.backbone_or_origin)
    model.call_on((1, *sides_of(size), 3))
    return model


def _check_input(backbone, train, spec):
    """Raises a ValueError if a backbone does not accept what the dataset contains: images or feature vectors."""
    dims, expected = vector_dims(train), declared_by(backbone).get("vector_dims")
    if dims != expected:
        accepted = f"vectors of {expected} dimensions" if expected else "images"
        there = f"vectors of {dims} dimensions" if dims else "images"
        advice = "Set --backbone=identity." if dims else "Use a backbone for images."
        raise ValueError(f"--backbone={spec} accepts {accepted}, but the dataset contains {there}. {advice}")


# Number of training images that is enough to fit the initial embedding.
MOST = 10_000
# Minimum number of images per class; if there are too many classes, some classes are dropped.
OF_A_CLASS = 10


def initial_embedding(experiment, model, step=None, on_choice=None):
    """Returns a list with the `InitialEmbedding` of a run, which is empty if the embedding is random.

    `step` returns the current step; for `on_choice`, see `InitialEmbedding`.
    """
    network, train = experiment.settings.network, experiment.splits.train
    kind = without_auto(experiment.settings, model.backbone, train.labels).network.initial_embedding
    # `auto` must not replace an embedding that was trained.
    keeps = network.initial_embedding == "auto" and (network.initial_model or not InitialEmbedding.suits(model))
    if kind == "random" or keeps:
        return []
    seed = experiment.settings.run.seed
    if len(train) > MOST:
        train = train.where(_some(train.labels, np.random.default_rng(seed)))
    images = experiment.images.evaluation(train, model, tolerant=True)
    options = {"kind": kind, "step": step, "on_choice": on_choice, "verbose": verbosity(experiment.chief)}
    return [InitialEmbedding(images, train.labels, **options)]


def _some(labels, random):
    """Returns sorted rows of `MOST` images, the same number per class. It drops classes if there are too many."""
    rows = random.permutation(len(labels))
    classes, sizes = np.unique(labels, return_counts=True)
    by_class = rows[np.argsort(labels[rows], kind="stable")]
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = by_class[place < max(MOST // len(classes), OF_A_CLASS)]
    turn = np.argsort(random.permutation(len(classes)))[np.searchsorted(classes, labels[kept])]
    return np.sort(kept[np.argsort(turn, kind="stable")][:MOST])
