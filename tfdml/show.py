"""Draws a batch as the network sees it: `python -m tfdml.show --flagfile=configs/quickstart.flags`."""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

TRAINING_FLAGS = tfdml_flags.define_training()
tfdml_flags.define_run_dir("Not used; flagfiles of runs have it.")
tfdml_flags.define_debug()
flags.DEFINE_string("out", "batch.png", "The PNG to write.")
flags.DEFINE_enum("split", "train", ["train", "test"], "train: a batch after --train_transform; test: of evaluation.")
flags.DEFINE_integer("step", 0, "Which batch: the step of training, or the number of the batch of evaluation.", 0)
flags.DEFINE_integer("images", 128, "How many images of the batch are drawn at most.", lower_bound=1)


def main():
    # Here, because it takes seconds.
    from tfdml.reporting.sheets import show_batch

    given, out = flags.FLAGS, Path(flags.FLAGS.out)
    if not out.absolute().parent.is_dir():
        # An error now, and not after the batch is read.
        raise ValueError(f"--out={out}: there is no folder {out.absolute().parent}.")
    if out.suffix.lower() != ".png":
        raise ValueError(f"--out={out}: expected a name that ends in .png.")
    settings = tfdml_flags.settings_of(TRAINING_FLAGS)
    print(f"{show_batch(settings, given.split, given.step, given.images, out)}: {out}")


if __name__ == "__main__":
    command.run(main)
