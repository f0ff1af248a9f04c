"""Rows of a study that change others further."""

# End the names of rows that change nothing but the steps, or the size of images.
FOUR_TIMES, EIGHT_TIMES = (f", {times} times the steps" for times in ("four", "eight"))
LARGER = ", at 96 px"


def add_rows(changes, follow, names, more, *flags):
    """Adds rows that change others further, and have their settings.

    Args:
        changes, follow: the `rows` and `follow` of a `Study`; both grow.
        names: names of the rows that are changed further.
        more: what is added to their names.
        flags: flags that are added to theirs.
    """
    for name in names:
        changes[f"{name}{more}"] = [*changes[name], *flags]
        follow[f"{name}{more}"] = name
