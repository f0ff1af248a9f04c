"""EDMS on the emoji dataset, with the variants of its Table 2: `python -m benchmarks.study emoji_edms`.

Trains configs/emoji.flags with some variants of `edms_variants`, two members each, and with P×K batches of 50 or 272
meta-classes, two or five members each. Validation classes select among four settings of each row with a single member,
one seed and 400 steps: two learning rates, and two values of the factor for all similarities or of the α of random
walks. It prints a Markdown table of all settings and one with the mean ± standard deviation over seeds, in percent:
Recall@1 of a single member (the mean over the members), Recall@1 of several members together, and the correlation of
the members. It uses the best models. Differences between rows follow below the table. It keeps the runs and does not
train a complete run again. docs/datasets.md describes the images, and --data_dir is their folder.
"""

from benchmarks.studies.edms_of_images import edms_of_images
from benchmarks.studies.rows.emoji_losses import FLAGFILE

# Two of the 543 classes per meta-class.
STUDY = edms_of_images(FLAGFILE, "runs/emoji_edms", few=272)
