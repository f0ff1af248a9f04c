"""Groups of similar classes, from a table of classes."""

import csv


def read_class_groups(table, column):
    """Reads the group of each class from a CSV file in UTF-8 with a header.

    Args:
        table: path; its column `class` has the classes' names.
        column: name of the column with their groups.

    Returns:
        Dictionary from class to group.
    """
    try:
        with open(table, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise FileNotFoundError(f"class_groups={column!r} needs the table {table}, and there is none.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{table} is not a CSV table in UTF-8: {error}.") from None
    for name in ("class", column):
        if not rows or rows[0].get(name) is None:
            known = ", ".join(map(str, rows[0])) if rows else "no rows"
            raise ValueError(f"{table} has no column {name!r}; it has {known}.")
    return {row["class"]: row[column] for row in rows if row[column]}


def in_order_of_groups(classes, groups):
    """Returns the same dictionary of classes with those of a group side by side.

    Args:
        classes: dictionary whose keys are names of classes.
        groups: class to group, as `read_class_groups` returns it.
    """
    missing = [name for name in classes if name not in groups]
    if missing:
        raise ValueError(
            f"classes.csv has no group for {len(missing)} of {len(classes)} classes: {', '.join(missing[:3])}. Each "
            "class folder needs a row with its name in the column 'class'."
        )
    return {name: classes[name] for name in sorted(classes, key=lambda name: (groups[name], name))}
