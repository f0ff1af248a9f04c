"""Measures Recall@1 with other batch norm statistics: `python -m benchmarks.studies.batch_statistics RUN_DIR...`.

It measures the final models of runs with `--freeze_batch_norm=none` on their test classes, once with the moving
averages of their training, and once with the statistics of training images. A run that learns nothing, with
`--steps=1 --lr_multipliers=*=0`, has the weights of a pretrained network and nearly its statistics. The command prints
a Markdown table of Recall@1, in percent.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from tfdml.layers.norms import batch_norms, moves_statistics
from tfdml.run.experiment.experiment import trained

# More images than the statistics need.
MOST_IMAGES, BATCH_SIZE = 8192, 64


def recall_of(run_dir):
    """Returns Recall@1 with the statistics of the final model and with the statistics of training images."""
    experiment, model = trained(run_dir, "final", {"metrics": ["recall_at_1"]}, test_only=False)
    if not any(map(moves_statistics, batch_norms(model))):
        raise ValueError(f"{run_dir} has no batch norm with moving statistics. Train it with --freeze_batch_norm=none.")
    train, test = experiment.splits.train, experiment.splits.test

    def recall():
        return experiment.measure(experiment.embed(model, test), test)["recall_at_1"]

    before = recall()
    rows = np.random.default_rng(0).permutation(len(train))[:MOST_IMAGES]
    batches = experiment.images.evaluation(train.where(rows), model)
    use_statistics_of(model, batches.unbatch().batch(BATCH_SIZE).as_numpy_iterator())
    return before, recall()


def use_statistics_of(model, batches):
    """Sets the moving statistics of batch norm to the mean statistics of batches of images."""
    for number, images in enumerate(batches):
        for norm in batch_norms(model):
            norm.momentum = number / (number + 1)
        model(images, training=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dirs", nargs="+", metavar="RUN_DIR")
    rows = [
        [Path(run_dir).name, *(f"{100 * recall:.1f}" for recall in recall_of(run_dir))]
        for run_dir in parser.parse_args().run_dirs
    ]
    print(markdown(["Run", "Moving averages", "Statistics of training images"], rows))


if __name__ == "__main__":
    main()
