"""The page of a run's report: what its sections show."""

import platform
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml
from tfdml.checked_files import write_atomically
from tfdml.reporting.page import about_run, document, picture_figures, reproduce


def write_page(record, subject, pictures, path):
    """Writes the page of a run.

    Args:
        record: `Record` of the run.
        subject: its `Subject`; None while it has no model.
        pictures: path of a picture to its caption.
        path: the HTML file.
    """
    sections = {
        "What was run": about_run(record.main(), record.changed()),
        "Pictures": picture_figures(pictures),
        "How to reproduce": reproduce(record.command(), {**record.saved_by(), **environment()}),
    }
    title = f"{record.run.path.name}: {record.settings.method} on {record.settings.dataset}"
    page = document(title, states(record), sections, {})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode())


def states(record):
    """Sentences that say whether a run is complete, and of when its model is."""
    if record.result:
        took = f" in {_duration(record.result['seconds'])}" if "seconds" in record.result else ""
        best = record.result["best"]
        chosen = f"selected on {best['selected_on']} by {best['selected_by']}"
        return [
            f"Complete: {record.step:,} steps{took}.",
            f"The model is the best, of step {best['step']:,}, {chosen}.",
        ]
    steps = record.steps()
    of = f" of {steps:,}" if steps else ""
    going = "The run is still going on" if record.is_training() else "The run is not complete, and no process trains it"
    model = "The model is the best so far." if record.run.model.is_file() else "There is no model yet."
    return [f"{going}: step {record.step:,}{of}, {time.strftime('%Y-%m-%d %H:%M')}.", model]


def environment():
    """Versions of what the report is made with."""
    gpus = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in _gpus()]
    return {
        "tfdml": tfdml.__version__,
        "Keras": keras.__version__,
        "TensorFlow": tf.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "Report made on": ", ".join([platform.platform(), *gpus]),
    }


def _gpus():
    return tf.config.list_physical_devices("GPU")


def _duration(seconds):
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(minutes, 1)} min"
