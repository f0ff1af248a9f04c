"""Gradients that are written out, because automatic differentiation would take more passes over the same numbers."""

from keras import ops


def known_gradient(function):
    """Decorates `function(tensor)`, which gives a value and its gradient as a function of the value's own gradient.

    Keras' `custom_gradient` for functions of one tensor, on every backend. What the function makes on its way to the
    value can be used for the gradient, and is differentiated again for derivatives of second order.
    """

    @ops.custom_gradient
    def differentiable(tensor):
        value, gradient = function(tensor)

        def of_this_backend(*arguments, upstream=None):
            # PyTorch passes the tensor, and what the others pass by name.
            return gradient(arguments[0] if upstream is None else upstream)

        return value, of_this_backend

    return differentiable
