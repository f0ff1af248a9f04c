"""Trains an embedding: `python -m tfdml.train --flagfile=configs/quickstart.flags`."""

import time

from absl import flags

from tfdml import command
from tfdml import flags as tfdml_flags

TRAINING_FLAGS = tfdml_flags.define_training()
tfdml_flags.define_run_dir("Folder of the run; the same flags resume a run in it. Default: runs/<time>.")
tfdml_flags.define_debug()
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
    settings = tfdml_flags.settings_of(TRAINING_FLAGS)
    run = RunDirectory(flags.FLAGS.run_dir or time.strftime("runs/%Y%m%d-%H%M%S"))
    train(settings, run, tfdml_flags.serialize(TRAINING_FLAGS))


def tell_start():
    if not flags.FLAGS.list:
        print("Starting TensorFlow ...")


if __name__ == "__main__":
    command.run(main, before=tell_start)
