"""Adds rows to a study that change its other rows further."""

# Suffixes of rows that change only the number of steps or the image size.
FOUR_TIMES, EIGHT_TIMES = (f", {times} times the steps" for times in ("four", "eight"))
LARGER = ", at 96 px"


def add_rows(changes, follow, names, more, *flags):
    """Adds rows that change other rows further and use their settings.

    Args:
        changes: The `rows` of a `Study`, which the function extends.
        follow: The `follow` of the study, which the function extends.
        names: Names of the rows to change.
        more: Suffix of the new names.
        flags: Additional flags of the new rows.
    """
    for name in names:
        changes[f"{name}{more}"] = [*changes[name], *flags]
        follow[f"{name}{more}"] = name
