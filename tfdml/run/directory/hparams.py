"""Writes the settings and scores of a run for TensorBoard's HParams tab."""

import shutil

import tensorflow as tf

from tfdml.console.settings import names_with
from tfdml.run.directory.run_record import Record

# Where and how a run computes, which changes no result, or only what is measured.
LEFT_OUT = names_with(changes_result=False)
# What `result.json` calls the scores, to what the tab calls them.
SCORES = {"best": "best", "metrics": "final"}


def write_hparams(run, result):
    """Writes the settings of a complete run, and its scores, for the HParams tab.

    They are in a folder of their own, so that the tab shows these scores instead of all curves. Those of an ensemble
    that is joined again take the place of the old ones.

    Args:
        run: `RunDirectory`.
        result: its result.
    """
    # Here, because a run needs it only at its end.
    from tensorboard.plugins.hparams import api

    folder = run.tensorboard_of("hparams")
    shutil.rmtree(folder, ignore_errors=True)
    with tf.summary.create_file_writer(str(folder)).as_default(step=result["step"]):
        api.hparams(hyperparameters(Record(run, result)), trial_id=str(run.path))
        for name, value in scores_of(result).items():
            tf.summary.scalar(f"hp/{name}", value)


def scores_of(result):
    """Returns the scores of the best and the final model, such as `best/recall_at_1`."""
    return {
        f"{name}/{metric}": value
        for kind, name in SCORES.items()
        for metric, value in result[kind].items()
        if isinstance(value, float)
    }


def hyperparameters(record):
    """Returns the settings that were given, or say most: name to a number, a boolean or text.

    Args:
        record: `Record` of the run.
    """
    names = sorted({*record.main(), "epochs", *record.changed()} - LEFT_OUT)
    values, texts = record.settings.values(), record.flags()
    return {name: values[name] if isinstance(values[name], int | float) else texts[name] for name in names}
