"""Checks of the arguments of `compile` and `fit`."""

import inspect
import warnings

import keras
import numpy as np
import tensorflow as tf

from tfdml.callbacks.retrieval_evaluation import check_monitors
from tfdml.functional.checks import check_classes
from tfdml.functional.pairs import UNKNOWN, contradictory
from tfdml.layers.loss_layer import layer_of
from tfdml.methods.step.parts import message_of_check
from tfdml.optimizers.optimizers import check_elementwise
from tfdml.registry.loss_hooks import hooks_of
from tfdml.runtime.devices import is_multi_worker

# Keras applies these to each replica's own gradient or variables, so several replicas would differ from one.
PER_REPLICA_OPTIONS = ("clipnorm", "clipvalue", "gradient_accumulation_steps", "use_ema")
# Keras' own losses of predictions and targets: all but the base, and Circle, which is a loss on embeddings.
OF_TARGETS = {each for each in vars(keras.losses).values() if inspect.isclass(each)} - {
    keras.losses.Loss,
    keras.losses.Circle,
}


def check_compile_arguments(strategy, optimizer, loss, unsupported, pieces, options):
    """Raises a ValueError that names which arguments of `compile` cannot be used.

    `unsupported` are those that have no meaning here, name to value; `options` are the others.
    """
    for name, value in unsupported.items():
        if value is not None:
            instead = (
                " To measure retrieval while training, use fit(..., callbacks=[tfdml.callbacks.RetrievalEvaluation("
                "images, labels)]), which adds val_recall_at_1 and others to the logs."
            )
            raise ValueError(
                f"compile({name}=...) is not supported, because the training step has its own metrics. Expected None. "
                f"Received: {name}={value!r}.{'' if name == 'loss_weights' else instead}"
            )
    if loss is not None and not isinstance(loss, keras.losses.Loss):
        raise ValueError(f"Expected a keras.losses.Loss with one value an anchor, or a spec; received {loss!r}.")
    if loss is not None and loss.reduction not in ("sum_over_batch_size", "mean"):
        raise ValueError(f"The step averages over anchors; expected such a reduction, received {loss.reduction!r}.")
    if type(loss) in OF_TARGETS:
        warnings.warn(
            f"{type(loss).__name__} compares each column of what the model returns with a target, but a model of tfdml "
            "returns embeddings, whose columns are not classes. Use a loss of tfdml.losses: for cross-entropy over "
            "classes loss=tfdml.losses.NormSoftmax(classes=...), on pairs loss='multi_similarity'.",
            stacklevel=3,
        )
    if not isinstance(pieces, int) or pieces < 1:
        raise ValueError(f"Expected pieces to be an integer of 1 or more, received {pieces!r}.")
    if strategy.num_replicas_in_sync > 1:
        _check_replicated(strategy.num_replicas_in_sync, optimizer, options)


def warn_of_missing_loss(model, loss):
    """Warns where a model that has a loss is compiled again without one."""
    if loss is None and model.loss is not None:
        lost = " The variables of the loss before are gone." if model.loss_layers.learners else ""
        warnings.warn(
            f"The model was compiled again without a loss, so it cannot be trained.{lost} Give the loss again: "
            "compile(optimizer, loss=...).",
            stacklevel=4,
        )


def check_fit_arguments(model, targets, callbacks):
    """Raises a ValueError for labels with which `fit` would fail, and for callbacks that lack or have no effect.

    Targets are labels `[N]`, or a dictionary with the key `label`, where these are arrays.
    """
    if model.compiled and model.optimizer is None:
        raise ValueError(
            "The model was compiled without an optimizer: expected compile(optimizer=...), such as 'adam'."
        )
    labels = targets.get("label") if isinstance(targets, dict) else targets
    if isinstance(labels, np.ndarray | list):
        _check_labels(np.asarray(labels), model)
    # As Keras takes them: a `CallbackList`, a list, or a single one.
    listed = callbacks.callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else callbacks
    listed = listed if isinstance(listed, list | tuple) else [listed]
    hooks_of(model.loss).check_callbacks(listed)
    check_monitors(listed, model)


def check_scope(model):
    """Raises a ValueError where a model's strategy has several devices, and a variable is on one of them only."""
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    for variable in [*model.variables, *(model.optimizer.variables if model.optimizer else ())]:
        if not strategy.extended.variable_created_in_scope(variable.value):
            raise ValueError(
                f"The variable {variable.path} was made on one device, and the strategy has "
                f"{strategy.num_replicas_in_sync}. Make the backbone, the model and the optimizer inside "
                "`with strategy.scope():`."
            )


