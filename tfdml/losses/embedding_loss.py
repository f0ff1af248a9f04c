"""Base of all losses on embeddings."""

import inspect
import warnings

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import check_classes, check_pairs_input, concrete, nan_with
from tfdml.functional.pairs import batch_ids
from tfdml.losses.argument_docs import with_arguments
from tfdml.registry.argument_checks import expected_of, expects, refuse_unknown
from tfdml.registry.loss_hooks import LossHooks

# What a function calls the number of anchors; no argument of a loss.
QUERIES = "queries"


class EmbeddingLoss(LossHooks, keras.losses.Loss):
    """Base of losses on `(labels [B], embeddings [B, d])` with one value for each anchor, `[B]`.

    Works in `keras.Model.compile(loss=...)`. Integer labels of any size are kept apart; values are computed in
    float32 whatever the policy.

    A loss names its function:

    ```python
    class Triplet(EmbeddingLoss):
        function = staticmethod(triplet_loss)
    ```

    The function's keyword arguments are then arguments and attributes of the class, with the same defaults,
    descriptions and checks, and `get_config` returns them. An argument that only the class takes is an attribute with
    a type, as in a dataclass, such as `classes: int | None = None`. The signature lists the function's arguments, then
    those of the class, then those of its base classes. A class that defines or inherits an `__init__` of its own
    keeps it, and sets the attributes itself.

    Args:
        reduction: Keras' reduction of the `[B]` values.
        name: name of the loss.
        dtype: precision of the values, float32 or float64.
    """

    # The pure function of the loss.
    function = None
    # Arguments that come before all others, in this order.
    first_arguments = ()
    # Hooks are those of `LossHooks`; a loss on embeddings learns from their pairs.
    needs_pairs = True
    # Whether labels only say which rows are of one class, so that each batch may number the classes anew.
    numbers_anew = True

    # Names of the function's arguments, of those that only the class takes, and of both in their order.
    _of_function, _of_class, _arguments = (), (), ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        typed = inspect.get_annotations(cls)
        if typed or "function" in vars(cls):
            _take_arguments(cls, typed)

    def __init__(self, *, reduction="sum_over_batch_size", name=None, dtype="float32"):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        # Keras casts labels to it, too: half precision would make one of several classes of a large batch.
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"Losses are computed in float32 or float64, received {dtype!r}.")

    def __call__(self, labels, embeddings, sample_weight=None):
        labels, embeddings = self.check_input(labels, embeddings)
        check_classes(labels, self.label_classes(embeddings), type(self).__name__)
        if self.needs_pairs and self.batch_parts == 1:
            _warn_of_missing_pairs(type(self).__name__, labels)
        numbers = batch_ids(labels) if self.numbers_anew else labels
        return nan_with(super().__call__(numbers, embeddings, sample_weight=sample_weight), embeddings, labels)

    def call(self, labels, embeddings, queries=None):
        """The loss `[B]` of each row; with `queries`, of so many rows, the first, compared with all, see `pairs`."""
        if self.function is None:
            raise NotImplementedError(f"{type(self).__name__} has neither a function nor a call of its own.")
        compared = () if queries is None else (queries,)
        return type(self).function(labels, embeddings, *compared, **self.function_arguments())

    @property
    def refuses_memory(self):
        """None if the function takes `queries`, and the batch no pairs of the sampler; see `LossHooks`."""
        if self.batch_parts > 1:
            return "its pairs are those that the sampler draws"
        takes = self.function is not None and QUERIES in inspect.signature(self.function).parameters
        return None if takes else "it compares more than each anchor with the other rows"

    def function_arguments(self):
        """The keyword arguments with which `call` calls the function."""
        return {name: getattr(self, name) for name in self._of_function}

    def check_arguments(self):
        """Raises a ValueError where arguments do not fit together; each of them is checked before."""

    def warn_of_unused(self, names, given):
        """Warns of arguments of the function that are set, but have no effect with the others that are given."""
        defaults = _keyword_arguments(self.function)
        for name in names:
            if getattr(self, name) != defaults[name]:
                unused = f"{name}={getattr(self, name)!r} has no effect with {given}={getattr(self, given)!r}"
                warnings.warn(f"{type(self).__name__}: {unused}.", stacklevel=2)

    def label_classes(self, embeddings):
        """The number of classes, labels being their numbers, for what `call` takes as embeddings; None: any number."""

    def check_input(self, labels, embeddings):
        """Returns both as `call` computes with them, or raises a ValueError; a loss may take other than embeddings."""
        return check_pairs_input(labels, embeddings)

    def statistics(self, labels, embeddings):
        """`active_anchors`, the fraction of anchors whose loss is not 0; see `LossHooks.statistics`.

        A loss that mines says what, see `tfdml.functional.pair_statistics`.
        """
        return {"active_anchors": ops.mean(ops.cast(self.call(labels, embeddings) > 0, "float32"))}

    def get_config(self):
        own = {name: getattr(self, name) for name in self._arguments}
        return {**super().get_config(), "dtype": self.dtype, **own}


