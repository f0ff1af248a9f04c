"""Declarations of arguments that several datasets take."""

from tfdml.arguments import optional, path

# Each dataset says itself what is missing where it is empty.
DATA_DIR = optional(path())
