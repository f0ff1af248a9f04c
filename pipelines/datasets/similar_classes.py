"""Groups of similar classes, from a table of classes."""

import logging

from pipelines.datasets.tables import read_table, row_of


def read_class_groups(table, column):
    """Reads the group of each class from a CSV file in UTF-8 with a header.

    Args:
        table: path; its column `class` has the classes' names.
        column: name of the column with their groups.

    Returns:
        Dictionary from class to group.
    """
    needed = ("class", column)

    def check_header(header):
        missing = [name for name in needed if name not in header]
        if missing:
            raise ValueError(f"{table} has no column {missing[0]!r}; it has {', '.join(header) or 'none'}.")

    try:
        header, rows = read_table(table, check_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"class_groups={column!r} needs the table {table}, which does not exist.") from None
    groups, lines = {}, {}
    for row, line in rows:
        found = row_of(table, header, row, line)
        name, group = found["class"], found[column]
        if group and groups.get(name, group) != group:
            raise ValueError(
                f"{table} has the class {name!r} in two groups: {groups[name]!r} in line {lines[name]}, {group!r} in "
                f"line {line}. Keep one of them."
            )
        if group:
            groups[name], lines[name] = group, line
    return groups


def in_order_of_groups(classes, groups):
    """Returns the same dictionary of classes with those of a group side by side, groups in the order of the table.

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
    place = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    return {name: classes[name] for name in sorted(classes, key=lambda name: (place[groups[name]], name))}


def read_levels(table):
    """Returns the categories of classes by level, `{column: {class: category}}`, of each column of a table but `class`.

    Empty where there is no such table. Where a class has several categories of a level it has none; who asks for the
    level learns of it.

    Args:
        table: path; its column `class` has the classes' names.
    """
    try:
        header, rows = read_table(table, lambda header: None)
        found = [row_of(table, header, row, line) for row, line in rows] if "class" in header else []
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logging.getLogger(__name__).warning("Levels of classes are not read. %s", error)
        return {}
    several = {name: {} for name in header if name != "class"}
    for row in found:
        for name, categories in several.items():
            categories.setdefault(row["class"], set()).add(row[name])
    return {
        name: {each: next(iter(known)) for each, known in categories.items() if len(known) == 1}
        for name, categories in several.items()
        if found
    }
