"""The model of a run."""

import logging

import keras

from pipelines.preprocessing import declared_by, image_size_of
from pipelines.stored import vector_dims
from tfdml import registry
from tfdml.backbones import Identity, enable_lora, recompute_blocks
from tfdml.console.flags import quoted
from tfdml.console.settings import NetworkSettings
from tfdml.registry.arguments import sides_of
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.training.batch_pairs import check_pairs
from tfdml.run.training.fine_tuning import is_pretrained, without_auto
from tfdml.run.training.initial_backbone import check_takes, initial_backbone
from tfdml.run.training.initial_model import InitialModel
from tfdml.run.training.optimizer import check_loss, make_optimizer
from tfdml.run.training.run_sampler import sampler_of

LOGGER = logging.getLogger(__name__)


def build_model(experiment, sampler, *, tell=True):
    """Builds the model with all variables, compiled, under the strategy; the same weights every time.

    Args:
        experiment: `Experiment`.
        sampler: sampler bound to the training rows.
        tell: whether to log which weights were loaded, and what flags that say `auto` stand for.

    Returns:
        The model, the sampler as its method wraps it, and the `Length` of the run.
    """
    train, tell = experiment.splits.train, tell and experiment.chief
    keras.utils.set_random_seed(experiment.settings.run.seed)
    with experiment.strategy.scope():
        network = experiment.settings.network
        initial = InitialModel.of(network.initial_model) if network.initial_model else None
        backbone = initial.new_backbone() if initial else initial_backbone(network, tell, vector_dims(train))
        _check_input(backbone, train, network.backbone_or_origin)
        if network.lora:
            _adapt(backbone, network.lora, tell)
        settings = _settings_for(backbone, experiment, tell)
        model = _embedding_model(experiment, settings.network, backbone)
        if settings.batches.remat:
            _recompute(model, tell)
        taken = initial.hand_over(model) if initial else ""
        if taken and tell:
            LOGGER.info(taken)
    # Not under the strategy, which would copy its tables to every replica.
    wrapped, length = sampler_of(model, sampler, experiment)
    with experiment.strategy.scope():
        batches, run = settings.batches, settings.run
        loss = loss_of(batches.loss, train)
        check_loss(loss, train.num_classes, batches.loss, settings.data.dataset)
        check_pairs(loss, sampler, train.labels if train.attributes is None else train.attributes, batches, run.seed)
        optimizer = make_optimizer(settings.optimization, length, scale_loss=run.precision == "mixed_float16")
        model.compile(
            optimizer=optimizer,
            loss=loss,
            pieces=batches.pieces,
            memory=batches.memory or None,
            jit_compile=run.jit_compile,
        )
        optimizer.build(model.trainable_variables)
    decay = settings.optimization.layer_decay
    if decay != 1 and tell:
        LOGGER.info(_told_of_blocks(decay, model.blocks()))
    return model, wrapped, length


def loss_of(spec, train):
    """The loss of a spec, for a training split; of levels it is that of each."""
    loss = registry.create("loss", spec, classes=train.num_classes)
    if train.level_names and not hooks_of(loss).takes_levels:
        return registry.create("loss", "by_level", loss=loss)
    return loss


def _adapt(backbone, rank, tell):
    """Gives a backbone the low-rank changes that train; logs how many layers have them."""
    try:
        count = enable_lora(backbone, rank)
    except ValueError as error:
        raise ValueError(f"--lora={rank}: {error}") from None
    if tell:
        LOGGER.info("--lora=%d: %d layers of %s learn by changes of rank %d.", rank, count, backbone.name, rank)


def _recompute(model, tell):
    """Lets gradients compute the blocks of a model's backbones again; logs how many there are."""
    try:
        count = sum(recompute_blocks(backbone) for backbone in model.backbones())
    except ValueError as error:
        raise ValueError(f"--remat: {error}") from None
    if tell:
        LOGGER.info("--remat: gradients compute %d blocks again.", count)


def _told_of_blocks(decay, blocks):
    rates = [f"{block.name} {decay**power:.3g}" for power, block in enumerate(reversed(blocks), 1)]
    return f"--layer_decay={decay:g}: {len(blocks)} blocks from head to stem, times the rate: {', '.join(rates)}"


def _settings_for(backbone, experiment, tell):
    """The settings without `auto`; logs what took its place, and what has no effect."""
    settings = experiment.settings
    before, after = settings.values(), without_auto(settings, backbone, experiment.splits.train.labels)
    chosen = [quoted(f"--{name}={value}") for name, value in after.values().items() if value != before[name]]
    sentences = [f"Defaults for this backbone: {' '.join(chosen)}"] if chosen else []
    if after.optimization.blend and not is_pretrained(after, backbone):
        sentences.append("--blend has no effect, because this backbone starts from random weights.")
    for sentence in sentences if tell else ():
        LOGGER.info(sentence)
    return after


def _embedding_model(experiment, network, backbone):
    """The method's model of the backbone, with variables."""
    arguments = {"backbone": backbone}
    # A method without a linear layer has no such size; another one than the default was asked for.
    has_size = registry.takes("method", network.method, "embedding_size")
    if has_size or network.embedding_size != NetworkSettings.embedding_size:
        arguments["embedding_size"] = network.embedding_size
    if network.freeze_batch_norm != "none":
        arguments["freeze_batch_norm"] = network.freeze_batch_norm
    if network.head != "linear":
        arguments["head"] = registry.create("head", network.head)
    # What `auto` chose is an offer, which a method may not take, or set itself.
    requested = vars(experiment.settings.network)
    demanded = {name: f"--{name}" for name in arguments if requested[name] != "auto"}
    model = registry.create("method", network.method, demanded, **arguments)
    model.preprocessing = experiment.images.preprocessing(model)
    if isinstance(backbone, Identity):
        model.call_on((1, backbone.vector_dims))
        return model
    size = image_size_of(backbone, experiment.settings.images.image_size)
    check_takes(backbone, size, network.backbone_or_origin)
    model.call_on((1, *sides_of(size), 3))
    return model


def _check_input(backbone, train, spec):
    """Raises a ValueError if a backbone takes images and the dataset has vectors, or other vectors."""
    dims, own = vector_dims(train), declared_by(backbone).get("vector_dims")
    if dims != own:
        takes = f"vectors of {own} dimensions" if own else "images"
        raise ValueError(
            f"--backbone={spec} takes {takes}, and the dataset has {f'vectors of {dims}' if dims else 'images'}. Give "
            f"--backbone={'identity' if dims else 'one of images'}."
        )