# Arguments of every loss.
COMMON = tuple(inspect.signature(EmbeddingLoss).parameters)


def _warn_of_missing_pairs(name, labels):
    """Warns of labels that leave a loss on pairs nothing to compare; not in a compiled function, which knows none."""
    known = concrete(labels)
    classes = 0 if known is None else len(np.unique(known))
    if classes and classes in (1, len(known)):
        which, missing = ("equal", "negative") if classes == 1 else ("different", "positive")
        warnings.warn(
            f"All labels of the batch are {which}, so {name} has no {missing} pair to learn from. Batches of "
            "tfdml.data.pxk have several images of each of several classes.",
            stacklevel=3,
        )


def _take_arguments(cls, typed):
    """Makes arguments of the class of those of its function and of its attributes with a type."""
    of_function = _keyword_arguments(cls.function)
    cls._of_function = tuple(of_function)
    cls._of_class = tuple(dict.fromkeys((*typed, *cls._of_class)))
    defaults = {**{name: getattr(cls, name, inspect.Parameter.empty) for name in cls._of_class}, **of_function}
    cls._arguments = tuple(dict.fromkeys((*cls.first_arguments, *cls._of_function, *cls._of_class)))
    docstrings = [cls.__doc__, cls.function.__doc__ if cls.function else None]
    docstrings += [base.__doc__ for base in cls.__mro__[1:] if issubclass(base, EmbeddingLoss)]
    cls.__doc__ = with_arguments((*cls._arguments, *COMMON), *docstrings)
    if cls.__init__ is EmbeddingLoss.__init__ or hasattr(cls.__init__, "sets_arguments"):
        # The class has only the declarations of its base so far.
        declared = {**expected_of(cls), **expected_of(cls.function)}
        cls.__init__ = _init(cls, {name: defaults[name] for name in cls._arguments})
        expects(**{name: expected for name, expected in declared.items() if name in cls._arguments})(cls)


def _keyword_arguments(function):
    """Argument to default of what a function takes besides tensors."""
    parameters = inspect.signature(function).parameters.values() if function else ()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
        or (parameter.default is not parameter.empty and parameter.name != QUERIES)
    }


def _init(cls, defaults):
    """An `__init__` of the class with these arguments, which it sets as attributes."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
    parameters.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    signature = inspect.Signature(parameters)
    known = (*defaults, *COMMON)

    def __init__(self, *args, **kwargs):
        refuse_unknown(type(self).__name__, kwargs, known)
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}. Its arguments: {', '.join(known)}.") from None
        given.apply_defaults()
        EmbeddingLoss.__init__(self, **given.arguments.pop("kwargs"))
        for name, value in given.arguments.items():
            setattr(self, name, value)
        self.check_arguments()

    __init__.sets_arguments = True
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__signature__ = signature.replace(parameters=[inspect.Parameter("self", kind), *parameters])
    return __init__
