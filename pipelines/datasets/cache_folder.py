"""The folder for caches."""

import os
from pathlib import Path


def cache_folder(folder=None):
    """Returns the given folder; if it is empty, `tfdml` in `$XDG_CACHE_HOME` or in `~/.cache`."""
    return Path(folder or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/tfdml").expanduser()
