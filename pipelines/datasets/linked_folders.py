"""Links to folders that lead in a circle."""

import os


def check_links(root):
    """Raises a ValueError if a link below a folder leads to a folder that holds it: nothing in it would have an end.

    Args:
        root: path of the folder.
    """
    for folder, below, _ in os.walk(root, followlinks=True):
        # Of most folders nothing has to be resolved.
        links = [path for name in below if os.path.islink(path := os.path.join(folder, name))]
        here = os.path.realpath(folder) if links else ""
        for link in links:
            target = os.path.realpath(link)
            if os.path.commonpath([here, target]) == target:
                raise ValueError(
                    f"{link} is a link to {target}, which holds it: its images would be found again and again. Remove "
                    "the link."
                )
