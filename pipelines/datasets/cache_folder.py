"""The folder for what can be made again."""

import os
from pathlib import Path


def cache_folder(folder=None):
    """The given folder; where there is none, `tfdml` in `$XDG_CACHE_HOME` or in `~/.cache`."""
    return Path(folder or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/tfdml").expanduser()
