"""The report of a run, or of several: a page, and the pictures in it."""

from pathlib import Path

import tensorflow as tf

from tfdml.files.checked_files import naming
from tfdml.reporting.comparison_page import write_comparison
from tfdml.reporting.members_page import write_members_page
from tfdml.reporting.pictures.kinds import PICTURES
from tfdml.reporting.run_page import subject_of, write_page
from tfdml.run.directory.ensemble_directory import EnsembleDirectory
from tfdml.run.directory.groups import MOST_GROUPS, groups_of
from tfdml.run.directory.record import Record
from tfdml.run.directory.run_directory import RunDirectory

# What is asked for beside pictures.
PAGE = "page"


def report_run(run_dir, only, out, changes, chosen):
    """Draws pictures of a run, and writes its page.

    Args:
        run_dir: folder of the run.
        only: names of the pictures, and `page`; empty: all that the run has, and the page.
        out: HTML file to write; empty: `index.html` in the report of the run.
        changes: settings to use instead of the run's, name to value.
        chosen: numbers of `channels` and `learners` whose attention is drawn, where they are chosen.
    """
    unknown = [name for name in only if name not in (PAGE, *PICTURES)]
    if unknown:
        raise ValueError(f"Unknown picture {unknown[0]!r} in --only. Known: {', '.join(PICTURES)}; {PAGE} is the page.")
    ensemble, page = EnsembleDirectory(run_dir), _page(run_dir, out, "index.html")
    if not ensemble.has_flags and ensemble.begun() and set(only) <= {PAGE}:
        write_members_page(ensemble, page)
        print(f"Wrote {page}")
        return
    record = Record.of(run_dir)
    subject = subject_of(record, changes)
    wanted = only or [name for name, pictures in PICTURES.items() if not pictures.if_named]
    pictures = _draw(record, subject, [name for name in wanted if name != PAGE], only, {"attention": chosen})
    if PAGE in only or not only:
        write_page(record, subject, pictures, page)
        print(f"Wrote {page}")


def report_comparison(run_dirs, out, changes):
    """Writes the page that compares runs.

    Args:
        run_dirs: folders of runs, or of several of each: `A0,A1:B0,B1`.
        out: HTML file to write; empty: `comparison.html` in the report of the first.
        changes: as for `report_run`.
    """
    groups = groups_of(run_dirs, MOST_GROUPS)
    page = _page(groups[0][0], out, "comparison.html")
    write_comparison(groups, page, changes)
    print(f"Wrote {page}")


def _page(run_dir, out, name):
    return Path(out or RunDirectory(run_dir).report / name)


def _draw(record, subject, wanted, asked, options):
    """Draws the pictures that a run has; returns caption by path.

    Args:
        record: `Record` of the run.
        subject: `Subject`; None draws nothing.
        wanted: names of pictures.
        asked: whether it is an error if the run lacks one.
        options: name of a picture to more arguments of it.
    """
    names = [name for name in wanted if subject and PICTURES[name].can_be_drawn(subject)]
    missing = [name for name in wanted if name not in names]
    if asked and missing:
        needed = ", and ".join(f"{name!r} for {PICTURES[name].of}" for name in missing)
        raise ValueError(f"The run in {record.run.path} has nothing to draw. There are pictures {needed}.")
    drawn, folder = {}, record.run.report
    for name in names:
        folder.mkdir(exist_ok=True)
        with naming(folder):
            paths = PICTURES[name].draw(subject, folder, **options.get(name, {}))
        for path in paths:
            drawn[path] = PICTURES[name].captions.get(path.stem, path.stem.replace("_", " ").capitalize())
            print(f"Wrote {path}", flush=True)
    drawn = {path: caption for path, caption in drawn.items() if path.suffix == ".png"}
    if drawn:
        _show_in_tensorboard(drawn, record.run.tensorboard_of("report"), record.best_step(subject.experiment.monitor))
    return drawn


def _show_in_tensorboard(paths, folder, step):
    with tf.summary.create_file_writer(str(folder)).as_default():
        for path in paths:
            picture = tf.io.decode_png(path.read_bytes(), channels=3)
            tf.summary.image(path.stem, picture[None], step=step)
