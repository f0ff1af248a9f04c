"""How many steps a model was trained for."""


def steps_taken(model):
    """The optimizer's count of its updates, as an integer.

    `int(model.optimizer.iterations)` is an error where the model was compiled under a MirroredStrategy.
    """
    return int(model.optimizer.iterations.numpy())
