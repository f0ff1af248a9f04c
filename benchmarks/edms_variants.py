"""The variants of EDMS that its Table 2 compares, and its numbers of members: `python -m benchmarks.edms_variants`.

Trains configs/toycars_edms.flags with each of the changes below and each seed, for as many steps with the same batches.
First a single member of each is trained with the same number of settings, and validation classes choose: the learning
rate, and a factor of all similarities, which the paper does not have. Prints a Markdown table of these, and another:
mean ± standard deviation over seeds, in percent, of Recall@1 of the first members together (Figure 4 of the paper) and
of a member alone, of NMI of all members, and their correlation. Runs are kept; see `benchmarks.runs`. Only Figure 4:
`python -m benchmarks.edms_variants --row="EDMS (RW, P*), 10 members"`. Smaller images take less than half of the time:
`--image_size=32`.
"""

import statistics

from benchmarks.rows import compare
from benchmarks.runs import recall_of_learners, spread

FLAGFILE = "configs/toycars_edms.flags"
# Rows of Table 2, in its order, which are also the flagfiles toycars_edms_*.flags with a scale of 1; the losses with
# proxies that are learnt; and more members. Similarities along the manifold differ by far less than dot products.
LOSSES = {
    "EDMS (w/o)": ("n_pair(margin=0.0005", (1.0, 20.0)),
    "EDMS (RW)": ("manifold_n_pair(margin=0.0005", (1.0, 500.0)),
    "EDMS (RW, P)": ("contextual_manifold(proxies='images'", (1.0, 2000.0)),
    "EDMS (RW-int, P*)": ("intrinsic_manifold(proxies='hard'", (1.0, 500.0)),
    "EDMS (P*)": ("proxy_n_pair(proxies='hard'", (1.0, 20.0)),
    "EDMS (RW, P*)": ("contextual_manifold(proxies='hard'", (1.0, 2000.0)),
    "(4), proxies learnt": ("proxy_n_pair(proxies='learnt'", (1.0, 20.0)),
    "(12), proxies learnt": ("contextual_manifold(proxies='learnt'", (1.0, 2000.0)),
    "EDMS (RW, P*), 10 members": ("contextual_manifold(proxies='hard'", (1.0, 2000.0)),
}
RATES = ("1e-4", "3e-4")
SETTINGS = {
    name: [
        [f"--loss={loss}, scale={scale})", f"--optimizer=adam(learning_rate={rate}, epsilon=1e-8)"]
        for scale in scales
        for rate in RATES
    ]
    for name, (loss, scales) in LOSSES.items()
}
# Two members show what several gain, and ten how it goes on.
CHANGES = {
    name: [f"--members={10 if name.endswith('10 members') else 2}"]
    + ["--lr_multipliers=loss=30"] * name.endswith("learnt")
    for name in LOSSES
}
SEARCHING = ("--members=0", "--evaluate_on=validation")
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
    compare(__doc__, FLAGFILE, CHANGES, "runs/edms", HEADS, row, settings=SETTINGS, searching=SEARCHING)
