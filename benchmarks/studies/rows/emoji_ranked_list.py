"""Ranked List Loss on the emoji set, its levels and boundaries: `python -m benchmarks.study emoji_ranked_list`.

Trains configs/emoji.flags with ranked list loss and each of the changes below. Validation chooses among four learning
rates for each row with one seed and 400 steps. Prints a Markdown table of them, and one of all seeds: mean ± standard
deviation, in percent, on test classes, of the best and the last models, MAP@R of the best, steps to it, and what
Recall@1 on validation classes gained in the last quarter of the steps, near 0 where a run is finished. Runs are kept;
see `tfdml.run.study.runs`. docs/emoji.md is about the images; --data_dir says where they are.
"""

from benchmarks.studies.rows.emoji_ensembles import MORE_RATES
from benchmarks.studies.rows.emoji_losses import COLUMNS, FLAGFILE, SEARCHING
from tfdml.run.study.study import Study

# At an eighth, a sixteenth and a 32nd of the images' sides: finer than the paper's, at a sixteenth, a 32nd and a 32nd.
LEVELS = {"L": "block_5_add", "M": "block_12_add", "H": "output"}
# Dimensions of each level, and of one embedding.
SIZE = 128
RANKED_LIST = "--loss=ranked_list"


def levels(names):
    """Flags of several levels; the backbone has its output without asking."""
    endpoints = tuple(LEVELS[name] for name in names)
    asked = tuple(endpoint for endpoint in endpoints if endpoint != LEVELS["H"])
    backbone = f"--backbone=keras_applications(name='MobileNetV2', alpha=0.35, endpoints={asked})"
    return [backbone, f"--method=multilevel(endpoints={endpoints})", f"--embedding_size={len(names) * SIZE}"]


# Rows of Tables VI, VII, IX and XI of the paper in small.
CHANGES = {
    "H": [RANKED_LIST],
    "L, H": [RANKED_LIST, *levels("LH")],
    "L, M, H": [RANKED_LIST, *levels("LMH")],
    # As many dimensions as three levels have.
    "H, 384 dimensions": [RANKED_LIST, f"--embedding_size={len(LEVELS) * SIZE}"],
    "H, no margin": ["--loss=ranked_list(margin=0.0)"],
    "H, no diameter": ["--loss=ranked_list(margin=1.2)"],
    "H, negatives weighted equally": ["--loss=ranked_list(negative_temperature=0.0)"],
}
SETTINGS = {name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in MORE_RATES] for name in CHANGES}
# The second minus the first.
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
    columns=COLUMNS,
    folder="runs/emoji_ranked_list",
    settings=SETTINGS,
    searching=SEARCHING,
    differences=DIFFERENCES,
)
