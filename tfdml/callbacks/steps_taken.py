"""The number of steps that a model was trained for."""


def steps_taken(model):
    """Returns the optimizer's `iterations` as an integer.

    `int(model.optimizer.iterations)` is an error if the model was compiled under a MirroredStrategy.
    """
    return int(model.optimizer.iterations.numpy())
