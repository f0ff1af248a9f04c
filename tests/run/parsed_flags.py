"""Command lines as `tfdml.train` reads them."""

from absl import flags as absl_flags

from tfdml.console import flags


def parsed(*arguments):
    """`(settings, serialized)` of a command line."""
    values = absl_flags.FlagValues()
    names = flags.define_training(values)
    values(["train", *arguments])
    return flags.settings_of(names, values), flags.serialize(names, values)
