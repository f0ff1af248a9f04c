"""Draws a batch as the network sees it: `python -m tfdml.show --flagfile=configs/quickstart.flags`."""

from pathlib import Path
from types import SimpleNamespace

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
    from tfdml import registry
    from tfdml.reporting import draw_batch
    from tfdml.reporting.subject import pixels_of
    from tfdml.run.experiment.experiment import Experiment
    from tfdml.run.experiment.tensorflow_setup import set_up

    out = Path(flags.FLAGS.out)
    if not out.absolute().parent.is_dir():
        # An error now, and not after the batch is read.
        raise ValueError(f"--out={out}: there is no folder {out.absolute().parent}.")
    if out.suffix.lower() != ".png":
        raise ValueError(f"--out={out}: expected a name that ends in .png.")
    # One batch, in this process.
    settings = tfdml_flags.settings_of(TRAINING_FLAGS).replace(devices="auto", cache="none")
    experiment = Experiment.of(settings, set_up(settings.run))
    # All that decides how images are prepared.
    model = SimpleNamespace(backbone=registry.create("backbone", settings.network.backbone))
    with experiment.naming_unreadable():
        batch = training_batch if flags.FLAGS.split == "train" else evaluation_batch
        images, labels, names, transform = batch(experiment, model, flags.FLAGS.step)
    size = f"{images.shape[1]} × {images.shape[2]}"
    kind = f"{'training' if flags.FLAGS.split == 'train' else 'evaluation'} batch {flags.FLAGS.step}"
    about = f"{settings.data.dataset}, {kind}: {len(images)} images of {len(set(labels.tolist()))} classes, {size}"
    shown = slice(flags.FLAGS.images)
    about_pixels = experiment.images.preprocessing(model)
    pictures = pixels_of(images[shown], about_pixels.mean, about_pixels.std, about_pixels.channels)
    draw_batch(pictures, labels[shown], names or {}, out, title=f"{about}, {transform.replace('|', ' | ')}")
    print(f"{about}: {out}")


def training_batch(experiment, model, step):
    """Images and labels of the batch of a step, the names of classes, and the transform."""
    import tensorflow as tf

    from tfdml.run.experiment.length import Length
    from tfdml.run.training.sampler import make_sampler

    settings, train = experiment.settings, experiment.splits.train
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    length = Length.of(settings.length, settings.evaluation, len(train) // sampler.batch_size)
    of_epoch = length.steps_per_epoch
    progress = SimpleNamespace(pipeline_step=tf.Variable(step, dtype=tf.int64), steps_per_epoch=of_epoch)
    images, labels = next(iter(experiment.images.training(model, sampler, progress, of_epoch - step % of_epoch)))
    return images.numpy(), labels.numpy(), train.class_names, settings.images.train_transform


def evaluation_batch(experiment, model, number):
    """The same of a batch of evaluation on the test split."""
    import numpy as np

    settings, test = experiment.settings.images, experiment.splits.test
    size = settings.eval_batch_size
    batches = -(-len(test) // size)
    if number >= batches:
        raise ValueError(f"--step={number}: evaluation has {batches} batches of {size} images, counted from 0.")
    rows = np.arange(number * size, min((number + 1) * size, len(test)))
    split = test.where(rows)
    images = next(iter(experiment.images.evaluation(split, model))).numpy()[: len(split)]
    return images, split.labels, test.class_names, settings.test_transform


if __name__ == "__main__":
    command.run(main)
