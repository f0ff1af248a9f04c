"""Explicit gradients, for functions where automatic differentiation would take more passes over the data."""

from collections.abc import Callable

from keras import ops

from tfdml.registry.arguments import Tensor


def known_gradient(
    function: Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]],
) -> Callable[[Tensor], Tensor]:
    """Decorates a `function(tensor)` that returns a value, and a function from the value's gradient to the tensor's.

    It is Keras' `custom_gradient` for functions of one tensor, on every backend. The gradient can use intermediate
    results of the function, and is itself differentiable for derivatives of second order.
    """

    @ops.custom_gradient
    def differentiable(tensor):
        value, gradient = function(tensor)

        def of_this_backend(*arguments, upstream=None):
            # PyTorch also passes the tensor, and passes by position what the others pass by name.
            return gradient(arguments[0] if upstream is None else upstream)

        return value, of_this_backend

    return differentiable
