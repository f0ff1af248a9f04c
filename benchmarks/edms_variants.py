"""The variants of EDMS that its Table 2 compares, and its numbers of members: `python -m benchmarks.edms_variants`.

Trains configs/toycars_edms.flags with each of the changes below and each seed, for as many steps with the same batches,
and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1 of the first members together
(Figure 4 of the paper) and of a member alone, of NMI of all members, and their correlation. Runs are kept; see
`benchmarks.runs`. Only Figure 4: `python -m benchmarks.edms_variants --row="EDMS (RW, P*), 10 members"`.
"""

import statistics

from benchmarks.rows import compare
from benchmarks.runs import recall_of_learners, spread

FLAGFILE = "configs/toycars_edms.flags"
# Rows of Table 2, in its order; the flagfiles toycars_edms_*.flags are the same.
CHANGES = {
    "EDMS (w/o)": ["--loss=n_pair(margin=0.0005)"],
    "EDMS (RW)": ["--loss=manifold_n_pair"],
    "EDMS (RW, P)": ["--loss=contextual_manifold(proxies='images')"],
    "EDMS (RW-int, P*)": ["--loss=intrinsic_manifold(proxies='hard')"],
    "EDMS (P*)": ["--loss=proxy_n_pair(proxies='hard')"],
    "EDMS (RW, P*)": [],
    "EDMS (RW, P*), 10 members": ["--members=10"],
}
MEMBERS = (1, 2, 5, 10)
HEADS = ["", *(f"Recall@1 of {count}" for count in MEMBERS), "a member's", "NMI", "correlation"]


def row(results, run_dirs):
    del run_dirs
    learners = [result["learners"] for result in results]
    trained = len(learners[0]["first"])
    first = [[each["first"][count - 1]["recall_at_1"] for each in learners] for count in MEMBERS if count <= trained]
    cells = [spread(recalls) for recalls in first] + [""] * (len(MEMBERS) - len(first))
    nmi = spread([result["metrics"]["nmi"] for result in results])
    correlation = f"{statistics.mean(each['correlation'] for each in learners):.3f}"
    return [*cells, spread(recall_of_learners(learners)), nmi, correlation]


if __name__ == "__main__":
    compare(__doc__, FLAGFILE, CHANGES, "runs/edms", HEADS, row)
