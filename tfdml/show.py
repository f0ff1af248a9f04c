"""Draws a batch of images as the network sees it: `python -m tfdml.show --flagfile=configs/quickstart.flags`."""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

TRAINING_FLAGS = tfdml_flags.define_training()
tfdml_flags.define_run_dir("Not used. It is accepted because the flagfiles of runs contain it.")
tfdml_flags.define_debug()
flags.DEFINE_string("out", "batch.png", "PNG file to write.")
flags.DEFINE_enum(
    "split",
    "train",
    ["train", "test"],
    "train shows a training batch after --train_transform, test an evaluation batch.",
)
flags.DEFINE_integer("step", 0, "Which batch to show: the training step, or the number of the evaluation batch.", 0)
flags.DEFINE_integer("images", 128, "Maximum number of images to draw.", lower_bound=1)


def main():
    # Imported here, because the import takes seconds.
    from tfdml.reporting.sheets import show_batch

    given, out = flags.FLAGS, Path(flags.FLAGS.out)
    if not out.absolute().parent.is_dir():
        # Fail before the batch is read.
        raise ValueError(f"--out={out}: the folder {out.absolute().parent} does not exist. Create it first.")
    if out.suffix.lower() != ".png":
        raise ValueError(f"--out must end in .png. Received: --out={out}.")
    settings = tfdml_flags.settings_of(TRAINING_FLAGS)
    print(f"{show_batch(settings, given.split, given.step, given.images, out)}: {out}")


if __name__ == "__main__":
    command.run(main)
