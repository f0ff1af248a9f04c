"""The layer with the variables of a loss."""


def layer_of(loss):
    """Returns the layer with a loss's variables, or None if it has no variables, as losses of Keras."""
    make = getattr(loss, "make_layer", None)
    return make() if make else None
