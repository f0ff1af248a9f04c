"""The batch that `python -m tfdml.show` draws: images as a run's network sees them."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from tfdml import registry
from tfdml.reporting.sheets import draw_batch
from tfdml.reporting.subject import pixels_of
from tfdml.run.experiment.experiment import Experiment, set_up
from tfdml.run.experiment.length import Length
from tfdml.run.training.initial_model import InitialModel
from tfdml.run.training.run_sampler import make_sampler


def show_batch(settings, split, step, most, out):
    """Draws a batch of a run, and returns what it says of it.

    Args:
        settings: `Settings`.
        split: `train`, a batch after the training transform; `test`, one of evaluation.
        step: the step of training, or the number of the batch of evaluation.
        most: how many images are drawn at most.
        out: the PNG to write.
    """
    # One batch, in this process.
    settings = settings.replace(devices="auto", cache="none")
    experiment = Experiment.of(settings, set_up(settings.run))
    # All that decides how images are prepared.
    network = settings.network
    initial = InitialModel.of(network.initial_model).new_backbone() if network.initial_model else None
    model = SimpleNamespace(backbone=initial or registry.create("backbone", network.backbone))
    with experiment.naming_unreadable():
        batch = _training_batch if split == "train" else _evaluation_batch
        images, labels, names, transform = batch(experiment, model, step)
    size = f"{images.shape[1]} × {images.shape[2]}"
    kind = f"{'training' if split == 'train' else 'evaluation'} batch {step}"
    about = f"{settings.data.dataset}, {kind}: {len(images)} images of {len(set(labels.tolist()))} classes, {size}"
    about_pixels = experiment.images.preprocessing(model)
    pictures = pixels_of(images[:most], about_pixels.mean, about_pixels.std, about_pixels.channels)
    draw_batch(pictures, labels[:most], names or {}, out, title=f"{about}, {transform.replace('|', ' | ')}")
    return about


def _training_batch(experiment, model, step):
    """Images and labels of the batch of a step, the names of classes, and the transform."""
    settings, train = experiment.settings, experiment.splits.train
    sampler = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    length = Length.of(settings.length, settings.evaluation, len(train) // sampler.batch_size)
    of_epoch = length.steps_per_epoch
    progress = SimpleNamespace(pipeline_step=tf.Variable(step, dtype=tf.int64), steps_per_epoch=of_epoch)
    images, labels = next(iter(experiment.images.training(model, sampler, progress, of_epoch - step % of_epoch)))
    return images.numpy(), labels.numpy(), train.class_names, settings.images.train_transform


def _evaluation_batch(experiment, model, number):
    """The same of a batch of evaluation on the test split."""
    settings, test = experiment.settings.images, experiment.splits.test
    size = settings.eval_batch_size
    batches = -(-len(test) // size)
    if number >= batches:
        raise ValueError(f"--step={number}: evaluation has {batches} batches of {size} images, counted from 0.")
    rows = np.arange(number * size, min((number + 1) * size, len(test)))
    split = test.where(rows)
    images = next(iter(experiment.images.evaluation(split, model))).numpy()[: len(split)]
    return images, split.labels, test.class_names, settings.test_transform
