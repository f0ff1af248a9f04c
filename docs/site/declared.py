"""Tells griffe, which reads the reference from sources, what only a running program knows of arguments."""

import re

from griffe import Docstring, Extension, Function, Parameter, ParameterKind, Parameters

DECLARED = "tfdml.registry.fields.Declared"
NAMED, IN_ORDER = ParameterKind.keyword_only, ParameterKind.positional_or_keyword


class DeclaredArguments(Extension):
    """Gives classes with fields their `__init__`, and the functions of losses their arguments."""

    def on_package(self, *, pkg, **_):
        """Reads a package after all of it is loaded."""
        classes = [*_objects(pkg, "is_class")]
        for each in classes:
            if any(base.path == DECLARED for base in _bases(each)) and _takes_fields(each):
                each.set_member("__init__", _function("__init__", each, [_self(), *_ordered(_fields(each))]))
        for each in [*_objects(pkg, "is_attribute")]:
            if re.match(r"function_of\(", str(each.value or "")):
                _replace(each)
        for each in _objects(pkg, "docstring"):
            each.docstring.value = _with_single_arguments(each.docstring.value)


def _objects(parent, which):
    for each in list(parent.members.values()):
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


def _takes_fields(cls):
    """Whether neither the class nor a base of it below `Declared` has an `__init__` of its own."""
    own = [each for each in [cls, *_bases(cls)] if each.path != DECLARED and "__init__" in each.members]
    return not [each for each in own if not each.members["__init__"].labels & {"of fields"}]


def _fields(cls):
    """The arguments that a class and its bases declare, those of the bases first."""
    found = {}
    for each in [*reversed(_bases(cls)), cls]:
        kind = IN_ORDER
        for member in each.members.values():
            if not member.is_attribute or member.annotation is None or "instance-attribute" not in member.labels:
                continue
            if str(member.annotation).endswith("KW_ONLY"):
                kind = NAMED
            else:
                found[member.name] = Parameter(
                    member.name, annotation=member.annotation, kind=kind, default=member.value
                )
    return found.values()


def _ordered(parameters):
    return sorted(parameters, key=lambda each: each.kind is NAMED)


def _self():
    return Parameter("self", kind=IN_ORDER)


def _function(name, parent, parameters):
    made = Function(name, parent=parent, parameters=Parameters(*parameters))
    made.labels.add("of fields")
    return made


def _replace(attribute):
    """Puts the function of a loss where `name = function_of(Loss, "name")` stands."""
    module = attribute.parent
    cls = module.members[re.match(r"function_of\((\w+)", str(attribute.value))[1]]
    _, *tensors = next(each for each in [cls, *_bases(cls)] if "call" in each.members).members["call"].parameters
    kind = NAMED if "queries" in [each.name for each in tensors] else IN_ORDER
    own = [
        Parameter(each.name, annotation=each.annotation, kind=kind, default=each.default)
        for each in _fields(cls)
        if each.kind is not NAMED
    ]
    made = _function(attribute.name, module, [*tensors, *own])
    made.docstring = _docstring(cls, made)
    module.set_member(attribute.name, made)


def _docstring(cls, made):
    about = f"The values of [`{cls.name}`][{cls.path}] as a function of its tensors, with the same arguments."
    return Docstring(about, parent=made)


def _with_single_arguments(text):
    """Reads `mean, std: numbers` as two arguments, and arguments of a call as a list."""
    lines, section, waiting = [], "", []
    for line in text.splitlines():
        argument = re.match(r" {4}([\w*]+(?:, [\w*]+)*): ", line)
        if argument or not line.startswith("      "):
            lines += waiting
            waiting = []
        if re.match(r"\S", line):
            section = line.strip()
        if argument and section == "Args:":
            first, *others = argument[1].split(", ")
            line = f"    {first}: {line[argument.end() :]}"
            waiting = [f"    {other}: see `{first}`." for other in others]
        elif argument and section == "Call arguments:":
            line = f"    - `{argument[1]}`: {line[argument.end() :]}"
        lines.append(line)
    return "\n".join([*lines, *waiting])
