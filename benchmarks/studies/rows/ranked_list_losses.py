"""Ranked List Loss and the losses that its paper compares: `python -m benchmarks.study ranked_list_losses`.

Trains configs/toycars_rll.flags with a single embedding of 64 dimensions and each of the losses below. First, it trains
each loss with two settings, one seed and 12 epochs, and validation classes select among them. It prints a Markdown
table of these settings and one with the mean ± standard deviation over seeds, in percent, of Recall@1 of the final
model, and the gain in Recall@1 in the last quarter of the steps, which is near 0 if a run has converged. It keeps the
runs and does not train a complete run again. This command trains longer:
`python -m benchmarks.study ranked_list_losses --epochs=32 --eval_every=4 "--schedule=step(at=(20,))"`.
"""

from benchmarks.studies.losses_and_methods import BEGUN_FOLLOW
from benchmarks.studies.rows.emoji_losses import LOSSES, PROXIES
from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf, gained_late

FLAGFILE = "configs/toycars_rll.flags"
ONE_LEVEL = ["--method=single", "--embedding_size=64"]
# The losses of the paper's tables.
ROWS = (
    "ranked list, simpler",
    "triplet, semi-hard",
    "lifted structure",
    "N-pair",
    "Proxy-NCA",
    "multi-similarity",
    "SoftTriple",
)
FASTER = {name: ["--lr_multipliers=loss=10"] * (name in PROXIES) for name in ROWS}
CHANGES = {name: [*ONE_LEVEL, *faster] for name, faster in FASTER.items()}
# As in the paper.
CHANGES["lifted structure"] = [
    "--method=single(normalize=False)",
    "--embedding_size=64",
    "--protocol=self_retrieval(distance='euclidean')",
]
# The start of the default configuration, with its loss and with a proxy-based loss.
CHANGES |= {name: [*FASTER[other], "--initial_embedding=wccn"] for name, other in BEGUN_FOLLOW.items()}
SETTINGS = {name: [[f"--loss={loss}"] for loss in LOSSES[name]] for name in ROWS}
SEARCHING = ("--evaluate_on=validation", "--epochs=12", "--eval_every=4", "--patience=0")
COLUMNS = {"Recall@1": MetricOf("metrics"), "gain in the last quarter": gained_late}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/ranked_list_losses",
    settings=SETTINGS,
    searching=SEARCHING,
    follow=BEGUN_FOLLOW,
    which="final",
)
