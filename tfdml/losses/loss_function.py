"""The function of a loss."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, overload

from keras import ops

from tfdml.losses.embedding_loss import QUERIES, EmbeddingLoss
from tfdml.registry.arguments import or_tensor
from tfdml.registry.fields import declared

Arguments = ParamSpec("Arguments")
NAMED, IN_ORDER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


class _TakesQueries(Protocol):
    def call(self, labels: Any, embeddings: Any, queries: Any = None) -> Any: ...


class _WithQueries(Protocol[Arguments]):
    """The function of a loss that may have fewer anchors than rows."""

    def __call__(
        self,
        labels: Any,
        embeddings: Any,
        queries: int | None = None,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Any: ...


@overload
def function_of(
    loss: Callable[Arguments, _TakesQueries], name: str, *, mean: bool = False
) -> _WithQueries[Arguments]: ...


@overload
def function_of(
    loss: Callable[Arguments, EmbeddingLoss], name: str, *, mean: bool = False
) -> Callable[Concatenate[Any, Any, Arguments], Any]: ...


def function_of(loss, name, *, mean=False):
    """The values of a loss as a function of the tensors that its `call` takes, and of the same arguments.

    Arguments after `_: KW_ONLY` are those of the class alone. The function also takes tensors and variables for its
    arguments. After `queries` they need their names.

    Example: `triplet_loss = function_of(Triplet, "triplet_loss")`.

    Args:
        loss: the class.
        name: of the function.
        mean: whether it returns the mean over anchors instead of each anchor's value.
    """
    _, *tensors = inspect.signature(loss.call).parameters.values()
    kind = NAMED if QUERIES in [each.name for each in tensors] else IN_ORDER
    own = {each: field.default for each, field in loss.fields.items() if not field.keyword_only}
    kinds = {each: Annotated[Any, or_tensor(loss.fields[each].expected)] for each in own}
    more = [inspect.Parameter(each, kind, default=own[each], annotation=kinds[each]) for each in own]
    signature = inspect.Signature([*tensors, *more])

    def function(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        made = _bare(loss, {each: given.pop(each, default) for each, default in own.items()})
        values = made.call(**given)
        return ops.mean(values) if mean else values

    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__, function.__signature__ = loss.__module__, loss.__doc__, signature
    checked = declared(function)
    # Without the annotations that check.
    checked.__signature__ = signature.replace(
        parameters=[each.replace(annotation=each.empty) for each in signature.parameters.values()]
    )
    return checked


def _bare(loss, given):
    """A loss with these arguments, and nothing of Keras: arguments may be tensors, and a step may make it."""
    made = loss.__new__(loss)
    for name, field in loss.fields.items():
        if not field.of_keras:
            setattr(made, name, given.get(name, field.default))
    return made
