"""The report of a run, or of several: a page, and the pictures in it."""

import logging
from pathlib import Path

import tensorflow as tf

from tfdml import registry
from tfdml.files.checked import naming
from tfdml.reporting.comparison_page import write_comparison
from tfdml.reporting.members_page import write_members_page
from tfdml.reporting.run_page import subject_of, write_page
from tfdml.run.directory.run_directory import RunDirectory, groups_of
from tfdml.run.directory.run_record import EnsembleDirectory, Record

LOG = logging.getLogger(__name__)
# What is asked for beside pictures.
PAGE = "page"


def report_run(run_dir, only, out, changes, chosen):
    """Draws pictures of a run, and writes its page; returns the `Settings` of a run that is complete, else None.

    Args:
        run_dir: folder of the run.
        only: specs of pictures, and `page`; empty: all that the run has, and the page.
        out: HTML file to write; empty: `index.html` in the report of the run.
        changes: settings to use instead of the run's, name to value.
        chosen: numbers of `channels` and `learners` whose attention is drawn, where they are chosen.
    """
    own = changes.get("import_modules", ())
    # At once, but where a user's modules have pictures: they may compute, and TensorFlow is set up before that.
    pictures = None if own else pictures_of(only, chosen)
    ensemble, page = EnsembleDirectory(run_dir), _page(run_dir, out, "index.html")
    if not ensemble.has_flags and ensemble.begun() and set(only) <= {PAGE}:
        write_members_page(ensemble, page)
        LOG.info("Wrote %s", page)
        return None
    record = Record.of(run_dir)
    subject = subject_of(record, changes)
    if pictures is None:
        registry.import_modules(own)
        pictures = pictures_of(only, chosen)
    drawn = _draw(record, subject, pictures, only)
    if PAGE in only or not only:
        write_page(record, subject, drawn, page)
        LOG.info("Wrote %s", page)
    return record.settings if record.result else None


def report_comparison(run_dirs, out, changes):
    """Writes the page that compares runs, and returns its path.

    Args:
        run_dirs: folders of runs, or of several of each: `A0,A1:B0,B1`.
        out: HTML file to write; empty: `comparison.html` in the report of the first.
        changes: as for `report_run`.
    """
    groups = groups_of(run_dirs)
    page = _page(groups[0][0], out, "comparison.html")
    write_comparison(groups, page, changes)
    return page


def _page(run_dir, out, name):
    return Path(out or RunDirectory(run_dir).report / name)


def pictures_of(only, chosen):
    """Returns name to `Picture`: those asked for, in their order; if none are, all that need not be named.

    Args:
        only, chosen: as `report_run` takes them.
    """
    things = registry.registered("picture")
    known = sorted(things, key=lambda name: (things[name].place, name))
    found = {}
    for spec in _whole(only) or [name for name in known if not things[name].if_named]:
        name = registry.parse(spec)[0][0]
        if name not in (PAGE, *known):
            raise ValueError(f"Unknown picture {name!r} in --only. Known: {', '.join(known)}; {PAGE} is the page.")
        if name != PAGE:
            found[name] = registry.create("picture", spec, **chosen)
    return found


def _whole(pieces):
    """Returns specs of the pieces of a flag that was split at commas, those between arguments, too."""
    specs, begun = [], []
    for piece in pieces:
        begun.append(piece)
        spec = ",".join(begun)
        if spec.count("(") <= spec.count(")"):
            specs.append(spec)
            begun = []
    return specs + [",".join(begun)] * bool(begun)


def _draw(record, subject, pictures, asked):
    """Draws the pictures that a run has; returns the caption by path of those that the page shows.

    Args:
        record: `Record` of the run.
        subject: `Subject`; None draws nothing.
        pictures: name to `Picture`.
        asked: whether it is an error if the run lacks one.
    """
    there = {name: picture for name, picture in pictures.items() if subject and picture.can_be_drawn(subject)}
    missing = [f"{name!r} for {picture.of}" for name, picture in pictures.items() if name not in there]
    if asked and missing:
        listed = ", and ".join(missing)
        raise ValueError(f"The run in {record.run.path} has nothing to draw. There are pictures {listed}.")
    drawn, captions, folder = [], {}, record.run.report
    for name, picture in there.items():
        folder.mkdir(exist_ok=True)
        with naming(folder):
            paths = picture.draw(subject, folder)
        for path in paths:
            LOG.info("Wrote %s", path)
        paths = [path for path in paths if path.suffix == ".png"]
        drawn += paths
        captions |= {path: caption_of(name, picture, path) for path in paths if picture.on_page}
    if drawn:
        _show_in_tensorboard(drawn, record.run.tensorboard_of("report"), record.best_step(subject.experiment.monitor))
    return captions


def caption_of(name, picture, path):
    """Returns the caption of a file of the picture that is registered by this name."""
    own = {name: registry.summaries("picture")[name].removesuffix(".")}
    return {**own, **picture.captions}.get(path.stem, path.stem.replace("_", " ").capitalize())


def _show_in_tensorboard(paths, folder, step):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for path in paths:
            picture = tf.io.decode_png(path.read_bytes(), channels=3)
            tf.summary.image(path.stem, picture[None], step=step)
