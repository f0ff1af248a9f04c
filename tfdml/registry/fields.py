"""Arguments declared by annotations, in the body of a class or in the signature of a function.

Both are read in the same way: an annotation specifies which values are valid, see
`tfdml.registry.arguments.expected_by`. If it allows any value, the type of the default decides. A default of None
allows None.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, Unpack, dataclass_transform, get_args, get_origin

from tfdml.registry.arguments import (
    REFUSED,
    Expected,
    boolean,
    expected_by,
    integer,
    nearest,
    number,
    optional,
    several,
    text,
)

# Marks an argument of the Keras base class: `Annotated[float, number(above=0), OF_KERAS]`. Without an `Expected` in the
# annotation, only Keras checks the argument, and specs do not have it.
OF_KERAS = "of Keras"
REQUIRED = inspect.Parameter.empty
NAMED, IN_ORDER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
ONLY_IN_ORDER = inspect.Parameter.POSITIONAL_ONLY
VARIADIC = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
LONGEST_VALUE = 80

Function = TypeVar("Function", bound=Callable)

if TYPE_CHECKING:

    class OfKeras:
        """What type checkers see instead of Keras' layers and optimizers.

        Keras chooses their base classes at run time. For a class with unknown bases, a type checker would accept any
        argument.
        """

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Field:
    """An argument of a class or function.

    Args:
        expected: which values are valid, or None for any value.
        default: the default, or `REQUIRED`.
        keyword_only: whether it comes after `_: KW_ONLY`.
        of_keras: whether it is an argument of the Keras base class.
    """

    expected: Expected | None
    default: Any
    keyword_only: bool = False
    of_keras: bool = False

    @classmethod
    def of(cls, kind, default, keyword_only=False):
        """Returns the field of an annotation, or `REQUIRED` for a missing annotation, and a default."""
        if get_origin(kind) is Annotated and OF_KERAS in kind.__metadata__:
            has_rule = any(isinstance(rule, Expected) for rule in kind.__metadata__)
            return cls(expected_by(kind) if has_rule else None, default, keyword_only, of_keras=True)
        # A text as the default also excludes an empty text.
        expected = (kind is str and _like(default)) or expected_by(kind) or _like(default)
        if expected and default is None and not _takes_none(expected):
            expected = optional(expected)
        return cls(expected, default, keyword_only)

    @property
    def is_shown(self):
        """Whether signatures and specs include the argument."""
        return self.expected is not None or not self.of_keras


@dataclass_transform()
class Declared:
    """Base of classes with arguments that are annotated attributes, as in a dataclass.

    ```python
    class Circle(Declared):
        margin: Annotated[float, number(at_least=-1, at_most=1)] = 0.4
        form: Literal["smooth", "hard"] = "smooth"
    ```

    The annotation of an argument determines which values are valid. A valid value becomes an attribute of the object.
    Fields after `_: KW_ONLY` come last, and the nearest class comes first among them. A default is not stored as a
    class attribute, because it could hide a property of a base class.

    If a class defines `__init__`, the parameters of `__init__` are its arguments. They are checked in the same way, but
    the class sets its attributes itself.
    """

    # All arguments in order, including arguments of the base classes.
    fields: ClassVar[Mapping[str, Field]] = MappingProxyType({})
    # Whether the arguments are annotated attributes instead of parameters of an `__init__`.
    takes_fields: ClassVar[bool] = True
    # Name of the class in errors.
    owner: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.owner = cls.__qualname__
        cls.takes_fields = cls.takes_fields and "__init__" not in vars(cls)
        new = _fields_of(cls)
        # If a class changes the default of a Keras argument, Keras still receives the argument.
        for name in new.keys() & {name for name, field in cls.fields.items() if field.of_keras}:
            new[name] = replace(new[name], of_keras=True)
        # An argument that a class declares again, before `_: KW_ONLY`, is in the order of that class.
        again = {name for name, field in new.items() if not field.keyword_only and name in cls.fields}
        kept = {name: field for name, field in cls.fields.items() if name not in again or not field.keyword_only}
        every = {**kept, **new}
        last = {name: every[name] for name in {**new, **every} if every[name].keyword_only}
        cls.fields = {**{name: field for name, field in every.items() if name not in last}, **last}
        if cls.takes_fields:
            cls.__init__ = _init_of(cls)
        elif "__init__" in vars(cls):
            _declare_init(cls, lambda made: _owner(made, cls))

    def check_arguments(self) -> None:
        """Raises a ValueError if arguments do not fit together. Each argument has been checked by itself before."""

    def own_config(self) -> dict[str, Any]:
        """Returns the values of all arguments except the arguments of the Keras base class."""
        return {name: getattr(self, name) for name, field in self.fields.items() if not field.of_keras}


def declared(function: Function) -> Function:
    """Decorator for a function or method that checks the arguments of each call against their annotations."""
    return _checking(function, evaluated(inspect.signature, function), lambda *_: function.__qualname__)


def declare_part(thing, owner):
    """Returns a class or function that checks the arguments of each call. Errors call it `owner`."""
    if not isinstance(thing, type):
        return _checking(thing, evaluated(inspect.signature, thing), lambda *_: owner)
    if issubclass(thing, Declared):
        thing.owner = owner
    else:
        _declare_init(thing, lambda _: owner)
    return thing


def _declare_init(cls, owner_of):
    """Makes the `__init__` of a class check the arguments in its signature."""
    signature = evaluated(inspect.signature, cls)
    signature = signature.replace(parameters=[inspect.Parameter("self", ONLY_IN_ORDER), *signature.parameters.values()])
    cls.__init__ = _checking(cls.__init__, signature, owner_of)


def refuse_unknown(owner, names, arguments):
    """Raises a TypeError about the first of some names that is not an argument of `owner`."""
    for name in names:
        if name not in arguments:
            listed = ", ".join(arguments) or "none"
            raise TypeError(f"{owner} has no argument {name!r}.{nearest(name, arguments)} Its arguments: {listed}.")


def checked(owner, name, value, expected):
    """Returns the converted value, or raises a ValueError about the argument of `owner`."""
    try:
        return expected.read(value) if expected else value
    except REFUSED:
        received = repr(value)
        if len(received) > LONGEST_VALUE:
            received = f"{received[: LONGEST_VALUE - 3]}..."
        raise ValueError(f"{owner} expects {name} to be {expected.words}. Received: {name}={received}.") from None


def evaluated(read, thing):
    """Returns what `inspect.signature` or `get_annotations` reads, with evaluated annotations if all can be."""
    try:
        return read(thing, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        # Annotations may use names that only type checkers import, or may be plain text.
        return read(thing)


def _checking(function, signature, owner_of):
    """Wraps a function or an `__init__`, which passes its object to `owner_of`."""
    fields = {
        name: Field.of(parameter.annotation, parameter.default, parameter.kind is NAMED)
        for name, parameter in signature.parameters.items()
        if parameter.kind not in VARIADIC and name != "self"
    }
    signature = _closed(signature)
    arguments = [name for name in signature.parameters if name != "self"]

    @functools.wraps(function)
    def checking(*args, **kwargs):
        owner = owner_of(*args[:1])
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            refuse_unknown(owner, kwargs, arguments)
            # Python's own error names the missing argument.
            return function(*args, **kwargs)
        for name in [name for name in bound.arguments if name in fields]:
            bound.arguments[name] = checked(owner, name, bound.arguments[name], fields[name].expected)
        return function(*bound.args, **bound.kwargs)

    # Keras reads the arguments of a layer without following the wrapper.
    checking.__signature__ = inspect.signature(function)
    checking.fields = fields
    return checking


def _init_of(cls):
    # In Python, fields may be passed by position, except for Keras' own and keyword-only fields without a default.
    parameters = []
    for name, field in cls.fields.items():
        named = not field.is_shown or (field.keyword_only and field.default is REQUIRED)
        parameters.append(inspect.Parameter(name, NAMED if named else IN_ORDER, default=field.default))
    parameters.sort(key=lambda parameter: parameter.kind)
    signature = inspect.Signature(parameters)
    handed_on = [name for name, field in cls.fields.items() if field.of_keras]
    shown = [parameter for parameter in parameters if cls.fields[parameter.name].is_shown]
    more = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)] if len(shown) < len(parameters) else []

    def __init__(self, *args, **kwargs):
        owner = _owner(self, cls)
        refuse_unknown(cls.__name__ if handed_on else owner, kwargs, cls.fields)
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}. Its arguments: {', '.join(cls.fields) or 'none'}.") from None
        values = {name: field.default for name, field in cls.fields.items()}
        values |= {name: checked(owner, name, value, cls.fields[name].expected) for name, value in bound.items()}
        super(Declared, self).__init__(**{name: values.pop(name) for name in handed_on})
        for name, value in values.items():
            setattr(self, name, value)
        # If a subclass defines `__init__`, it may set the attributes that this reads only later.
        if values or cls is type(self):
            self.check_arguments()

    __init__.fields = cls.fields
    __init__.__signature__ = inspect.Signature([inspect.Parameter("self", IN_ORDER), *shown, *more])
    return __init__


def _fields_of(cls):
    """Returns the fields that a class declares itself, and removes their defaults from the class."""
    fields, keyword_only = {}, False
    for name, kind in evaluated(inspect.get_annotations, cls).items():
        if kind is KW_ONLY:
            keyword_only = True
        elif not (kind is ClassVar or get_origin(kind) is ClassVar):
            fields[name] = Field.of(kind, vars(cls).get(name, REQUIRED), keyword_only)
            # A class with an `__init__` may rely on its class attributes.
            if name in vars(cls) and cls.takes_fields:
                delattr(cls, name)
    return fields


def _owner(made, cls):
    """Returns what errors call an object that is created by the `__init__` of a class."""
    return (type(made) if type(made).__init__ is cls.__init__ else cls).owner


def _closed(signature):
    """Returns a signature with the keys of the `TypedDict` instead of `**kwargs: Unpack[...]`."""
    *named, last = [*signature.parameters.values()] or [None]
    if last is None or last.kind is not inspect.Parameter.VAR_KEYWORD or get_origin(last.annotation) is not Unpack:
        return signature
    (arguments,) = get_args(last.annotation)
    more = [inspect.Parameter(name, NAMED, default=None) for name in arguments.__annotations__]
    return signature.replace(parameters=[*named, *more])


def _takes_none(expected):
    try:
        expected.read(None)
    except REFUSED:
        return False
    return True


def _like(default):
    """Returns the `Expected` that follows from a default, or None."""
    if isinstance(default, bool):
        return boolean()
    for kind, expected in ((int, integer), (float, number), (str, text)):
        if isinstance(default, kind):
            return expected()
    if isinstance(default, tuple) and default and (element := _like(default[0])):
        return several(element)
    return None


@dataclass_transform(frozen_default=True)
class Value(Declared):
    """Base of immutable components that are equal if their arguments are."""

    def __setattr__(self, name, value):
        if name not in self.fields or name in vars(self):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __eq__(self, other):
        return type(other) is type(self) and other.own_config() == self.own_config()

    def __hash__(self):
        return hash((type(self), *self.own_config().values()))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.own_config().items())})"
