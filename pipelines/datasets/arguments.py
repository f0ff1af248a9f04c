"""What several datasets' arguments have to be."""

from tfdml.arguments import optional, path

# Each dataset says itself what is missing where it is empty.
DATA_DIR = optional(path())
