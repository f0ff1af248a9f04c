"""Declarations of arguments that several datasets take."""

from tfdml.registry.arguments import optional, path

# If it is empty, each dataset says itself what to do.
DATA_DIR = optional(path())
