"""Trains an embedding: `python -m tfdml.train --flagfile=configs/quickstart.flags`."""

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
    "Folder of the run; the same flags resume a run in it, larger --steps go on. Default: runs/<time>."
)
tfdml_flags.define_debug()
flags.DEFINE_integer("member", None, "Train this member of --members alone, from 0 on. Default: all, then join them.")
flags.DEFINE_bool(
    "scale_to_data",
    False,
    "Fit flags to the dataset that is there, so that a paper's recipe runs on a few classes of few images: classes, "
    "images and neighbors in a batch, learners with clusters, --meta_classes, clusters of --labels, and the length of "
    "an epoch. The values that fit are printed, and are the run's own.",
)
flags.DEFINE_bool("list", False, "Print every dataset, backbone, method, loss, sampler, recipe, ... and exit.")
WITHOUT_FLAGS = (
    f"No flag says what to train: --backbone=small learns --dataset=toycars, drawn cars, with --loss=triplet, for "
    f"{STEPS:,} steps. That takes some 20 minutes on two CPU cores. Ctrl-C stops it; --help shows all flags."
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
        how = "The same command goes on from there." if named else f"This command goes on from there: {again}"
        raise TrainingStopped(f"{stopped} {how}") from None
    if result:
        command.print_next("tfdml.report", f"--run_dir={run_dir}", *command.own_modules(settings.run.import_modules))


def _train(settings, run_dir):
    """Trains a run, an ensemble or one of its members, and prints what it reaches.

    Returns the result in the folder; None if there is none yet, or another worker has it.
    """
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.directory.run_record import EnsembleDirectory
    from tfdml.run.ensembles import ensemble_tables, train_ensemble, train_member
    from tfdml.run.training.run_training import train

    number, count, serialized = flags.FLAGS.member, settings.run.members, tfdml_flags.serialize(TRAINING_FLAGS)
    if not count:
        if number is not None:
            raise ValueError("--member is the number of one of --members; give their number, too.")
        run = RunDirectory(run_dir)
        result = train(settings, run, serialized)
        _print_run(result, run)
        return result
    ensemble = EnsembleDirectory(run_dir)
    if number is not None:
        _print_run(train_member(settings, ensemble, serialized, number), ensemble.member(number))
        print(f"\nWhen all {count} members are complete, give the command without --member to join them.")
        return None
    result, failed = train_ensemble(settings, ensemble, serialized, ["--debug"] * flags.FLAGS.debug)
    if result:
        command.print_result(ensemble_tables(result), ensemble.path)
    if failed:
        raise ValueError(failed)
    return result


def _print_run(result, run):
    """Prints the result of a run, if this worker has it."""
    from tfdml.run.training.gain import gain_in_words
    from tfdml.run.training.result import run_tables

    if result:
        command.print_result(run_tables(result), run.path, gain_in_words(result, run.settings()))


def _scale_to_data(run_dir):
    """Sets flags to values that fit the dataset, and prints them."""
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.training.run_sampler import scaled_to_data

    # A run that has begun keeps its classes, where a folder has new ones since.
    classes = RunDirectory(run_dir).recorded_dataset().get("classes")
    changed = []
    for name, value in scaled_to_data(tfdml_flags.settings_of(TRAINING_FLAGS), classes).items():
        before, flags.FLAGS[name].value = flags.FLAGS[name].value, value
        changed.append(f"--{name}={value} instead of {before}")
    print(f"--scale_to_data: {'; '.join(changed) or 'all flags fit the dataset, and none changes'}.")


def begin():
    """Prints what happens, and where, before TensorFlow is imported."""
    if flags.FLAGS.list:
        return
    if flags.FLAGS.devices == "workers" and not flags.FLAGS.run_dir:
        raise ValueError("--devices=workers needs --run_dir, a folder that all workers share.")
    if not any(flags.FLAGS[name].present for name in TRAINING_FLAGS):
        print(WITHOUT_FLAGS)
    if recipe := tfdml_flags.complete(flags.FLAGS):
        listed = tfdml_flags.command_line(*recipe)
        print(f"--data_dir without --dataset is a folder of photos. Flags that are not given: {listed}")
    if tfdml_flags.without_network(flags.FLAGS):
        print("--dataset has features, which no network computes: --backbone=identity.")
    run_dir, named = _folder()
    tfdml_flags.check_outside(flags.FLAGS, "run_dir", run_dir)
    if not named:
        print(f"The run is in {run_dir}; with --run_dir={run_dir} the same flags go on with it.")
    print("Starting TensorFlow ...")


@functools.cache
def _folder():
    """Returns the folder of the run, and whether a flag names it."""
    # To the millisecond: several may be started at once.
    return flags.FLAGS.run_dir or f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S-%f}"[:-3], bool(flags.FLAGS.run_dir)


if __name__ == "__main__":
    command.run(main, before=begin)
