"""Arguments as fields: the annotated attributes of a class are its arguments."""

import inspect
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform, get_origin

from tfdml.registry.argument_checks import checked, evaluated, expected_like, refuse_unknown, takes_fields
from tfdml.registry.arguments import Expected, expected_by

# For an argument that a base class of Keras takes and checks itself; specs leave it out.
OF_KERAS = Expected("what Keras takes", lambda value: value)
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Field:
    """An argument: what is expected, or None; its default, or `REQUIRED`; whether it comes after `_: KW_ONLY`."""

    expected: Expected | None
    default: Any
    keyword_only: bool


class _SignatureOfClass:
    """The signature of a class with fields, or of an `__init__` of its own; objects of the class have their own."""

    def __get__(self, made, cls):
        if made is not None:
            raise AttributeError("__signature__")
        if not takes_fields(cls):
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=[*signature.parameters.values()][1:])
        shown = [each for each in cls._parameters() if cls.fields[each.name].expected is not OF_KERAS]
        more = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)] if len(shown) < len(cls.fields) else []
        return inspect.Signature([*shown, *more])


@dataclass_transform()
class Declared:
    """A class whose annotated attributes are its arguments, as in a dataclass; type checkers read them as such.

    ```python
    class Circle(Declared):
        margin: Annotated[float, number(at_least=-1, at_most=1)] = 0.4
        form: Literal["smooth", "hard"] = "smooth"
    ```

    Each value is checked by its annotation, see `tfdml.registry.arguments.expected_by`, or else by the type of its
    default, and is then an attribute. Fields after `_: KW_ONLY` come last in the order, those of the nearest class
    first. Defaults are no attributes of the class, where one could hide a property of a base class.
    """

    # The arguments in their order, with those of the base classes.
    fields: ClassVar[Mapping[str, Field]] = MappingProxyType({})
    # Names of fields that `__init__` of the next base class takes: those that were declared `OF_KERAS`.
    of_keras: ClassVar[tuple[str, ...]] = ()
    # What errors call the class.
    owner: ClassVar[str] = ""
    __signature__ = _SignatureOfClass()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        own = _fields_of(cls)
        every = {**cls.fields, **own}
        last = {name: every[name] for name in {**own, **every} if every[name].keyword_only}
        cls.fields = {**{name: field for name, field in every.items() if name not in last}, **last}
        cls.of_keras = (*cls.of_keras, *(name for name, field in own.items() if field.expected is OF_KERAS))
        cls.owner = cls.__qualname__

    @classmethod
    def declare(cls, owner: str, declared: Mapping[str, Expected]) -> None:
        """Sets what errors call the class, and further rules of its arguments."""
        cls.owner = owner
        changed = {name: replace(cls.fields[name], expected=expected) for name, expected in declared.items()}
        cls.fields = {**cls.fields, **changed}

    if not TYPE_CHECKING:  # Type checkers know it from the fields.

        def __init__(self, *args: Any, **kwargs: Any):
            cls = self._behind_own_init()
            given = cls._read(args, kwargs)
            super().__init__(**{name: given.pop(name) for name in cls.of_keras})
            for name, value in given.items():
                setattr(self, name, value)
            # A class with an `__init__` of its own may set later what this asks for.
            if given or cls is type(self):
                self.check_arguments()

        __init__.takes_fields = True

    def check_arguments(self) -> None:
        """Raises a ValueError where arguments do not fit together; each of them is checked before."""

    def own_config(self) -> dict[str, Any]:
        """The arguments, without those that the base class of Keras takes."""
        return {name: getattr(self, name) for name in self.fields if name not in self.of_keras}

    @classmethod
    def _behind_own_init(cls):
        """The class whose fields are set here: the next one behind the last that has an `__init__` of its own."""
        classes = [each for each in cls.__mro__ if issubclass(each, Declared)]
        own = [place for place, each in enumerate(classes) if "__init__" in vars(each) and not takes_fields(each)]
        return classes[own[-1] + 1] if own else cls

    @classmethod
    def _read(cls, args, kwargs):
        """Argument to its value, checked, or its default."""
        refuse_unknown(cls.__name__ if cls.of_keras else cls.owner, kwargs, cls.fields)
        try:
            given = inspect.Signature(cls._parameters()).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}. Its arguments: {', '.join(cls.fields) or 'none'}.") from None
        read = {name: checked(cls.owner, name, value, cls.fields[name].expected) for name, value in given.items()}
        return {name: read.get(name, field.default) for name, field in cls.fields.items()}

    @classmethod
    def _parameters(cls):
        """In Python every field may stand without its name, but those of Keras and those that have no default."""
        parameters = []
        for name, field in cls.fields.items():
            named = field.expected is OF_KERAS or (field.keyword_only and field.default is REQUIRED)
            kind = inspect.Parameter.KEYWORD_ONLY if named else inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, kind, default=field.default))
        return sorted(parameters, key=lambda each: each.kind)


def _fields_of(cls):
    """The fields that a class declares itself; their defaults are taken out of it."""
    own, keyword_only = {}, False
    for name, kind in evaluated(inspect.get_annotations, cls).items():
        if kind is KW_ONLY:
            keyword_only = True
        elif not (kind is ClassVar or get_origin(kind) is ClassVar):
            default = vars(cls).get(name, REQUIRED)
            # An `__init__` of another kind may rely on them.
            if default is not REQUIRED and takes_fields(cls):
                delattr(cls, name)
            own[name] = Field(expected_by(kind) or expected_like(default), default, keyword_only)
    return own
