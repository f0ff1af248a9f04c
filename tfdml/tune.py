"""Searches for the best training settings in a given time: `python -m tfdml.tune --data_dir=photos --minutes=30`.

The search chooses loss, learning rate, method, image size and crops, except for those that you set with flags. Each
trial trains on some of the training classes and is evaluated on the others; the test set is never used.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.settings import values_of
from tfdml.console.startup import TrainingStopped

TRAINING_FLAGS = tfdml_flags.define_training()
flags.DEFINE_string(
    "tune_dir", "runs/tune", "Directory of the search. If it holds a search with the same flags, that search resumes."
)
flags.DEFINE_list(
    "features",
    [],
    "Folders of python -m tfdml.embed with the features of the same photos by several backbones. The search trains a "
    "linear head on the features of each, with several learning rates, and selects a backbone.",
)
flags.DEFINE_float("minutes", 30.0, "Maximum duration of the search, in minutes.", lower_bound=0.0)
tfdml_flags.define_debug()
# Names of the flags on the command line, before the defaults for photos are added.
fixed = []


def main():
    from tfdml.run.tuning.search import search

    values = flags.FLAGS
    settings, serialized = tfdml_flags.settings_of(TRAINING_FLAGS), tfdml_flags.serialize(TRAINING_FLAGS)
    options = {"tune_dir": values.tune_dir, "minutes": values.minutes, "more": ["--debug"] * values.debug}
    options |= {"features": values.features}
    try:
        table, sentences, flagfile, run_dir = search(settings, serialized, fixed, **options)
    except TrainingStopped as stopped:
        raise TrainingStopped(f"{stopped} To resume, repeat the same command.") from None
    print(f"\n{table}\n")
    print("\n".join(sentences))
    best = tfdml_flags.command_line("python", "-m", "tfdml.train", f"--flagfile={flagfile}")
    print(
        f"\nTo train with the best settings and evaluate on the test set: {best}\nRun directory of the trial: {run_dir}"
    )


def begin():
    """Checks flags and prints what the command will do, before TensorFlow is imported."""
    if flags.FLAGS.features:
        command.refuse_unused(["data_dir", "dataset", "backbone", "initial_model"], "the search trains on --features")
        flags.FLAGS["dataset"].value = tfdml_flags.features_spec(flags.FLAGS.features[0])
    elif not flags.FLAGS.data_dir:
        raise ValueError(
            "--data_dir is missing. Set it to the folder of your images, as for python -m tfdml.train, or set "
            "--features to folders of python -m tfdml.embed."
        )
    for name, reason in values_of("why_not_searched").items():
        command.refuse_unused([name], reason)
    if flags.FLAGS.devices == "workers":
        raise ValueError("--devices=workers cannot be used here, because a search runs on one machine. Remove it.")
    fixed.extend(name for name in TRAINING_FLAGS if flags.FLAGS[name].present)
    if flags.FLAGS.features and "initial_embedding" not in fixed:
        # The default, auto, needs far more time than training a head.
        flags.FLAGS["initial_embedding"].parse("lda")
    recipe = tfdml_flags.complete(flags.FLAGS, any_dataset=True)
    tfdml_flags.check_outside(flags.FLAGS, "tune_dir", flags.FLAGS.tune_dir)
    if tfdml_flags.without_network(flags.FLAGS):
        fixed.extend(tfdml_flags.OF_IMAGES)
    listed = tfdml_flags.command_line(*recipe)
    print(f"The search starts from the default settings. For flags that you did not set, these are: {listed}")
    print(f"Search directory: {flags.FLAGS.tune_dir}. To resume the search later, repeat the same command.")
    print("Starting TensorFlow ...")


if __name__ == "__main__":
    command.run(main, before=begin)
