"""Ranked List Loss at several levels of the network: `python -m benchmarks.study ranked_list`.

Trains configs/toycars_rll.flags with each subset of the levels L, M and H and each seed, with the same number of steps
and the same batch size. It prints a Markdown table with the mean ± standard deviation over seeds, in percent, of
Recall@1 of the final model and of its levels alone, and the gain in Recall@1 in the last quarter of the steps, which is
near 0 if a run has converged. It keeps the runs and does not train a complete run again. This command trains longer:
`python -m benchmarks.study ranked_list --epochs=32 --eval_every=4`. For margins and temperatures, see
`ranked_list_boundaries`, and for other losses, `ranked_list_losses`.
"""

from benchmarks.studies.columns import trainable_parameters
from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf, gained_late, recall_alone

FLAGFILE = "configs/toycars_rll.flags"
LEVELS = {"L": "stage2", "M": "stage3", "H": "stage4"}


def levels(names):
    """Returns the flags of a subset of the levels, with 64 dimensions each."""
    endpoints = tuple(LEVELS[name] for name in names)
    method = f"multilevel(endpoints={endpoints}, reduced=32, hidden=128)"
    return [f"--method={method}", f"--embedding_size={64 * len(names)}"]


# Small versions of Tables VI and VII of the paper.
CHANGES = {
    "L, M, H": [],
    **{", ".join(names): levels(names) for names in ("L", "M", "H", "LM", "LH", "MH")},
    # The same total size as three levels.
    "H, 192 dimensions": [levels("H")[0], "--embedding_size=192"],
}
COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "a level's Recall@1": recall_alone,
    "gain in the last quarter": gained_late,
    "parameters": trainable_parameters,
}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/ranked_list",
    which="final",
)