def check_shards(model, loss):
    """Raises a ValueError where the variables of a loss cannot be sharded over the devices of a compiled model."""
    if model.distribute_strategy.num_replicas_in_sync == 1 or not hooks_of(loss).sharded:
        return
    if is_multi_worker(model.distribute_strategy):
        raise ValueError(
            "sharded=True divides proxies among the devices of one machine, and not among workers, whose files hold "
            "what one of them has. Leave it out, or train on one machine."
        )
    if model.turns:
        raise ValueError(
            f"{type(model).__name__} makes the proxies of its learners of each other's, which it cannot do with "
            "sharded=True. Leave it out."
        )
    check_elementwise(model.optimizer)


def check_holding(optimizer):
    """Raises a ValueError for an optimizer with which some learners cannot be held while another one learns."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            "Gradients of several learners' turns cannot be accumulated while the others are held. Leave out "
            "gradient_accumulation_steps, or set hold_others=False."
        )
    if isinstance(optimizer, keras.optimizers.Adafactor):
        raise ValueError(
            "Adafactor keeps numbers for several learners together, so that none of them can be held. Take another "
            "optimizer, or set hold_others=False."
        )


def check_targets(batch):
    """Raises an error where targets of a batch, name to tensor, are NaN, or not `[B]` or `[B, 1]` numbers.

    Labels may say more of an image than its class, see `tfdml.functional.pairs`.
    """
    for name, values in batch.items():
        if values.dtype == tf.string:
            raise ValueError(_TEXT.format(name=name))
        if name == "label" and values.dtype.is_floating:
            message = message_of_check("Expected a class number for each image, received NaN as the label of one.")
            tf.debugging.assert_equal(tf.reduce_any(tf.math.is_nan(values)), False, message)
        if values.shape.rank is None or values.shape[1:] in ([], [1], [None]):
            continue
        if name == "label" and values.shape.rank == 2 and _is_of_pairs(values):
            _check_pairs(values)
        else:
            raise ValueError(
                f"Expected class numbers of shape [batch] as {name!r}, received shape {tuple(values.shape)}. Of "
                "one-hot labels take the class number: labels.argmax(axis=1), or tf.argmax in a dataset."
            )


def _is_of_pairs(labels):
    """Whether labels `[b, ...]` of one replica are of pairs, and no one-hot numbers."""
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    return not labels.dtype.is_floating or (
        labels.shape[0] is not None and labels.shape[0] * replicas == labels.shape[1]
    )


def _check_pairs(labels):
    """Checks that levels are a tree, and that something is known of given pairs."""
    if labels.dtype.is_integer:
        message = message_of_check(
            "Expected labels as categories from coarse to fine, received a category that is in two of the level above "
            "it: no tree. Of one-hot labels take the class number: labels.argmax(axis=1)."
        )
        tf.debugging.assert_equal(contradictory(labels), False, message)
    elif labels.dtype.is_floating and labels.shape[0] == labels.shape[1]:
        others = tf.linalg.set_diag(labels, tf.fill([tf.shape(labels)[0]], tf.cast(UNKNOWN, labels.dtype)))
        message = message_of_check("No pair of the batch is known: all labels are below 0.")
        tf.debugging.assert_equal(tf.reduce_any(others >= 0), True, message)
        message = message_of_check(
            "Expected the relevance of each pair, which is the same both ways, received others. Of one-hot labels take "
            "the class number: labels.argmax(axis=1)."
        )
        tf.debugging.assert_equal(contradictory(labels), False, message)


_TEXT = (
    "Expected class numbers as {name!r}, received text. Number the classes: np.unique(labels, return_inverse=True)[1], "
    "or keras.layers.StringLookup in a dataset."
)


def _check_labels(labels, model):
    if labels.dtype.kind in "USO":
        raise ValueError(_TEXT.format(name="label"))
    if labels.shape[1:] not in ((), (1,)):
        # Told where the step sees them.
        return
    layer = layer_of(model.loss)
    check_classes(labels, None if layer is None or layer.classes == 1 else layer.classes)
    _check_variety(labels, hooks_of(model.loss), model.past_batches is not None)


def _check_variety(labels, hooks, memory):
    """Raises a ValueError where no batch of these labels has pairs that a loss learns from.

    With a memory batches are compared with past ones, in which an image meets itself.
    """
    count = len(np.unique(labels))
    if not hooks.needs_pairs or hooks.batch_parts > 1 or not 1 < labels.size:
        return
    if count == 1:
        raise ValueError(
            f"All {labels.size} labels are {labels.flat[0]}. A loss on pairs needs images of two classes or more."
        )
    if count == labels.size and not memory:
        raise ValueError(
            f"All {labels.size} labels are different. A loss on pairs needs several images of a class in a batch: "
            "expected a class number for each image, not the image's own number."
        )


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
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        # The name of one, which has these options as they are by default.
        return
    for option in PER_REPLICA_OPTIONS:
        if value := getattr(optimizer, option):
            raise ValueError(
                f"The optimizer's {option}={value} would be applied before gradients are summed "
                f"over {replicas} replicas and give another result than one device; use one device or leave it out."
            )
