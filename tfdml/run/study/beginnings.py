"""Rows of a study's table for what its runs began with: the pretrained features, and the untrained model."""

from tfdml.run.study.columns import MetricOf, spread_of

BEGINNINGS = ("features", "untrained")


def beginnings(study, results):
    """Returns the rows of `features` and of `untrained`, each once for all rows of the study that have it in common.

    Args:
        study: the `Study`, whose columns of metrics are filled in; others are empty.
        results: name of the row to the result of each seed.
    """
    return [
        [_head(which, names, results), *(_cell(column, which, results[names[0]]) for column in study.columns.values())]
        for which in BEGINNINGS
        for names in _in_common(which, results)
    ]


def _in_common(which, results):
    """Lists of names of rows with the same scores in every seed."""
    found = {}
    for name, of_seeds in results.items():
        if all(which in result for result in of_seeds):
            found.setdefault(str([result[which] for result in of_seeds]), []).append(name)
    return list(found.values())


def _head(which, names, results):
    if len(names) == len(results):
        return which
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{which} of {names[0]}{more}"


def _cell(column, which, of_seeds):
    if not isinstance(column, MetricOf) or not all(column.name in result[which] for result in of_seeds):
        return ""
    return spread_of([result[which] for result in of_seeds], column.name)
