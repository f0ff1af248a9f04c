"""The variants of EDMS that its Table 2 compares: `python -m benchmarks.edms_variants`.

Trains configs/toycars_edms.flags with each of the changes below and each seed, for as many steps with the same batches,
and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1, 2, 4 and 8 and NMI of the
final model, and what Recall@1 gained in the last quarter of the steps, near 0 where a run is finished. Runs are kept;
see `benchmarks.runs`.
"""

from benchmarks.runs import compare, gained_late, spread

FLAGFILE = "configs/toycars_edms.flags"
# Rows of Table 2, in its order; the flagfiles toycars_edms_*.flags are the same.
CHANGES = {
    "EDMS (w/o)": ["--loss=n_pair(margin=0.0005)"],
    "EDMS (RW)": ["--loss=manifold_n_pair"],
    "EDMS (RW, P)": ["--loss=contextual_manifold(proxies='images')"],
    "EDMS (RW-int, P*)": ["--loss=intrinsic_manifold(proxies='hard')"],
    "EDMS (P*)": ["--loss=proxy_n_pair(proxies='hard')"],
    "EDMS (RW, P*)": [],
}
METRICS = {"Recall@1": "recall_at_1", "2": "recall_at_2", "4": "recall_at_4", "8": "recall_at_8", "NMI": "nmi"}
HEADS = ["", *METRICS, "gained late"]


def row(results, run_dirs):
    metrics = [[result["metrics"][name] for result in results] for name in METRICS.values()]
    return [*map(spread, metrics), spread(gained_late(run_dirs))]


if __name__ == "__main__":
    compare(__doc__, FLAGFILE, CHANGES, "runs/edms", HEADS, row)
