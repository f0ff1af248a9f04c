"""Measures the parts of a training step for `step`."""

import os
import time

import tensorflow as tf

REPEATS = 5


def parts(model, dataset, whole):
    """Returns `(part, CPU seconds, seconds)` of each part, and of a whole step as it was measured.

    Each part is measured alone, with all cores. The time of the backward pass, the loss and the statistics is the
    difference between a function with and without them.
    """
    images, targets = next(iter(dataset))
    batch = targets if isinstance(targets, dict) else {"label": targets}
    variables, zeros = model.learning_variables(), [tf.zeros_like(each) for each in model.learning_variables()]

    def forward():
        return tf.reduce_sum(model(images, training=True, merged=False))

    def backward(loss_of):
        with tf.GradientTape() as tape:
            loss = loss_of(model(images, training=True, merged=False))
        found = tape.gradient(loss, variables)
        return loss + tf.add_n([tf.reduce_sum(each) for each in found if each is not None])

    def with_loss():
        return backward(lambda learners: tf.reduce_mean(model.loss_values(batch, learners, True)))

    def optimizer():
        model.apply_gradients(batch, zeros)
        return model.optimizer.iterations + 0

    functions = {
        "forward": forward,
        "backward": lambda: backward(tf.reduce_sum),
        "loss": with_loss,
        "step": lambda: model.train_step((images, targets))["loss"],
        "optimizer": optimizer,
    }
    took = {name: measured(tf.function(each, autograph=False)) for name, each in functions.items()}
    took["input"] = measured_input(dataset)
    rows = {
        "input": took["input"],
        "forward": took["forward"],
        "backward": less(took["backward"], took["forward"]),
        "loss": less(took["loss"], took["backward"]),
        "statistics": less(less(took["step"], took["loss"]), took["optimizer"]),
        "optimizer": took["optimizer"],
        "the rest of a step": less(whole, [took["step"][0] + took["input"][0], took["step"][1]]),
        "step": whole,
        "idle cores": (os.cpu_count() * whole[1] - whole[0], whole[1] - whole[0] / os.cpu_count()),
    }
    return [(part, *(max(each, 0.0) for each in took)) for part, took in rows.items()]


def less(one, other):
    return [here - there for here, there in zip(one, other, strict=True)]


def measured(function):
    """Returns the minimum `(CPU seconds, seconds)` of several calls."""
    function()
    found = []
    for _ in range(REPEATS):
        began = time.process_time(), time.perf_counter()
        tf.nest.map_structure(lambda each: each.numpy(), function())
        found.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return [min(each) for each in zip(*found, strict=True)]


def measured_input(dataset):
    """Returns `(CPU seconds, seconds)` per batch."""
    batches = iter(dataset.repeat())
    next(batches)
    began = time.process_time(), time.perf_counter()
    for _ in range(REPEATS * 2):
        next(batches)
    return [
        (now - then) / (2 * REPEATS)
        for now, then in zip((time.process_time(), time.perf_counter()), began, strict=True)
    ]
