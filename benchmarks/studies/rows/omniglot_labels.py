"""Sources of labels on the Omniglot dataset: `python -m benchmarks.study omniglot_labels --data_dir=data/omniglot`.

Trains configs/omniglot.flags for 600 steps with one loss and four sources of labels: views of each image, clusters of
about ten images that are updated every 100 steps, views and clusters together, and classes. It prints a Markdown table
of Recall@1 and MAP@R of the last models on test classes, in percent, and of the models before training. There is no
search. Flags may follow, for example `--optimizer=adam(learning_rate=0.0003)`, or
`--backbone=small(width=16) --initial_weights= --freeze_batch_norm=none` for random weights. docs/evidence/labels.md has
the results.
"""

from benchmarks.studies.sources_of_labels import sources_of_labels

STUDY = sources_of_labels(
    "configs/omniglot.flags",
    "runs/omniglot_labels",
    clusters=200,
    images=32,
    transform="random_resized_crop(area=(0.2, 1.0))|color_jitter",
)
