"""A number of tensorflow-addons' losses, which may be a tensor."""

from typing import Annotated, Any

from tfdml.registry.arguments import Expected

_ANY: Any = Expected("a number", lambda value: value)
Number = Annotated[float, _ANY]
Truth = Annotated[bool, _ANY]
