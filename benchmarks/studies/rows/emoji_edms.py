"""EDMS on the emoji set, the variants of its Table 2 and its members: `python -m benchmarks.study emoji_edms`.

Trains configs/emoji.flags with some variants of `edms_variants`, two members each, and one with batches of
P×K of 50 or 272 meta-classes, two or five members. Validation chooses among four settings of each row with a single
member, one seed and 400 steps: two learning rates, and a factor of all similarities or the α of random walks. Prints a
Markdown table of all settings, and another: mean ± standard deviation over seeds, in percent, of Recall@1 of the best
models of a member alone, which is the mean over the members, and of the first members together, and how members
correlate. Below the table are differences between rows. Runs are kept. docs/emoji.md is about
the images; --data_dir says where they are.
"""

from benchmarks.studies.edms_of_images import edms_of_images
from benchmarks.studies.rows.emoji_losses import FLAGFILE

# Two of the 543 classes for each meta-class.
STUDY = edms_of_images(FLAGFILE, "runs/emoji_edms", few=272)
