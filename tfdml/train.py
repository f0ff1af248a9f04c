"""Trains an embedding: `python -m tfdml.train --flagfile=configs/quickstart.flags`."""

import datetime

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags

TRAINING_FLAGS = tfdml_flags.define_training()
tfdml_flags.define_run_dir("Folder of the run; the same flags resume a run in it. Default: runs/<time>.")
tfdml_flags.define_debug()
flags.DEFINE_integer(
    "member", None, "Train this member of --members alone, counted from 0. Default: all, then join them."
)
flags.DEFINE_bool("list", False, "Print every dataset, backbone, method, loss, sampler, ... with arguments, and exit.")


def main():
    from tfdml import registry
    from tfdml.run.run_directory import RunDirectory
    from tfdml.run.training import train

    if flags.FLAGS.list:
        registry.import_modules(flags.FLAGS.import_modules)
        for kind in registry.ROOMS:
            print(f"{kind}:")
            for line in registry.describe(kind):
                print(f"  {line}")
        return
    if flags.FLAGS.devices == "workers" and not flags.FLAGS.run_dir:
        raise ValueError("--devices=workers needs --run_dir, a folder that all workers share.")
    settings, serialized = tfdml_flags.settings_of(TRAINING_FLAGS), tfdml_flags.serialize(TRAINING_FLAGS)
    # To the millisecond: several may be started at once.
    run_dir = flags.FLAGS.run_dir or f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]
    if settings.members:
        _train_members(settings, run_dir, serialized)
    elif flags.FLAGS.member is not None:
        raise ValueError("--member is the number of one of --members; give their number, too.")
    else:
        train(settings, RunDirectory(run_dir), serialized)


def _train_members(settings, run_dir, serialized):
    from tfdml.run.ensemble_directory import EnsembleDirectory
    from tfdml.run.members import train_ensemble, train_member

    run = EnsembleDirectory(run_dir)
    if flags.FLAGS.member is None:
        train_ensemble(settings, run, serialized, ["--debug"] * flags.FLAGS.debug)
    else:
        train_member(settings, run, serialized, flags.FLAGS.member)


def tell_start():
    if not flags.FLAGS.list:
        print("Starting TensorFlow ...")


if __name__ == "__main__":
    command.run(main, before=tell_start)
