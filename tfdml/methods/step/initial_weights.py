"""The penalty on the distance of a backbone's weights to their initial values."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32


class InitialWeights:
    """Initial values of the trainable weights of a model's backbones; see `tfdml.losses.TowardInitial`.

    They are part of the training, not of the model, so the files of models do not contain them. The checkpoints of a
    run contain the `variables`, so that a resumed run has the same penalty even if the file of the weights has changed.
    """

    def __init__(self, factor):
        self.factor = factor
        self.variables, self._weights = [], []
        self._has_begun = False

    def get_state(self):
        """Returns an empty state, because checkpoints save the variables."""
        return {}

    def set_state(self, state):
        """Keeps the variables, because checkpoints restore them."""
        self._has_begun = True

    def make(self, model):
        """Copies the trainable weights of the model's backbones, which exist now."""
        found = {id(each): each for backbone in model.backbones() for each in backbone.trainable_variables}
        self._weights = list(found.values())
        if not self._weights:
            raise ValueError(
                "toward_initial(of='weights') keeps the weights of a backbone near their initial values, but "
                f"{model.name} has no trainable backbone. Remove it."
            )
        self.variables = [_copy(each) for each in self._weights]

    def begin(self):
        """Copies the weights again when the training starts. `keras.saving.load_model` loads them after it compiles."""
        if not self._has_begun:
            for weight, variable in zip(self._weights, self.variables, strict=True):
                variable.assign(ops.copy(ops.convert_to_tensor(weight)))
        self._has_begun = True

    def penalty(self):
        """Returns the squared distance of all weights together to their initial values, times the factor."""
        apart = [
            ops.subtract(*map(ops.convert_to_tensor, each)) for each in zip(self._weights, self.variables, strict=True)
        ]
        return self.factor * sum(ops.sum(ops.square(at_least_float32(each))) for each in apart)


def _copy(weight):
    return keras.Variable(
        # A value would be an error while a graph is traced. On JAX, steps delete the arrays of variables.
        lambda shape, dtype: ops.copy(ops.convert_to_tensor(weight)),
        shape=weight.shape,
        dtype=weight.dtype,
        trainable=False,
        autocast=False,
        # All replicas have the same initial weights.
        aggregation="only_first_replica",
        name=f"{weight.path.replace('/', '_')}_initial",
    )
