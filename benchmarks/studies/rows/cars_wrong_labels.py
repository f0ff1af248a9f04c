"""Losses with wrong labels on half of Cars196: `python -m benchmarks.study cars_wrong_labels --data_dir=data/cars`.

Trains configs/cars_half.flags for 800 steps with losses that bear wrong labels and with what they are made of, each
with the classes as labels, and with those of a fifth of the training images exchanged for others. Nothing is searched:
settings are those that validation chose on emoji, or alike. Prints a Markdown table of Recall@1 and MAP@R of the last
models on test classes, in percent, and of what they began with. docs/evidence/labels.md has the results.
"""

from benchmarks.studies.sources_of_labels import wrong_labels

STUDY = wrong_labels("configs/cars_half.flags", "runs/cars_wrong_labels")
