"""Losses with label noise on half of Cars196: `python -m benchmarks.study cars_wrong_labels --data_dir=data/cars`.

Trains configs/cars_half.flags for 800 steps with losses that are robust to label noise and with the losses that they
are based on. Each loss trains with the correct labels and with the labels of 20% of the training images exchanged.
There is no search: the settings are those that validation selected on emoji, or similar ones. It prints a Markdown
table of Recall@1 and MAP@R of the last models on test classes, in percent, and of the models before training.
docs/evidence/labels.md has the results.
"""

from benchmarks.studies.sources_of_labels import wrong_labels

STUDY = wrong_labels("configs/cars_half.flags", "runs/cars_wrong_labels")
