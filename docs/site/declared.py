"""Adds to griffe, which reads the reference from sources, what only a running program knows about arguments."""

from griffe import ExprSubscript, ExprTuple, Extension, Function, Parameter, ParameterKind, Parameters

from docs.site.docstrings import with_single_arguments

DECLARED = "tfdml.registry.fields.Declared"
# Marks the objects that this module creates.
MADE = "tfdml"
NAMED, IN_ORDER = ParameterKind.keyword_only, ParameterKind.positional_or_keyword


class DeclaredArguments(Extension):
    """Adds an `__init__` to classes with fields."""

    def on_package(self, *, pkg, **_):
        """Processes a package after it is fully loaded."""
        for each in [*_objects(pkg, "is_class")]:
            if _is_declared(each) and _takes_fields(each):
                each.set_member(
                    "__init__", _function("__init__", each, [Parameter("self", kind=IN_ORDER), *_fields(each)])
                )
        for each in _objects(pkg, "docstring"):
            each.docstring.value = with_single_arguments(each.docstring.value)


def _objects(parent, which):
    """Returns all modules, classes, functions and attributes below an object that satisfy a condition."""
    for each in parent.members.values():
        if each.is_alias:
            continue
        if getattr(each, which):
            yield each
        if each.is_module or each.is_class:
            yield from _objects(each, which)


def _bases(cls):
    try:
        return cls.mro()
    except ValueError:
        return []


def _is_declared(cls):
    return any(each.path == DECLARED for each in _bases(cls))


def _takes_fields(cls):
    """Returns whether a class and its declared bases have no `__init__`, except those that were created here."""
    declared = [each for each in [cls, *_bases(cls)] if _is_declared(each)]
    return all(MADE in each.members["__init__"].extra for each in declared if "__init__" in each.members)


def _fields(cls):
    """Returns the arguments of a class in the order of `Declared`."""
    found = {}
    for each in [*reversed(_bases(cls)), cls]:
        if _is_declared(each):
            own = {field.name: field for field in _own_fields(each)}
            every = {**found, **own}
            last = {name: every[name] for name in {**own, **every} if every[name].kind is NAMED}
            found = {**{name: field for name, field in every.items() if name not in last}, **last}
    return found.values()


def _own_fields(cls):
    kind = IN_ORDER
    for member in cls.members.values():
        if not member.is_attribute or member.annotation is None or "instance-attribute" not in member.labels:
            continue
        if str(member.annotation).endswith("KW_ONLY"):
            kind = NAMED
        else:
            yield Parameter(member.name, annotation=_plain(member.annotation), kind=kind, default=member.value)


def _plain(annotation):
    """Returns the type without `Annotated`, because the docstring describes in words what that adds."""
    annotated = isinstance(annotation, ExprSubscript) and str(annotation.left) == "Annotated"
    return annotation.slice.elements[0] if annotated and isinstance(annotation.slice, ExprTuple) else annotation


def _function(name, parent, parameters):
    made = Function(name, parent=parent, parameters=Parameters(*parameters))
    made.extra[MADE] = {}
    return made
