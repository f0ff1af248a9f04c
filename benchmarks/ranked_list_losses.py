"""Ranked List Loss beside the losses that its paper compares: `python -m benchmarks.ranked_list_losses`.

Trains configs/toycars_rll.flags with one embedding of 64 dimensions and each of the losses below. First each is trained
with two settings, one seed and 12 epochs, and validation classes choose. Prints a Markdown table of these, and another:
mean ± standard deviation over seeds, in percent, of Recall@1 of the final model, and what Recall@1 gained in the last
quarter of the steps, near 0 where a run is finished. Runs are kept; see `benchmarks.runs`. Longer:
`python -m benchmarks.ranked_list_losses --epochs=32 --eval_every=4 "--schedule=step(at=(20,))"`.
"""

from benchmarks.emoji_losses import LOSSES, PROXIES
from benchmarks.rows import compare
from benchmarks.runs import gained_late, metric_of, spread

FLAGFILE = "configs/toycars_rll.flags"
ONE_LEVEL = ["--method=single", "--embedding_size=64"]
# Those of the paper's tables.
ROWS = (
    "ranked list, simpler",
    "triplet, semi-hard",
    "lifted structure",
    "N-pair",
    "Proxy-NCA",
    "multi-similarity",
    "SoftTriple",
)
CHANGES = {name: [*ONE_LEVEL, *["--lr_multipliers=loss=10"] * (name in PROXIES)] for name in ROWS}
# As in its article.
CHANGES["lifted structure"] = [
    "--method=single(normalize=False)",
    "--embedding_size=64",
    "--protocol=self_retrieval(distance='euclidean')",
]
SETTINGS = {name: [[f"--loss={loss}"] for loss in LOSSES[name]] for name in ROWS}
SEARCHING = ("--evaluate_on=validation", "--epochs=12", "--eval_every=4", "--patience=0")
HEADS = ["", "Recall@1", "gain in the last quarter"]


def row(results, run_dirs):
    return [metric_of("metrics", results), spread(gained_late(run_dirs))]


if __name__ == "__main__":
    more = {"settings": SETTINGS, "searching": SEARCHING, "which": "final"}
    compare(__doc__, FLAGFILE, CHANGES, "runs/ranked_list_losses", HEADS, row, **more)
