"""Checks of the arguments of `compile` and `fit`."""

import inspect
import warnings

import keras
import numpy as np
from keras import ops

from tfdml.callbacks.retrieval_evaluation import check_monitors
from tfdml.functional.checks import check_classes, is_floating
from tfdml.functional.pairs import UNKNOWN, contradictory
from tfdml.layers.loss_layer import layer_of
from tfdml.methods.step.parts import check, rank_of
from tfdml.optimizers.optimizers import check_elementwise
from tfdml.registry.loss_hooks import ANCHOR, REFERENCES, hooks_of
from tfdml.runtime.backends import strategy_of, tensorflow_if_used

tf = tensorflow_if_used()
# Keras applies these to each replica's own gradient or variables, so several replicas would differ from one.
PER_REPLICA_OPTIONS = ("clipnorm", "clipvalue", "gradient_accumulation_steps", "use_ema")
# Keras' losses that compare predictions with targets: all except the base class and Circle, which uses embeddings.
OF_TARGETS = {each for each in vars(keras.losses).values() if inspect.isclass(each)} - {
    keras.losses.Loss,
    keras.losses.Circle,
}


def check_compile_arguments(strategy, optimizer, loss, unsupported, pieces, options):
    """Raises a ValueError if an argument of `compile` cannot be used.

    `unsupported` are arguments without a meaning for these models, a dictionary from name to value. `options` are the
    other arguments.
    """
    for name, value in unsupported.items():
        if value is not None:
            instead = (
                " To measure retrieval during training, use fit(..., callbacks=[tfdml.callbacks.RetrievalEvaluation("
                "images, labels)]), which adds val_recall_at_1 and others to the logs."
            )
            raise ValueError(
                f"compile({name}=...) is not supported, because the training step has its own metrics. Expected None. "
                f"Received: {name}={value!r}.{'' if name == 'loss_weights' else instead}"
            )
    if loss is not None and not isinstance(loss, keras.losses.Loss):
        raise ValueError(
            "loss must be a keras.losses.Loss with one value per anchor, or the spec of one of tfdml.losses. Received: "
            f"loss={loss!r}."
        )
    if loss is not None and loss.reduction not in ("sum_over_batch_size", "mean"):
        raise ValueError(
            "The training step averages the loss over anchors. Expected a loss with reduction='sum_over_batch_size'. "
            f"Received: reduction={loss.reduction!r}."
        )
    if type(loss) in OF_TARGETS:
        warnings.warn(
            f"{type(loss).__name__} compares each output of the model with a target, but the outputs of a tfdml model "
            "are embeddings and not classes. Use one of tfdml.losses: loss=tfdml.losses.NormSoftmax(classes=...) for "
            "cross-entropy over classes, or loss='multi_similarity' for pairs.",
            stacklevel=3,
        )
    if not isinstance(pieces, int) or pieces < 1:
        raise ValueError(f"pieces must be an integer of at least 1. Received: pieces={pieces!r}.")
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        _check_replicated(strategy.num_replicas_in_sync, optimizer, options)


def warn_of_missing_loss(model, loss):
    """Warns if a model that has a loss is compiled again without a loss."""
    if loss is None and model.loss is not None:
        lost = " The variables of the previous loss are lost." if model.loss_layers.learners else ""
        warnings.warn(
            f"The model was compiled again without a loss, so it cannot be trained.{lost} Pass the loss again: "
            "compile(optimizer, loss=...).",
            stacklevel=3,
        )


