"""The optimizer of a run, with its schedule."""

import logging

import keras

from tfdml import registry
from tfdml.callbacks import WeightAverage
from tfdml.console.settings import OptimizationSettings, values_of
from tfdml.registry.loss_hooks import hooks_of

# Flag to the optimizer's argument that it sets.
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
            raise ValueError(f"--{flag} and {argument} in --optimizer={settings.optimizer} are the same; give one.")
        if optimizer.get_config().get(argument) != value:
            raise ValueError(
                f"--{flag} needs an optimizer with the argument {argument}; {settings.optimizer} has none."
            )
    if optimizer.use_ema:
        raise ValueError("use_ema would change the weights where a run is stopped; use --ema, which does not.")
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
                f"Expected --lr_multipliers=group=factor,group=factor with each group once, such as "
                f"embedding=10,loss=100; received {','.join(items)}."
            )
        multipliers[group] = value
    return multipliers


def check_loss(loss, classes, spec, dataset):
    """Raises if a loss, or a term of a sum, was made for fewer classes than are trained on."""
    made_for = hooks_of(loss).classes
    if made_for is not None and made_for < classes:
        raise ValueError(
            f"--loss={spec} has classes={made_for}, and --dataset={dataset} has {classes} training "
            "classes. Leave the argument out: it is then their number."
        )


def make_average(decay, model):
    """Returns the moving average of the model's weights, of a decay; None without one."""
    if not decay:
        return None
    average = WeightAverage(decay)
    average.make(model)
    return average


def _arguments(settings, batches, length):
    """Returns flag to the value of the optimizer's argument that it sets, without flags at their defaults.

    The optimizer accumulates the gradients of `batches` batches, and counts its updates.
    """
    values, defaults = vars(settings), vars(OptimizationSettings())
    arguments = {flag: values[flag] for flag in ARGUMENTS if values[flag] != defaults[flag]}
    if settings.lr_multipliers:
        arguments["lr_multipliers"] = parse_multipliers(settings.lr_multipliers)
    if settings.warmup_epochs:
        if settings.warmup_epochs >= length.epochs:
            message = "--warmup_epochs=%g of %d epochs never trains the backbone."
            logging.getLogger(__name__).warning(message, settings.warmup_epochs, length.epochs)
        updates = settings.warmup_epochs * length.steps_per_epoch / batches
        arguments["warmup_epochs"] = {"backbone": max(round(updates), 1)}
    if steps := settings.freeze_until:
        if settings.warmup_epochs:
            raise ValueError("--freeze_until, in steps, and --warmup_epochs both freeze the backbone first; give one.")
        if steps % batches:
            within = f"an update of gradient_accumulation_steps={batches}"
            raise ValueError(f"--freeze_until={steps} ends within {within}; give a multiple.")
        if steps >= length.steps:
            message = "--freeze_until=%d of %d steps never trains the backbone."
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
        message = "--schedule=%s changes the learning rate after %g epochs, and the run has %d."
        logging.getLogger(__name__).warning(message, spec, late[0] / length.steps_per_epoch, length.epochs)
    if schedule != before:
        optimizer.learning_rate = schedule
