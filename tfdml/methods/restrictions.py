"""What a method refuses to compile with, because it would be computed wrong or not at all."""

import keras
import tensorflow as tf

# Keras applies these to each replica's own gradient or variables, so several replicas would differ from one.
PER_REPLICA_OPTIONS = ("clipnorm", "clipvalue", "gradient_accumulation_steps", "use_ema")


def is_multi_worker(strategy):
    """True under MultiWorkerMirroredStrategy with more than one worker."""
    multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return multi_worker and strategy.num_replicas_in_sync > strategy.extended._num_devices_per_worker


def check_compile_arguments(strategy, optimizer, loss, unsupported, options):
    """Raises a ValueError that names what cannot be done.

    Args:
        strategy: the `tf.distribute.Strategy` to train under.
        optimizer: Keras optimizer, or its name.
        loss: Keras loss, or None.
        unsupported: arguments of compile that have no meaning here, name to value.
        options: the other arguments of compile.
    """
    for name, value in unsupported.items():
        if value is not None:
            raise ValueError(f"compile({name}=...) is not supported: the step owns its metrics. Received {value!r}.")
    if loss is not None and not isinstance(loss, keras.losses.Loss):
        raise ValueError(f"Expected a keras.losses.Loss with one value an anchor, or a spec; received {loss!r}.")
    if loss is not None and loss.reduction not in ("sum_over_batch_size", "mean"):
        raise ValueError(f"The step averages over anchors; expected such a reduction, received {loss.reduction!r}.")
    if strategy.num_replicas_in_sync > 1:
        _check_replicated(strategy.num_replicas_in_sync, optimizer, options)


def _check_replicated(replicas, optimizer, options):
    if options.get("jit_compile") is True:
        raise ValueError(f"jit_compile=True does not work on {replicas} replicas; leave it out or use one device.")
    if options.get("steps_per_execution", 1) != 1:
        raise ValueError(f"steps_per_execution works on one device only, received it on {replicas} replicas.")
    if (
        isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        or keras.config.dtype_policy().name == "mixed_float16"
    ):
        raise ValueError(f"mixed_float16 needs loss scaling, which {replicas} replicas cannot do; use mixed_bfloat16.")
    for option in PER_REPLICA_OPTIONS:
        if getattr(optimizer, option, None):
            raise ValueError(
                f"The optimizer's {option}={getattr(optimizer, option)} would be applied before gradients are summed "
                f"over {replicas} replicas and give another result than one device; use one device or leave it out."
            )
