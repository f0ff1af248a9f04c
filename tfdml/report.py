"""Draws pictures of a complete run into its folder `report/`: `python -m tfdml.report --run_dir=runs/quickstart`."""

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
tfdml_flags.define_debug()
flags.DEFINE_list("only", [], "Pictures to draw, such as learners; empty: all that the run has.")
flags.DEFINE_list("channels", [], "Channels of attention to draw, such as 350; empty: where learners differ most.")
flags.DEFINE_list("learners", [], "Learners whose attention to draw, such as 0,1,2; empty: all.")


def main():
    from tfdml.run.experiment import trained
    from tfdml.run.pictures import PICTURES
    from tfdml.run.run_directory import RunDirectory
    from tfdml.run.subject import Subject

    unknown = [name for name in flags.FLAGS.only if name not in PICTURES]
    if unknown:
        raise ValueError(f"Unknown picture {unknown[0]!r} in --only. Known: {', '.join(PICTURES)}.")
    experiment, model = trained(flags.FLAGS.run_dir, "best")
    run = RunDirectory(flags.FLAGS.run_dir)
    result = run.complete_result()
    subject = Subject(experiment, model, run, result)
    wanted = flags.FLAGS.only or PICTURES
    names = [name for name in wanted if PICTURES[name].can_be_drawn(subject)]
    missing = [name for name in wanted if name not in names]
    if missing and (flags.FLAGS.only or not names):
        needed = ", and ".join(f"{name!r} for {PICTURES[name].of}" for name in missing)
        raise ValueError(f"The run in {run.path} has nothing to draw. There are pictures {needed}.")
    run.report.mkdir(exist_ok=True)
    chosen = {"attention": {name: numbers for name in ("channels", "learners") if (numbers := numbers_of(name))}}
    drawn = []
    for name in names:
        drawn += PICTURES[name].draw(subject, run.report, **chosen.get(name, {}))
    show_in_tensorboard(drawn, run.tensorboard / "report", result["best"]["step"])
    print("\n".join(f"Wrote {path}" for path in drawn))


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
