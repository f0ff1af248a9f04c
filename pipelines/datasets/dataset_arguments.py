"""Arguments that several datasets take."""

from typing import Annotated

from tfdml.registry.arguments import FilePath, number, optional, path

# If it is empty or None, each dataset says itself what to do.
DataDir = Annotated[FilePath, optional(path())]
TestClasses = Annotated[float, number(above=0, at_most=1)]
HeldOut = Annotated[float, number(above=0, below=1)]
