"""Gradients of a loss on the whole batch, with the activations of a piece of it in memory at a time.

Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021: the batch is embedded in
pieces without a tape, the loss gives the gradients of the embeddings, and each piece is embedded again to pass its part
of them on to the weights.
"""

import contextlib

import tensorflow as tf

from tfdml.functional.checks import at_least_float32
from tfdml.layers.blocks import check_repeatable
from tfdml.methods.step.step_checks import message_of_check


def gradients_at_once(model, images, loss_of, variables):
    """Computes gradients of a loss on a model's learner embeddings of images.

    Args:
        model: an `EmbeddingModel`.
        images: `[B, ...]`.
        loss_of: function from learners `[B, K, d]` to the loss, a scalar, and what else it finds.
        variables: the list of variables whose gradients are wanted.

    Returns:
        The gradients, None for variables that the loss does not depend on, and what else `loss_of` found.
    """
    with _tape(model, variables) as tape:
        loss, found = loss_of(_embed(model, images))
    return tape.gradient(loss, variables), found


def gradients_in_pieces(model, images, loss_of, variables, pieces):
    """Computes what `gradients_at_once` does, but for rounding, with `pieces` times less memory for activations.

    The network computes each image twice. It must give the same result both times and in any batch: without dropout and
    with frozen batch norm.
    """
    check_repeatable(model, "pieces", "use one piece")
    parts = tf.nest.map_structure(lambda whole: _divided(whole, pieces), images)
    dtype = "float64" if model.compute_dtype == "float64" else "float32"
    spec = tf.TensorSpec([None, *model.learners_shape], dtype)
    embedded = tf.map_fn(lambda part: _embed(model, part), parts, fn_output_signature=spec, parallel_iterations=1)
    learners = tf.reshape(embedded, [-1, *model.learners_shape])
    with tf.GradientTape() as tape:
        tape.watch(learners)
        loss, found = loss_of(learners)
    of_learners, *direct = tape.gradient(loss, [learners, *variables])
    passed = _passed_on(model, parts, tf.reshape(of_learners, tf.shape(embedded)), variables)
    return [_sum(*each) for each in zip(direct, passed, strict=True)], found


@contextlib.contextmanager
def _tape(model, variables):
    """A tape that records what depends on variables; where backbones wait, nothing else."""
    with tf.GradientTape(watch_accessed_variables=not model.backbones_wait) as tape:
        for variable in variables if model.backbones_wait else ():
            tape.watch(variable.value)
        yield tape


def _embed(model, images):
    return at_least_float32(model(images, training=True, merged=False))


def _passed_on(model, parts, gradients, variables):
    """Gradients of the variables, summed over pieces, from those of the embeddings of each piece."""
    reached = {}

    def add(number, sums):
        with _tape(model, variables) as tape:
            learners = _embed(model, tf.nest.map_structure(lambda each: each[number], parts))
        found = tape.gradient(learners, variables, output_gradients=gradients[number])
        reached.update({place: each is not None for place, each in enumerate(found)})
        return number + 1, [_sum(*each) for each in zip(sums, found, strict=True)]

    zeros = [tf.zeros_like(tf.convert_to_tensor(variable)) for variable in variables]
    count = tf.shape(gradients)[0]
    _, sums = tf.while_loop(lambda number, _: number < count, add, (0, zeros), parallel_iterations=1)
    return [each if reached[place] else None for place, each in enumerate(sums)]


def _sum(first, second):
    if first is None or second is None:
        return second if first is None else first
    return tf.convert_to_tensor(first) + tf.convert_to_tensor(second)


def _divided(whole, pieces):
    """`[B, ...]` as `[pieces, B / pieces, ...]`."""
    size = whole.shape[0]
    message = f"Expected batches that divide into {pieces} equal pieces, received {size or 'another number of'} images."
    if size is not None and size % pieces:
        raise ValueError(message)
    check = tf.debugging.assert_equal(tf.shape(whole)[0] % pieces, 0, message=message_of_check(message))
    with tf.control_dependencies([check] if size is None else []):
        shape = tf.concat([[pieces, tf.shape(whole)[0] // pieces], tf.shape(whole)[1:]], axis=0)
        divided = tf.reshape(whole, shape)
    divided.set_shape([pieces, size and size // pieces, *whole.shape[1:]])
    return divided