def check_fit_arguments(model, targets, callbacks):
    """Raises a ValueError if `fit` would fail with these labels, or if callbacks are missing or have no effect.

    `targets` are labels `[N]` or a dictionary with the key `label`. Only arrays are checked.
    """
    if model.compiled and model.optimizer is None:
        raise ValueError(
            "The model was compiled without an optimizer. Expected compile(optimizer=...), such as optimizer='adam'."
        )
    labels = targets.get("label") if isinstance(targets, dict) else targets
    if isinstance(labels, np.ndarray | list):
        _check_labels(np.asarray(labels), model)
    # Keras accepts a `CallbackList`, a list or a single callback.
    listed = callbacks.callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else callbacks
    listed = listed if isinstance(listed, list | tuple) else [listed]
    hooks_of(model.loss).check_callbacks(listed)
    check_monitors(listed, model)


def check_scope(model):
    """Raises a ValueError if the model's strategy has several devices but a variable is on only one of them."""
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    for variable in [*model.variables, *(model.optimizer.variables if model.optimizer else ())]:
        if not strategy.extended.variable_created_in_scope(variable.value):
            raise ValueError(
                f"The variable {variable.path} was created on one device, but the strategy has "
                f"{strategy.num_replicas_in_sync} devices. Create the backbone, the model and the optimizer inside "
                "`with strategy.scope():`."
            )


def check_shards(model, loss):
    """Raises a ValueError if the variables of a loss cannot be sharded over the devices of a compiled model."""
    strategy = strategy_of(model)
    if strategy is None or strategy.num_replicas_in_sync == 1 or not hooks_of(loss).sharded:
        return
    # TensorFlow is installed if there is a strategy.
    from tfdml.runtime.devices import is_multi_worker

    if is_multi_worker(strategy):
        raise ValueError(
            "sharded=True divides proxies among the devices of one machine, not among workers, because the files of a "
            "run contain the variables of one worker. Remove sharded=True, or train on one machine."
        )
    if model.turns:
        raise ValueError(
            f"{type(model).__name__} does not support sharded=True, because it initializes the proxies of its learners "
            "from each other. Remove sharded=True."
        )
    check_elementwise(model.optimizer)


def check_references(model, loss):
    """Raises a ValueError if the loss needs reference vectors and the batches of the model have none for its rows."""
    reason = "its learners learn from parts of a batch and of the embedding" if model.turns else model.no_references
    if reason and (names := hooks_of(loss).references):
        raise ValueError(
            f"{type(model).__name__} does not support a loss that compares embeddings with vectors of a {names[0]} "
            f"model, because {reason}. Use another method, such as single."
        )


