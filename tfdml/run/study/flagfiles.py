"""The study of flagfiles: each is a row."""

import statistics
from pathlib import Path

from tfdml.console.flags import located, parse
from tfdml.run.study.cells import Number
from tfdml.run.study.columns import MetricOf, spread_of, steps_to_best
from tfdml.run.study.declaration import Study
from tfdml.run.study.runs import resolved


def of_flagfiles(flagfiles, flags, metrics, required=True):
    """Returns the study whose rows are flagfiles.

    Args:
        flagfiles: their paths.
        flags: flags of training for all of them.
        metrics: metrics of the table; by the first, on validation classes, a flagfile is chosen.
        required: whether a metric that runs have not measured is an error, and not an empty cell.
    """
    missing = [flagfile for flagfile in flagfiles if not Path(located(flagfile)).is_file()]
    if missing or not flagfiles:
        received = f"there is no {missing[0]}" if missing else "received none"
        raise ValueError(f"Expected flagfiles, or a module that declares a study; {received}.")
    rows = {Path(flagfile).stem: [f"--flagfile={flagfile}"] for flagfile in flagfiles}
    if len(rows) < len(set(flagfiles)):
        raise ValueError(f"Expected flagfiles with different names, received {', '.join(flagfiles)}.")
    settings = [settings_of([*row, *flags], metrics if required else metrics[:1]) for row in rows.values()]
    validated = any(each.evaluation.evaluate_on == "validation" for each in settings)
    return Study(
        flagfile="",
        rows=rows,
        columns=columns(metrics, validated, required),
        folder="runs/study",
        head="run",
        curve=metrics[0],
        measured=False,
        every_fold=True,
        conclusion=lambda results: chosen_by_validation(results, metrics[0]),
    )


def settings_of(row, metrics):
    """The settings of a row; raises if its runs measure only some metrics of the table."""
    settings, _ = parse("\n".join(resolved(row).values()))
    measured = settings.evaluation.metrics
    missing = [metric for metric in metrics if measured and metric not in measured]
    if missing:
        raise ValueError(
            f"{row[0].partition('=')[2]} measures {','.join(measured)}, and not {missing[0]}. Give --metrics of the "
            "study that it measures, or --set=--metrics=... for all runs."
        )
    return settings


def columns(metrics, validated, required=True):
    """The columns of the table: mean ± standard deviation over seeds, in percent."""
    names = {short(metric): metric for metric in metrics}
    first = short(metrics[0])
    return {
        "seeds": lambda results, run_dirs: len(results),
        **({f"validation {first}": lambda results, run_dirs: validation_of(results, metrics[0])} if validated else {}),
        **{f"final {name}": MetricOf("metrics", metric, required) for name, metric in names.items()},
        **{f"best {name}": MetricOf("best", metric, required) for name, metric in names.items()},
        "steps to the best": steps_to_best,
        "seconds": seconds,
    }


def seconds(results, run_dirs):
    return Number(statistics.mean(result["seconds"] for result in results), ".0f")


def validation_of(results, metric):
    if not all("validation" in result for result in results):
        return "none"
    return spread_of([result["validation"]["best"] for result in results], metric)


def chosen_by_validation(results, metric):
    """Says which row's best models are best on validation classes; None where that cannot be said."""
    if len(results) < 2 or not all("validation" in run for runs in results.values() for run in runs):
        return None
    best = max(results, key=lambda name: statistics.mean(validation_scores(results[name], metric)))
    return f"Chosen by {short(metric)} on validation classes: {best}"


def validation_scores(results, metric):
    """Returns the metrics of the best models of runs on validation classes."""
    return [result["validation"]["best"][metric] for result in results]


def short(metric):
    """A metric's name in a table."""
    return metric.replace("recall_at_", "R@")
