"""The optimizer of a run, with its schedule."""

import logging

import keras

from tfdml import registry
from tfdml.callbacks import WeightAverage
from tfdml.console.settings import OptimizationSettings, values_of
from tfdml.registry.loss_hooks import hooks_of

# The optimizer arguments that flags set.
ARGUMENTS = values_of("optimizer_argument")


def make_optimizer(settings, length, *, scale_loss=False):
    """Returns the optimizer that the settings describe; `scale_loss` keeps gradients in float16 from vanishing."""
    _, spelled_out = registry.parsed("optimizer", settings.optimizer)
    wanted = _arguments(settings, spelled_out.get("gradient_accumulation_steps") or 1, length)
    arguments = {ARGUMENTS[flag]: value for flag, value in wanted.items()}
    optimizer = registry.create("optimizer", settings.optimizer, **arguments)
    for flag, value in wanted.items():
        argument = ARGUMENTS[flag]
        if argument in spelled_out:
            raise ValueError(
                f"--{flag} sets {argument}, which --optimizer={settings.optimizer} sets too. Remove one of them."
            )
        if optimizer.get_config().get(argument) != value:
            raise ValueError(
                f"--{flag} needs an optimizer with the argument {argument}, which {settings.optimizer} does not have."
            )
    if optimizer.use_ema:
        raise ValueError("use_ema would change the weights when a run is stopped. Use --ema instead.")
    _schedule(optimizer, settings.schedule, length)
    return keras.optimizers.LossScaleOptimizer(optimizer) if scale_loss else optimizer


def parse_multipliers(items):
    """Returns `{"embedding": 10.0, "proxies": 100.0}` for `["embedding=10", "proxies=100"]`."""
    multipliers = {}
    for item in items:
        group, _, factor = (part.strip() for part in item.partition("="))
        try:
            value = float(factor)
        except ValueError:
            group = ""
        if not group or group in multipliers:
            raise ValueError(
                "Expected --lr_multipliers=group=factor,group=factor with each group once, such as "
                f"embedding=10,loss=100. Received: {','.join(items)}."
            )
        multipliers[group] = value
    return multipliers


def check_loss(loss, classes, spec, dataset):
    """Raises a ValueError if a loss, or a term of a sum, has fewer classes than the training set."""
    made_for = hooks_of(loss).classes
    if made_for is not None and made_for < classes:
        raise ValueError(
            f"--loss={spec} has classes={made_for}, but --dataset={dataset} has {classes} training classes. Remove the "
            "argument; it is then set automatically."
        )


def make_average(decay, model):
    """Returns a moving average of the model's weights, or None if the decay is 0."""
    if not decay:
        return None
    average = WeightAverage(decay)
    average.make(model)
    return average


def _arguments(settings, batches, length):
    """Returns the optimizer arguments by the flags that set them, without flags that have their defaults.

    The optimizer accumulates the gradients of `batches` batches and counts its updates.
    """
    values, defaults = vars(settings), vars(OptimizationSettings())
    arguments = {flag: values[flag] for flag in ARGUMENTS if values[flag] != defaults[flag]}
    if settings.lr_multipliers:
        arguments["lr_multipliers"] = parse_multipliers(settings.lr_multipliers)
    if settings.warmup_epochs:
        if settings.warmup_epochs >= length.epochs:
            message = "--warmup_epochs=%g of %d epochs: the backbone is frozen for the whole run, so it never trains."
            logging.getLogger(__name__).warning(message, settings.warmup_epochs, length.epochs)
        updates = settings.warmup_epochs * length.steps_per_epoch / batches
        arguments["warmup_epochs"] = {"backbone": max(round(updates), 1)}
    if steps := settings.freeze_until:
        if settings.warmup_epochs:
            raise ValueError("--freeze_until and --warmup_epochs cannot both be set, because both freeze the backbone.")
        if steps % batches:
            raise ValueError(f"--freeze_until={steps} must be a multiple of gradient_accumulation_steps={batches}.")
        if steps >= length.steps:
            message = "--freeze_until=%d of %d steps: the backbone is frozen for the whole run, so it never trains."
            logging.getLogger(__name__).warning(message, steps, length.steps)
        arguments["freeze_until"] = {"backbone": steps // batches}
    return arguments


def _schedule(optimizer, spec, length):
    before = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    options = {"steps_per_epoch": length.steps_per_epoch, "epochs": length.epochs}
    schedule = registry.create("schedule", spec, learning_rate=before, **options)
    changes = schedule.boundaries if isinstance(schedule, keras.optimizers.schedules.PiecewiseConstantDecay) else ()
    late = [last + 1 for last in changes if last + 1 >= length.steps]
    if late:
        message = "--schedule=%s changes the learning rate after %g epochs, but the run only has %d."
        logging.getLogger(__name__).warning(message, spec, late[0] / length.steps_per_epoch, length.epochs)
    if schedule != before:
        optimizer.learning_rate = schedule