def check_holding(optimizer):
    """Raises a ValueError if an optimizer cannot leave some learners unchanged while it updates another one."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            "hold_others=True does not support gradient accumulation, because it would mix the gradients of several "
            "learners. Remove gradient_accumulation_steps, or set hold_others=False."
        )
    if isinstance(optimizer, keras.optimizers.Adafactor):
        raise ValueError(
            "hold_others=True does not support Adafactor, because its state is shared by several learners. Use another "
            "optimizer, or set hold_others=False."
        )


def check_targets(batch):
    """Raises an error if targets of a batch are NaN, or not numbers of shape `[B]` or `[B, 1]`.

    Labels may also contain more information about an image than its class; see `tfdml.functional.pairs`.
    """
    for name, values in batch.items():
        if name == ANCHOR:
            continue
        if tf is not None and values.dtype == tf.string:
            raise ValueError(_TEXT.format(name=name))
        if name == "label" and is_floating(values):
            no_nan = ops.logical_not(ops.any(ops.isnan(values)))
            check(no_nan, "labels must be a class label for each image. Received: NaN.")
        rank = rank_of(values)
        if rank is None or tuple(values.shape[1:]) in ((), (1,), (None,)):
            continue
        if name in REFERENCES and rank == 2 and is_floating(values):
            no_nan = ops.logical_not(ops.any(ops.isnan(values)))
            check(no_nan, f"The target {name!r} must be a vector for each image. Received: NaN.")
        elif name == "label" and rank == 2 and _is_of_pairs(values):
            _check_pairs(values)
        else:
            raise ValueError(
                f"The target {name!r} must be integer class labels. Expected shape [batch]. Received: shape "
                f"{tuple(values.shape)}. For one-hot labels, use labels.argmax(axis=1), or tf.argmax in a dataset."
            )


def _is_of_pairs(labels):
    """Whether labels `[b, ...]` of one replica describe pairs of images, in contrast to one-hot labels."""
    replicas = 1 if tf is None else tf.distribute.get_replica_context().num_replicas_in_sync
    return not is_floating(labels) or (labels.shape[0] is not None and labels.shape[0] * replicas == labels.shape[1])


def _check_pairs(labels):
    """Checks that hierarchical labels are a tree, and that explicit pairs are symmetric and not all unknown."""
    if keras.backend.is_int_dtype(labels.dtype):
        message = (
            "Hierarchical labels must be categories from coarse to fine that form a tree. Received: a category that "
            "belongs to two categories of the level above it. For one-hot labels, use labels.argmax(axis=1)."
        )
        check(ops.logical_not(contradictory(labels)), message)
    elif is_floating(labels) and labels.shape[0] == labels.shape[1]:
        others = ops.where(ops.eye(ops.shape(labels)[0], dtype="bool"), UNKNOWN, labels)
        message = "No pair of the batch is known, because all its labels are below 0. Expected a label of at least 0."
        check(ops.any(others >= 0), message)
        message = (
            "Labels of shape [batch, batch] must be the relevance of each pair, as a symmetric matrix. Received: a "
            "matrix that is not symmetric. For one-hot labels, use labels.argmax(axis=1)."
        )
        check(ops.logical_not(contradictory(labels)), message)


_TEXT = (
    "The target {name!r} must be integer class labels. Received: text. Convert it with "
    "np.unique(labels, return_inverse=True)[1], or with keras.layers.StringLookup in a dataset."
)


def _check_labels(labels, model):
    if labels.dtype.kind in "USO":
        raise ValueError(_TEXT.format(name="label"))
    if labels.shape[1:] not in ((), (1,)):
        # The training step checks labels of other shapes.
        return
    layer = layer_of(model.loss)
    check_classes(labels, None if layer is None or layer.classes == 1 else layer.classes)
    _check_variety(labels, hooks_of(model.loss), model.past_batches is not None)


def _check_variety(labels, hooks, memory):
    """Raises a ValueError if no batch with these labels has pairs that the loss needs.

    With a memory, images that are alone in their class are valid, because they are compared with themselves in past
    batches.
    """
    count = len(np.unique(labels))
    if not hooks.needs_pairs or hooks.batch_parts > 1 or not 1 < labels.size:
        return
    if count == 1:
        raise ValueError(
            f"All {labels.size} labels are {labels.flat[0]}, but pair-based losses need images of at least two classes."
        )
    if count == labels.size and not memory:
        raise ValueError(
            f"All {labels.size} labels are different, but pair-based losses need several images per class in a batch. "
            "Expected the class of each image. Received: a different number for each image."
        )


def _check_replicated(replicas, optimizer, options):
    if options.get("jit_compile") is True:
        raise ValueError(f"jit_compile=True does not work on {replicas} replicas. Remove it, or use one device.")
    if options.get("steps_per_execution", 1) != 1:
        raise ValueError(f"steps_per_execution does not work on {replicas} replicas. Remove it, or use one device.")
    if (
        isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        or keras.config.dtype_policy().name == "mixed_float16"
    ):
        raise ValueError(
            f"mixed_float16 needs loss scaling, which does not work on {replicas} replicas. Use mixed_bfloat16."
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        # An optimizer that is only named has the default values of these options.
        return
    for option in PER_REPLICA_OPTIONS:
        if value := getattr(optimizer, option):
            raise ValueError(
                f"{option}={value} of the optimizer does not work on {replicas} replicas, because it would be applied "
                "before gradients are summed over them and the result would differ from one device. Remove "
                f"{option}, or use one device."
            )
