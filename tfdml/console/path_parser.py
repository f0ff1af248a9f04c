"""The values of flags that are paths."""

import os

from absl import flags


class PathParser(flags.ArgumentParser):
    """Converts a path to an absolute one, so that a run's flags mean the same in every working directory.

    Paths that begin with `~` and URLs such as `gs://bucket` are unchanged.
    """

    syntactic_help = "a path"

    def parse(self, argument):
        return argument if not argument or argument[0] == "~" or "://" in argument else os.path.abspath(argument)
