"""Freezes variables for single steps, whatever the optimizer does."""

import tensorflow as tf

from tfdml.optimizers.optimizers import without_loss_scaling
from tfdml.runtime.keras_internals import trained_variables


def with_optimizer_state(optimizer, variables):
    """Each variable with what the optimizer keeps for it: `[[variable, momentum, ...], ...]`."""
    optimizer = without_loss_scaling(optimizer)
    prefixes = {id(variable): variable.path.replace("/", "_") + "_" for variable in trained_variables(optimizer)}
    groups = {id(variable): [variable] for variable in variables}
    for kept in optimizer.variables:
        # Keras names it after its variable; of names that begin alike the longest is the one.
        owners = [place for place, prefix in prefixes.items() if kept.name.startswith(prefix)]
        owner = max(owners, key=lambda place: len(prefixes[place]), default=None)
        if owner in groups and kept.shape == groups[owner][0].shape:
            groups[owner].append(kept)
    return list(groups.values())


def forget(optimizer, variables):
    """Zeroes what the optimizer keeps for variables, as if they were new."""
    for _, *kept in with_optimizer_state(optimizer, variables):
        for variable in kept:
            variable.assign(tf.zeros_like(variable))


class Frozen:
    """Restores variables, and what the optimizer keeps for them, after a step that must not change them.

    Make it before the optimizer's step, and call `restore` after it.

    Args:
        optimizer: Keras optimizer, built.
        learning: variables with a mask each, `[(variable, mask), ...]`: True where it is to learn in this step.
    """

    def __init__(self, optimizer, learning):
        groups = with_optimizer_state(optimizer, [variable for variable, _ in learning])
        self._before = [
            (kept.value, tf.identity(tf.convert_to_tensor(kept.value)), mask)
            for group, (_, mask) in zip(groups, learning, strict=True)
            for kept in group
        ]

    def restore(self):
        """Gives every variable its value from before where its mask is False."""
        variables, before, masks = zip(*self._before, strict=True)

        def put_back(strategy, before, masks):
            for variable, value, mask in zip(variables, before, masks, strict=True):
                strategy.extended.update(variable, _put_back, args=(value, mask), group=False)

        # Every replica holds the same, so each of them puts back its own.
        tf.distribute.get_replica_context().merge_call(put_back, args=(before, masks))


def _put_back(variable, before, mask):
    return variable.assign(tf.where(mask, variable, before))
