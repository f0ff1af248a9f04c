"""The page of a run's report."""

import time

from pipelines.reading.near_duplicates import in_words, read_near_duplicates
from tfdml.files.checked_files import write_atomically
from tfdml.reporting import page
from tfdml.reporting.gallery import gallery_of
from tfdml.reporting.pictures.training import training_curves
from tfdml.reporting.score_tables import score_tables
from tfdml.reporting.subject import Subject
from tfdml.run.directory.environment import environment
from tfdml.run.experiment.experiment import trained
from tfdml.run.training.gain import told


def write_page(record, subject, pictures, path):
    """Writes the page of a run.

    Args:
        record: `Record` of the run.
        subject: its `Subject`; None while it has no model.
        pictures: path of a picture to its caption, of those that the page shows.
        path: the HTML file.
    """
    gallery = subject and gallery_of(subject)
    sections = {
        "Scores": page.joined(score_tables(record, subject), _near_duplicates(record.settings.data)),
        "Training": page.curve_figures(_curves(record.events)),
        "Queries and neighbors": gallery and page.gallery(gallery),
        "Learners": subject and _learners(subject.learners, record.result),
        "Pictures": page.picture_figures(pictures),
        "What was run": page.about_run(record.main(), record.changed()),
        "How to reproduce": page.reproduce(record.command(), _environment(record)),
    }
    title = f"{record.run.path.resolve().name}: {record.settings.network.method} on {record.settings.data.dataset}"
    write_text(page.document(title, {state(record): not record.result}, sections, {"gallery": gallery}), path)


def _near_duplicates(data):
    """Returns what `python -m pipelines.check --near_duplicates` has found in the dataset, if it was asked."""
    found = read_near_duplicates(data.data_dir, data.dataset)
    return page.element("p", in_words(found)) if found else None


def subject_of(record, changes=()):
    """Returns the `Subject` of a run; None while it has no model.

    Args:
        record: `Record` of the run.
        changes: settings to replace, name to value.
    """
    if not record.result and not record.run.model.is_file():
        return None
    return Subject(*trained(record.run.path, "best", changes), record.run, record.result)


def write_text(text, path):
    """Writes a page, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def state(record):
    """Says whether a run is complete, and of when its model is."""
    if record.result:
        took = f" in {_duration(record.result['seconds'])}" if "seconds" in record.result else ""
        best = record.result["best"]
        chosen = f"It was selected on {best['selected_on']} by {page.titled(best['selected_by'])}."
        step = f"step {best['step']:,}" + (f", in a mean that takes {best['blend']} of it" if "blend" in best else "")
        complete = f"Complete: {record.step:,} steps{took}. The model shown is the best, of {step}."
        return " ".join(filter(None, [told(record.result, record.settings), complete, chosen]))
    steps = record.steps()
    of = f" of {steps:,}" if steps else ""
    going = "The run is still going on" if record.is_training() else "The run is not complete, and no process trains it"
    model = "The model shown is the best so far." if record.run.model.is_file() else "There is no model yet."
    return f"{going}: step {record.step:,}{of}, at {time.strftime('%Y-%m-%d %H:%M')}. {model}"


def _environment(record):
    """Names versions and machine of the run; if it did not record them, those of its model's file and this process."""
    if "environment" in record.result:
        return record.result["environment"]
    return {**record.saved_by(), **{f"{name}, of this report": value for name, value in environment().items()}}


def _learners(learners, result):
    names = [each["run_dir"] for each in result["members"]] if "members" in result else None
    return page.learners_tables(learners, names, result.get("cost"))


def _curves(events):
    charts = training_curves(events)
    return {title: {page.titled(name): curve for name, curve in curves.items()} for title, curves in charts.items()}


def _duration(seconds):
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(minutes, 1)} min"
