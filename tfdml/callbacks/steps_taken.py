"""The steps that a model is trained for."""


def steps_taken(model):
    """Returns the optimizer's `iterations` as an integer.

    `int(model.optimizer.iterations)` is an error if the model was compiled under a MirroredStrategy.
    """
    return int(model.optimizer.iterations.numpy())


def check_single_steps(model, why):
    """Raises a ValueError if the model executes several steps at once.

    Args:
        model: compiled Keras model.
        why: what needs single steps, the beginning of a sentence.
    """
    if model.steps_per_execution != 1:
        raise ValueError(
            f"{why}, and steps_per_execution={model.steps_per_execution} executes several at once. Leave it out."
        )
