"""Registers components by name and creates them from specs, which `tfdml.registry.specs` defines."""

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from typing import TypeVar

from tfdml.registry.arguments import nearest, same
from tfdml.registry.fields import VARIADIC, declare_part
from tfdml.registry.specs import FIRST, of_spec, parse, parse_sum, written


def import_modules(modules):
    """Imports the user's modules from `--import_modules`, which register their own components."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            where = " Python looks for modules in the working directory and in PYTHONPATH."
            raise ImportError(
                f"The module {module} of import_modules cannot be imported: {type(error).__name__}: {error}."
                f"{where if isinstance(error, ModuleNotFoundError) else ''}"
            ) from error


@functools.cache
def import_room(name):
    """Imports a package with all its modules, or a single module, so that a new file need not be listed anywhere."""
    room = importlib.import_module(name)
    for module in pkgutil.iter_modules(room.__spec__.submodule_search_locations or ()):
        importlib.import_module(f"{name}.{module.name}")


# The package or module of each kind. Importing its modules registers their components.
ROOMS = {
    "dataset": "pipelines.datasets",
    "sampler": "pipelines.sampling",
    "labels": "pipelines.sampling",
    "transform": "pipelines.transforms",
    "protocol": "tfdml.evaluation.protocols",
    "metric": "tfdml.evaluation.metrics",
    "reranking": "tfdml.evaluation.rerankings",
    "index": "tfdml.evaluation.indexes",
    "backbone": "tfdml.backbones",
    "head": "tfdml.heads",
    "text_tower": "tfdml.texts",
    "method": "tfdml.methods",
    "loss": "tfdml.losses",
    "miner": "tfdml.losses.miners",
    "distance": "tfdml.losses.distances",
    "memory": "tfdml.methods.memories",
    "optimizer": "tfdml.optimizers",
    "schedule": "tfdml.optimizers.schedules",
    "picture": "tfdml.reporting.pictures",
    "store": "tfdml.serving.index.stores",
}

Thing = TypeVar("Thing")

_registered = {}
# Kind to the function that combines the terms of a weighted sum into one object.
_sums = {}
# Kind to the function that returns the spec that a short form probably stands for.
_short_forms = {}


def register(kind: str, name: str, /) -> Callable[[Thing], Thing]:
    """Decorator that registers a class or function by name, so that specs can use it.

    If it has a `get_config`, the decorator also registers it with Keras for saving. Each call, from a spec or in
    Python, checks its arguments against their annotations; see `tfdml.registry.fields`.

    Args:
        kind: a key of `ROOMS`, such as `"loss"`.
        name: its name in specs.

    Example:

    ```python
    @tfdml.registry.register("loss", "length")
    class Length(tfdml.losses.EmbeddingLoss):
        margin: tfdml.registry.NotNegative = 1.0

        def call(self, labels, embeddings):
            return ops.maximum(ops.norm(embeddings, axis=1) - self.margin, 0.0)

    tfdml.registry.create("loss", "length(margin=0.5)").margin  # 0.5
    ```
    """

    def decorate(thing: Thing) -> Thing:
        thing = declare_part(thing, f"The {kind} {name!r}")
        # The `name` of metrics and indexes is None until they are registered.
        if getattr(thing, "name", name) is None:
            thing.name = name
        things = _registered.setdefault(_known(kind), {})
        other = things.get(name)
        if other is not None and (other.__module__, other.__qualname__) != (thing.__module__, thing.__qualname__):
            raise ValueError(
                f"The {kind} name {name!r} is already used by {other.__module__}.{other.__qualname__}. Register "
                f"{thing.__module__}.{thing.__qualname__} with another name."
            )
        things[name] = thing
        # Only objects with a configuration are saved.
        if hasattr(thing, "get_config"):
            # Imported here, because commands read names before they import Keras.
            import keras.saving

            keras.saving.register_keras_serializable(package="tfdml")(thing)
        return thing

    return decorate


def register_sum(kind):
    """Decorator for a function that combines the terms of a weighted sum, `[(weight, object), ...]`, into an object."""

    def decorate(thing):
        _sums[kind] = thing
        return thing

    return decorate


def register_short_form(kind):
    """Decorator for a function that returns the spec that a short form probably stands for, or an empty string.

    Errors show its result after "Did you mean". It is a spec in double quotes, such as `"adam(learning_rate=0.001)"`
    for `0.001`.
    """

    def decorate(meant):
        _short_forms[kind] = meant
        return meant

    return decorate


def create(kind, spec, /, **offers):
    """Creates the object that `spec` describes.

    Args:
        kind: a key of `ROOMS`.
        spec: string, `name` or `name(argument=literal, ...)`. For losses, it can be a weighted sum,
            `name + weight * name(argument=literal, ...)`.
        **offers: arguments that the caller supplies. Each is passed only if the named class or function has this
            argument and `spec` does not set it. See `check_effect` for arguments that must have an effect.
    """
    with of_spec(spec):
        _check_short_form(kind, spec)
        if kind in _sums and (terms := parse_sum(spec)):
            return _sums[kind]([(weight, _create(kind, *step, offers)) for weight, step in terms])
        steps = parse(spec)
        if len(steps) != 1:
            hint = " Write a sum with +." if kind in _sums else ""
            raise ValueError(f"Expected one {kind}. Received: a chain of {len(steps)}, {spec!r}.{hint}")
        return _create(kind, *steps[0], offers)


def check_effect(kind, spec, argument, value, source):
    """Raises a ValueError if an argument that is offered to `create` has no effect.

    Args:
        kind, spec: see `create`.
        argument, value: the offered argument and its value.
        source: what sets the argument, such as `--embedding_size`.
    """
    with of_spec(spec):
        name, arguments = parsed(kind, spec)
        parameters = parameters_of(_thing(kind, name))
        if argument not in parameters:
            raise ValueError(
                f"The {kind} {name!r} has no argument {argument!r}, which {source} sets. "
                f"Its arguments: {', '.join(parameters) or 'none'}."
            )
        if arguments.get(argument, value) != value:
            raise ValueError(
                f"The spec of the {kind} {name!r} sets {argument}={arguments[argument]!r}, and {source} sets "
                f"{value!r}. Set only {source}."
            )


def _check_short_form(kind, spec):
    """Raises a ValueError if a text is a short form of a spec, or a name in a paper's spelling, such as Market-1501."""
    things = registered(kind)
    if not isinstance(spec, str) or spec.partition("(")[0].strip() in things:
        return
    meant = _short_forms[kind](spec.strip()) if kind in _short_forms else ""
    # For names that Python can parse, the error about an unknown name makes a suggestion later.
    if not meant and re.fullmatch(r"[\w -]*[ -][\w -]*", spec.strip()):
        name = same(spec, things)
        meant = repr(name) if name else ""
    if meant:
        raise ValueError(f"{spec!r} is not a {kind} spec. Did you mean {meant}?")


