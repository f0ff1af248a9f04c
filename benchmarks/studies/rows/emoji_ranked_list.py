"""Ranked List Loss on emoji, with its levels and boundaries: `python -m benchmarks.study emoji_ranked_list`.

Trains configs/emoji.flags with ranked list loss and each of the changes below. Validation classes select among four
learning rates for each row with one seed and 400 steps. It prints a table of all settings and a table over all seeds,
in Markdown. The second one has the mean ± standard deviation, in percent, of Recall@1 on test classes of the best and
the last models, MAP@R of the best models, the number of steps until them, and the gain in Recall@1 on validation
classes in the last quarter of the steps, which is near 0 if a run has converged. It keeps the runs and does not train a
complete run again. docs/datasets.md describes the images, and --data_dir is their folder.
"""

from benchmarks.studies.columns import trainable_parameters
from benchmarks.studies.rows.emoji_ensembles import MORE_RATES
from benchmarks.studies.rows.emoji_losses import COLUMNS, FLAGFILE, SEARCHING
from tfdml.run.study.study import Study

# Features with 1/8, 1/16 and 1/32 of the images' side length, finer than the paper's 1/16, 1/32 and 1/32.
LEVELS = {"L": "block_5_add", "M": "block_12_add", "H": "output"}
# Dimensions of each level and of a single embedding.
SIZE = 128
RANKED_LIST = "--loss=ranked_list"


def levels(names):
    """Returns the flags of several levels. The backbone always has its output, so no flag asks for it."""
    endpoints = tuple(LEVELS[name] for name in names)
    asked = tuple(endpoint for endpoint in endpoints if endpoint != LEVELS["H"])
    backbone = f"--backbone=keras_applications(name='MobileNetV2', alpha=0.35, endpoints={asked})"
    return [backbone, f"--method=multilevel(endpoints={endpoints})", f"--embedding_size={len(names) * SIZE}"]


# Small versions of the rows of Tables VI, VII, IX and XI of the paper.
CHANGES = {
    "H": [RANKED_LIST],
    "L, H": [RANKED_LIST, *levels("LH")],
    "L, M, H": [RANKED_LIST, *levels("LMH")],
    # The same total size as three levels.
    "H, 384 dimensions": [RANKED_LIST, f"--embedding_size={len(LEVELS) * SIZE}"],
    "H, no margin": ["--loss=ranked_list(margin=0.0)"],
    "H, no diameter": ["--loss=ranked_list(margin=1.2)"],
    "H, negatives weighted equally": ["--loss=ranked_list(negative_temperature=0.0)"],
}
SETTINGS = {name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in MORE_RATES] for name in CHANGES}
# Each difference is the second row minus the first.
DIFFERENCES = [
    ("H", "L, H"),
    ("L, H", "L, M, H"),
    ("H", "L, M, H"),
    ("H, 384 dimensions", "L, M, H"),
    ("H, no margin", "H"),
    ("H, no diameter", "H"),
    ("H, negatives weighted equally", "H"),
]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns={**COLUMNS, "parameters": trainable_parameters},
    folder="runs/emoji_ranked_list",
    settings=SETTINGS,
    searching=SEARCHING,
    differences=DIFFERENCES,
)
