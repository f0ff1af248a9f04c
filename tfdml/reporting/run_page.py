"""The HTML page of a run's report."""

import time

from pipelines.reading.near_duplicates import in_words, read_near_duplicates
from tfdml import registry
from tfdml.console.command import free_path, own_modules
from tfdml.console.flags import command_line
from tfdml.files.checked import write_atomically
from tfdml.registry.specs import parse_sum
from tfdml.reporting import page, tables
from tfdml.reporting.gallery import gallery_of
from tfdml.reporting.page import html
from tfdml.reporting.pictures.model import IN_PERCENT, training_curves
from tfdml.reporting.subject import Subject
from tfdml.reporting.tables import score_tables
from tfdml.run.directory.run_directory import environment
from tfdml.run.experiment.experiment import trained
from tfdml.run.training.distillation import kept_in_words
from tfdml.run.training.gain import gain_in_words, untried

# How the title names the images of a dataset, if the name of the dataset is not enough.
DATA = {
    "folder": "in your photos",
    "photos": "in your photos",
    "csv": "in your table",
    "toycars": "for toy cars",
    "embeddings": "with stored features",
    "packed": "in a packed dataset",
}


def write_page(record, subject, pictures, path):
    """Writes the page of a run to an HTML file. If the run has no model yet, its subject is None.

    `pictures` maps the paths of the figures that the page shows to their captions.
    """
    gallery, result = subject and gallery_of(subject), record.result
    members = [member["run_dir"] for member in result["members"]] if "members" in result else None
    # If a run did not record its environment, use what its model file recorded, and this process.
    made_by = result.get("environment") or {
        **record.saved_by(),
        **{f"{name} (of this report)": value for name, value in environment().items()},
    }
    # What `python -m pipelines.check --near_duplicates` has found in the dataset, if it was run.
    near = read_near_duplicates(record.settings.data.data_dir, record.settings.data.dataset)
    sections = {
        "Scores": page.joined(score_tables(record, subject), page.paragraph(in_words(near)) if near else None),
        "Next steps": (steps := next_steps(record)) and html.next_steps(steps),
        "Training": page.curve_figures({title + unit: curves for title, unit, curves in titled_curves(record.events)}),
        "Queries and neighbors": gallery and tables.gallery(gallery),
        "Learners": subject and tables.learners_tables(subject.learners, members, result.get("cost")),
        "Figures": page.picture_figures(pictures),
        "Settings": page.about_run(record.main(), record.changed()),
        "Reproduce this run": html.reproduce(record.command(), made_by),
    }
    write_text(page.document(title_of(record), {state(record): not result}, sections, {"gallery": gallery}), path)


def title_of(record):
    """Returns what a run does, such as `quickstart: similarity search for toy cars, trained with triplet loss`."""
    settings = record.settings
    data, spec = registry.parse(settings.data.dataset)[0][0], settings.batches.loss
    losses = [name for _, (name, _) in parse_sum(spec)] or [registry.parse(spec)[0][0]]
    loss = " and ".join(dict.fromkeys(losses))
    images = DATA.get(data) or f"for {data}".replace("_", " ")
    backbone, arguments = registry.parse(settings.network.backbone)[0]
    network = ""
    if settings.network.initial_model:
        network = ", starting from another model"
    elif backbone != "identity":
        name = arguments.get("name") or arguments.get("preset") or backbone.replace("_", " ")
        network = f" with the backbone {name}"
    run = record.run.path.resolve().name
    return f"{run}: similarity search {images}{network}, trained with {loss.replace('_', ' ')} loss"


def next_steps(record):
    """Returns suggestions for a run: sentence to command, or to None if the sentence names a flag."""
    run, values = record.run.path, record.settings.values()
    modules = own_modules(values["import_modules"])
    here, several = [f"--run_dir={run}", *modules], [f"--run_dirs={run}", *modules]
    if not record.result:
        resume = command_line("python", "-m", "tfdml.train", f"--flagfile={run / 'flags.txt'}", f"--run_dir={run}")
        return {} if record.is_training() else {"Resume the run where it stopped:": resume}
    steps = {}
    if "features" in record.result:
        steps |= {f"For a better model, try {text}.": None for text in untried(values)}
    elif not values["backbone"].startswith("identity"):
        flags = "--backbone=keras_applications(name='MobileNetV2')", "--initial_weights=imagenet"
        steps["For a better model, start from a pretrained network:"] = command_line(*flags)
    if values["backbone"].startswith("identity"):
        # The commands below need images, and this run only has stored features.
        return steps
    out = free_path(lambda number: f"exported/{number}")
    find, export = (
        command_line("python", "-m", f"tfdml.{name}", *flags)
        for name, *flags in (("suspects", *several, "--out=suspects"), ("export", *here, f"--out={out}"))
    )
    steps["Find training images that may be in the wrong class:"] = find
    steps["Export the model to search your own images:"] = export
    return steps


def subject_of(record, changes=()):
    """Returns the `Subject` of a run, with some settings replaced, or None if it has no model yet."""
    if not record.result and not record.run.model.is_file():
        return None
    return Subject(*trained(record.run.path, "best", changes), record.run, record.result)


def write_text(text, path):
    """Writes a page and creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def state(record):
    """Returns sentences about whether a run is complete, and which model the page shows."""
    if record.result:
        took = ""
        if "seconds" in record.result:
            hours, minutes = divmod(round(record.result["seconds"] / 60), 60)
            took = f" in {hours} h {minutes} min" if hours else f" in {max(minutes, 1)} min"
        best = record.result["best"]
        chosen = f"It was selected by {tables.titled(best['selected_by'])} on the {best['selected_on']} split."
        blend = f", blended with the initial weights ({best['blend']:.0%} trained weights)" if "blend" in best else ""
        complete = f"Training is complete: {record.step:,} steps{took}."
        shown = f"This page shows the best model, from step {best['step']:,}{blend}."
        verdicts = [gain_in_words(record.result, record.settings), kept_in_words(record.result)]
        return " ".join(filter(None, [*verdicts, complete, shown, chosen]))
    steps = record.steps()
    of = f" of {steps:,}" if steps else ""
    going = "Training is in progress" if record.is_training() else "The run is not complete, and no process trains it"
    model = "This page shows the best model so far." if record.run.model.is_file() else "There is no model yet."
    return f"{going}: step {record.step:,}{of} at {time.strftime('%Y-%m-%d %H:%M')}. {model}"


def titled_curves(events):
    """Yields the title of each chart, its unit, such as ` (%)`, and its curves, with metric names as in papers."""
    for title, curves in training_curves(events).items():
        scale, unit = (100, " (%)") if title in IN_PERCENT else (1, "")
        named = {
            tables.titled(name): (steps, [scale * value for value in values])
            for name, (steps, values) in curves.items()
        }
        yield title, unit, named