def create_chain(kind, spec, **offers):
    """Creates a list of objects from a chain, `first(...)|second(...)`. See `create`."""
    with of_spec(spec):
        return [_create(kind, name, arguments, offers) for name, arguments in parse(spec)]


def parsed(kind, spec):
    """Returns the name and the arguments, `{argument: value}`, of the first component in a spec."""
    with of_spec(spec):
        _check_short_form(kind, spec)
        return parse(spec)[0]


def takes(kind, spec, argument):
    """Whether the class or function that a spec names has an argument."""
    with of_spec(spec):
        return argument in parameters_of(_thing(kind, parsed(kind, spec)[0]))


def names(kind):
    """Returns the registered names of a kind, sorted."""
    return sorted(registered(kind))


def summaries(kind):
    """Returns `{name: first line of the docstring}` of a kind, sorted by name."""
    return {name: (inspect.getdoc(registered(kind)[name]) or "").split("\n")[0] for name in names(kind)}


def describe(kind):
    """Returns one line per name of a kind, with its arguments, their defaults and the first line of its docstring."""
    lines = []
    for name, summary in summaries(kind).items():
        parameters = [each.replace(annotation=each.empty) for each in parameters_of(registered(kind)[name]).values()]
        lines.append(f"{name}({', '.join(map(str, parameters))}): {summary}")
    return lines


def _create(kind, name, arguments, offers):
    thing = _thing(kind, name)
    first = [each.name for each in inspect.signature(thing).parameters.values() if each.kind is each.POSITIONAL_ONLY]
    if first:
        if FIRST not in arguments:
            raise ValueError(
                f"The first argument of the {kind} {name!r} must be its {first[0]}, without a name. Write "
                f"{name}('...', argument=value)."
            )
        return thing(arguments[FIRST], **{key: value for key, value in arguments.items() if key != FIRST})
    if FIRST in arguments:
        received = written(name, arguments)
        raise ValueError(f"Arguments need names. Write {name}(argument=value). Received: {received!r}.")
    parameters = parameters_of(thing)
    for argument in arguments:
        if argument not in parameters:
            raise ValueError(
                f"The {kind} {name!r} has no argument {argument!r}.{nearest(argument, parameters)} "
                f"Its arguments: {', '.join(parameters) or 'none'}."
            )
    every = {**{key: value for key, value in offers.items() if key in parameters}, **arguments}
    missing = [key for key, value in parameters.items() if value.default is value.empty and key not in every]
    if missing:
        raise ValueError(f"The {kind} {name!r} requires {', '.join(missing)}. Write {name}({missing[0]}=...).")
    try:
        return thing(**every)
    except TypeError as error:
        raise ValueError(f"Cannot create the {kind} {name!r} from {arguments}. {str(error).rstrip('.')}.") from error


def _thing(kind, name):
    things = registered(kind)
    if name not in things:
        raise ValueError(f"Unknown {kind} {name!r}.{nearest(name, things)} Known: {', '.join(sorted(things))}.")
    return things[name]


def registered(kind):
    """Returns `{name: class or function}` of a kind."""
    import_room(ROOMS[_known(kind)])
    return _registered[kind]


def _known(kind):
    if kind not in ROOMS:
        raise ValueError(f"Unknown kind {kind!r}.{nearest(kind, ROOMS)} Known: {', '.join(ROOMS)}.")
    return kind


def parameters_of(thing):
    """Returns a dictionary of the parameters of a class or function, without `*args` and `**kwargs`."""
    parameters = inspect.signature(thing).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind not in VARIADIC}
