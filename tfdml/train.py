"""Trains an embedding model: `python -m tfdml.train --data_dir=photos`.

python -m tfdml.train --data_dir=photos --run_dir=runs/photos
python -m tfdml.train --flagfile=configs/quickstart.flags
"""

import datetime
import functools
import sys

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.console.startup import TrainingStopped
from tfdml.run.experiment.length import STEPS

TRAINING_FLAGS = tfdml_flags.define_training()
tfdml_flags.define_run_dir(
    "Directory of the run. If it holds a run with the same flags, training resumes; a larger --steps makes a complete "
    "run longer. If not set, the run is stored in runs/<time>."
)
tfdml_flags.define_debug()
flags.DEFINE_integer(
    "member",
    None,
    "Train only this member of --members, counted from 0, for example to train members on several machines. If not "
    "set, all members are trained and then joined.",
)
flags.DEFINE_bool(
    "scale_to_data",
    False,
    "Reduce flags to values that fit the dataset, so that the configuration of a paper runs on a few classes with "
    "few images: classes, images and neighbors per batch, learners with clusters, --meta_classes, clusters of "
    "--labels, and the length of an epoch. The command prints the new values and stores them with the run.",
)
flags.DEFINE_bool(
    "list", False, "Print all datasets, backbones, methods, losses, samplers and other components, and exit."
)
WITHOUT_FLAGS = (
    "No dataset is set, so this run uses the defaults: it trains --backbone=small on the drawn cars of "
    f"--dataset=toycars with --loss=triplet for {STEPS:,} steps, which takes about 20 minutes on two CPU cores. Press "
    "Ctrl-C to stop it. To train on your own photos, set --data_dir. For all flags, see --help."
)


def main():
    from tfdml.run.parts_list import parts_list

    if flags.FLAGS.list:
        for kind, lines in parts_list(flags.FLAGS.import_modules).items():
            print("\n  ".join([f"{kind}:", *lines]))
        return
    run_dir, named = _folder()
    if flags.FLAGS.scale_to_data:
        _scale_to_data(run_dir)
    settings = tfdml_flags.settings_of(TRAINING_FLAGS)
    try:
        result = _train(settings, run_dir)
    except TrainingStopped as stopped:
        again = tfdml_flags.command_line("python", "-m", "tfdml.train", *sys.argv[1:], f"--run_dir={run_dir}")
        how = "To resume, repeat the same command." if named else f"To resume, run {again}"
        raise TrainingStopped(f"{stopped} {how}") from None
    if result:
        command.print_next("tfdml.report", f"--run_dir={run_dir}", *command.own_modules(settings.run.import_modules))


def _train(settings, run_dir):
    """Trains a run, an ensemble or one of its members. Prints the scores.

    Returns the result in the directory, or None if it is not complete or if another worker has it.
    """
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.directory.run_record import EnsembleDirectory
    from tfdml.run.ensembles import ensemble_tables, train_ensemble, train_member
    from tfdml.run.training.run_training import train

    number, count, serialized = flags.FLAGS.member, settings.run.members, tfdml_flags.serialize(TRAINING_FLAGS)
    if not count:
        if number is not None:
            raise ValueError(
                f"--member={number} needs --members, the number of members of the ensemble. Set --members too."
            )
        run = RunDirectory(run_dir)
        result = train(settings, run, serialized, _exported)
        _print_run(result, run)
        return result
    ensemble = EnsembleDirectory(run_dir)
    if number is not None:
        _print_run(train_member(settings, ensemble, serialized, number, _exported), ensemble.member(number))
        joining = f"run the same command with --run_dir={run_dir} and without --member to join them"
        print(f"\nWhen all {count} members are complete, {joining}.")
        return None
    result, failed = train_ensemble(settings, ensemble, serialized, ["--debug"] * flags.FLAGS.debug)
    if result:
        command.print_result(ensemble_tables(result), ensemble.path)
    if failed:
        raise ValueError(failed)
    return result


def _exported(path):
    # Only a run with such a teacher imports this.
    from tfdml.serving.exported_model import ExportedModel

    return ExportedModel(path)


def _print_run(result, run):
    """Prints the result of a run if this worker has it."""
    from tfdml.run.training.distillation import kept_in_words
    from tfdml.run.training.gain import gain_in_words
    from tfdml.run.training.result import run_tables

    if result:
        verdicts = filter(None, [gain_in_words(result, run.settings()), kept_in_words(result)])
        command.print_result(run_tables(result), run.path, "\n".join(verdicts))


def _scale_to_data(run_dir):
    """Sets flags to values that fit the dataset and prints them."""
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.training.run_sampler import scaled_to_data

    # A run keeps the classes that it started with, even if the folder has new ones now.
    classes = RunDirectory(run_dir).recorded_dataset().get("classes")
    changed = []
    for name, value in scaled_to_data(tfdml_flags.settings_of(TRAINING_FLAGS), classes).items():
        before, flags.FLAGS[name].value = flags.FLAGS[name].value, value
        changed.append(f"--{name}={value} instead of {before}")
    print(f"--scale_to_data: {'; '.join(changed) or 'all flags fit the dataset; none was changed'}.")


def begin():
    """Prints what the command will do, and where, before TensorFlow is imported."""
    if flags.FLAGS.list:
        return
    if flags.FLAGS.devices == "workers" and not flags.FLAGS.run_dir:
        raise ValueError("--devices=workers needs --run_dir. Set it to a folder that all workers share.")
    if not any(flags.FLAGS[name].present for name in TRAINING_FLAGS):
        print(WITHOUT_FLAGS)
    if recipe := tfdml_flags.complete(flags.FLAGS):
        listed = tfdml_flags.command_line(*recipe)
        print(f"Training on a folder of photos. For flags that you did not set, these defaults are used: {listed}")
    if tfdml_flags.without_network(flags.FLAGS):
        print("--dataset contains precomputed features, so no network computes them: using --backbone=identity.")
    run_dir, named = _folder()
    tfdml_flags.check_outside(flags.FLAGS, "run_dir", run_dir)
    if not named:
        print(f"Run directory: {run_dir}. To resume this run later, repeat the command with --run_dir={run_dir}.")
    print("Starting TensorFlow ...")


@functools.cache
def _folder():
    """Returns the directory of the run and whether a flag sets it."""
    # Milliseconds keep runs apart that start in the same second.
    return flags.FLAGS.run_dir or f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S-%f}"[:-3], bool(flags.FLAGS.run_dir)


if __name__ == "__main__":
    command.run(main, before=begin)
