"""Searches for the settings of a run within a time: `python -m tfdml.tune --data_dir=photos --minutes=30`.

Trials train on some of the training classes and are measured on the others; none looks at the test. Flags of training
that are given stay as they are; of loss, learning rate, method, image size and crops those that are not are chosen.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.settings import values_of
from tfdml.console.startup import TrainingStopped

TRAINING_FLAGS = tfdml_flags.define_training()
flags.DEFINE_string("tune_dir", "runs/tune", "Folder of the search; the same flags go on with a search in it.")
flags.DEFINE_float("minutes", 30.0, "Time that the search may take.", lower_bound=0.0)
tfdml_flags.define_debug()
# Names of the flags on the command line, before the recipe fills in others.
fixed = []


def main():
    from tfdml.run.tuning import outcome
    from tfdml.run.tuning.search import search

    values = flags.FLAGS
    settings, serialized = tfdml_flags.settings_of(TRAINING_FLAGS), tfdml_flags.serialize(TRAINING_FLAGS)
    options = {"tune_dir": values.tune_dir, "minutes": values.minutes, "more": ["--debug"] * values.debug}
    try:
        state, leads, flagfile, run_dir = search(settings, serialized, fixed, **options)
    except TrainingStopped as stopped:
        raise TrainingStopped(f"{stopped} The same command goes on from there.") from None
    print(f"\n{outcome.table(state)}\n")
    print("\n".join(outcome.sentences(state, leads)))
    best = tfdml_flags.command_line("python", "-m", "tfdml.train", f"--flagfile={flagfile}")
    print(f"\nThis trains it, and measures the test: {best}\nThe trial itself is a run: {run_dir}")


def begin():
    """Checks flags, and prints what happens, before TensorFlow is imported."""
    if not flags.FLAGS.data_dir:
        raise ValueError("--data_dir is missing: the folder of your images, as python -m tfdml.train takes it.")
    for name, reason in values_of("why_not_searched").items():
        command.refuse_unused([name], reason)
    if flags.FLAGS.devices == "workers":
        raise ValueError("A search runs on one machine; leave out --devices=workers.")
    fixed.extend(name for name in TRAINING_FLAGS if flags.FLAGS[name].present)
    recipe = tfdml_flags.complete(flags.FLAGS, any_dataset=True)
    tfdml_flags.check_outside(flags.FLAGS, "tune_dir", flags.FLAGS.tune_dir)
    if tfdml_flags.without_network(flags.FLAGS):
        fixed.extend(tfdml_flags.OF_IMAGES)
    listed = tfdml_flags.command_line(*recipe)
    print(f"The recipe that the search begins with has, beside the flags that are given: {listed}")
    print(f"The search is in {flags.FLAGS.tune_dir}; the same command goes on with it.\nStarting TensorFlow ...")


if __name__ == "__main__":
    command.run(main, before=begin)
