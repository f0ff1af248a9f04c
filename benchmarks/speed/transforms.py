"""Measures each transform of an image of 224 × 224 pixels: `python -m benchmarks.speed.transforms`, with the extra cpu.

Transforms run one after another on one core, as they do while a GPU trains, in turn over rounds. The command prints a
Markdown table of medians of the processor time in milliseconds per image, without the cost of a step that does nothing.
"""

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf

import tfdml

SIDE = 224
STEPS = (
    "flip",
    "grayscale",
    "color_jitter",
    "color_jitter(hue=0.0)",
    "blur",
    "rotate",
    "jpeg",
    "random_erasing",
    "random_erasing(noise=True)",
    "rand_augment",
    "layer('RandomHue', factor=0.1)",
    "layer('RandomColorJitter', brightness_factor=0.4, contrast_factor=0.4, saturation_factor=0.4, hue_factor=0.1)",
    "layer('RandomRotation', factor=0.04)",
    "layer('RandomGaussianBlur', kernel_size=13, sigma=1.0)",
    "layer('RandAugment')",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200, help="Number of images per round.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures everything.")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    passes = {step: images_through(step, arguments.images) for step in ("", *STEPS)}
    found = {step: [] for step in passes}
    for _ in range(arguments.rounds):
        for step, dataset in passes.items():
            found[step].append(seconds(dataset))
    print("| Transform | ms |", "|---|---|", sep="\n")
    for step in STEPS:
        spent = [with_step - without for with_step, without in zip(found[step], found[""], strict=True)]
        print(f"| `{step}` | {1000 * statistics.median(spent) / arguments.images:.2f} |", flush=True)


def images_through(step, count):
    """Returns a dataset that applies a transform to images, one by one. An empty transform changes nothing."""
    noise = np.random.default_rng(0).uniform(0, 255, (SIDE // 8, SIDE // 8, 3))
    # Smooth like photos, because the cost of a JPEG file depends on this.
    image = tf.image.resize(noise, (SIDE, SIDE), "bicubic")
    image = tf.clip_by_value(image, 0.0, 254.0)
    made = tfdml.registry.create("transform", step) if step else lambda image, seed: image

    def through(number):
        # Another seed each time, so that no result is cached.
        return tf.reduce_sum(made(image + tf.cast(number % 2, tf.float32), tf.stack([0, tf.cast(number, tf.int32)])))

    dataset = tf.data.Dataset.range(count).map(tf.autograph.experimental.do_not_convert(through))
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    dataset = dataset.with_options(options)
    seconds(dataset)
    return dataset


def seconds(dataset):
    began = time.process_time()
    for _ in dataset:
        pass
    return time.process_time() - began


if __name__ == "__main__":
    main()
