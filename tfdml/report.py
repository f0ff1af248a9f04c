"""Writes the report of a run, complete or still going on, into its folder `report/`: a page, and the pictures in it.

python -m tfdml.report --run_dir=runs/quickstart
python -m tfdml.report --run_dirs=runs/a,runs/b
python -m tfdml.report --run_dirs=runs/a0,runs/a1:runs/b0,runs/b1
"""

from pathlib import Path

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags
from tfdml.checked_files import naming
from tfdml.run.groups import MOST_GROUPS, groups_of

# What --only names beside pictures.
PAGE = "page"

tfdml_flags.define_run_dir("Folder of a run.")
flags.DEFINE_string(
    "run_dirs", "", "In place of --run_dir: folders of runs to compare, A,B,C, or of several of each, A0,A1:B0,B1."
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved; empty: the run's own.")
flags.DEFINE_list("import_modules", [], "Your own modules to import; those of a run are only if they are named here.")
flags.DEFINE_string("out", "", "HTML file to write; empty: index.html, or comparison.html, in report/ of the run.")
tfdml_flags.define_debug()
flags.DEFINE_list("only", [], "Pictures to draw, such as learners, or page; empty: the page with all that the run has.")
flags.DEFINE_list("channels", [], "Channels of attention to draw, such as 350; empty: where learners differ most.")
flags.DEFINE_list("learners", [], "Learners whose attention to draw, such as 0,1,2; empty: all.")


def main():
    if flags.FLAGS.out and Path(flags.FLAGS.out).is_dir():
        raise ValueError(f"--out={flags.FLAGS.out} is a folder. Give a file in it, such as index.html.")
    if flags.FLAGS.run_dirs:
        compare_runs(flags.FLAGS.run_dirs)
    else:
        report_run(flags.FLAGS.run_dir, flags.FLAGS.only)


def report_run(run_dir, only):
    """Draws pictures of a run, and writes its page.

    Args:
        run_dir: folder of the run.
        only: names of the pictures; empty: all that the run has, and the page.
    """
    from tfdml.run.ensemble_directory import EnsembleDirectory
    from tfdml.run.members_page import write_members_page
    from tfdml.run.page import subject_of, write_page
    from tfdml.run.pictures import PICTURES
    from tfdml.run.record import Record

    unknown = [name for name in only if name not in (PAGE, *PICTURES)]
    if unknown:
        raise ValueError(f"Unknown picture {unknown[0]!r} in --only. Known: {', '.join(PICTURES)}; {PAGE} is the page.")
    if not run_dir:
        raise ValueError("Expected --run_dir, the folder of a run, or --run_dirs, several.")
    ensemble, page = EnsembleDirectory(run_dir), page_of(run_dir, "index.html")
    if not ensemble.has_flags and ensemble.begun() and set(only) <= {PAGE}:
        write_members_page(ensemble, page)
        print(f"Wrote {page}")
        return
    record = Record.of(run_dir)
    subject = subject_of(record, _changes())
    wanted = only or [name for name, pictures in PICTURES.items() if not pictures.if_named]
    pictures = draw_pictures(record, subject, [name for name in wanted if name != PAGE], asked=only)
    if PAGE in only or not only:
        write_page(record, subject, pictures, page)
        print(f"Wrote {page}")


def page_of(run_dir, name):
    """Returns the HTML file to write: that of `--out`, or the one of this name in the report of a run."""
    from tfdml.run.run_directory import RunDirectory

    return Path(flags.FLAGS.out or RunDirectory(run_dir).report / name)


def _changes():
    """Settings that the command replaces."""
    return command.given("data_dir", "import_modules")


def compare_runs(run_dirs):
    """Writes the page that compares runs.

    Args:
        run_dirs: value of `--run_dirs`.
    """
    for name in ("run_dir", "only", "channels", "learners"):
        if flags.FLAGS[name].value:
            raise ValueError(f"Expected one of --run_dirs and --{name}.")
    groups = groups_of(run_dirs, MOST_GROUPS)
    from tfdml.run.comparison_page import write_comparison

    page = page_of(groups[0][0], "comparison.html")
    write_comparison(groups, page, _changes())
    print(f"Wrote {page}")


def draw_pictures(record, subject, wanted, asked):
    """Draws the pictures that a run has; returns caption by path.

    Args:
        record: `Record` of the run.
        subject: `Subject`; None draws nothing.
        wanted: names of pictures.
        asked: whether it is an error if the run lacks one.
    """
    from tfdml.run.pictures import PICTURES

    names = [name for name in wanted if subject and PICTURES[name].can_be_drawn(subject)]
    missing = [name for name in wanted if name not in names]
    if asked and missing:
        needed = ", and ".join(f"{name!r} for {PICTURES[name].of}" for name in missing)
        raise ValueError(f"The run in {record.run.path} has nothing to draw. There are pictures {needed}.")
    chosen = {"attention": {name: numbers for name in ("channels", "learners") if (numbers := numbers_of(name))}}
    drawn, folder = {}, record.run.report
    for name in names:
        folder.mkdir(exist_ok=True)
        with naming(folder):
            paths = PICTURES[name].draw(subject, folder, **chosen.get(name, {}))
        for path in paths:
            drawn[path] = PICTURES[name].captions.get(path.stem, path.stem.replace("_", " ").capitalize())
            print(f"Wrote {path}", flush=True)
    drawn = {path: caption for path, caption in drawn.items() if path.suffix == ".png"}
    if drawn:
        show_in_tensorboard(drawn, record.run.tensorboard_of("report"), record.best_step(subject.experiment.monitor))
    return drawn


def numbers_of(name):
    """Returns the integers of a list flag."""
    given = flags.FLAGS[name].value
    try:
        return [int(each) for each in given]
    except ValueError:
        raise ValueError(f"Expected --{name} as numbers such as 0,1,2; received {','.join(given)}.") from None


def show_in_tensorboard(paths, folder, step):
    """Writes pictures as image summaries for TensorBoard."""
    import tensorflow as tf

    with tf.summary.create_file_writer(str(folder)).as_default():
        for path in paths:
            picture = tf.io.decode_png(path.read_bytes(), channels=3)
            tf.summary.image(path.stem, picture[None], step=step)


if __name__ == "__main__":
    command.run(main)
