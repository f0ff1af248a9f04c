"""Compares sources of labels: none, clusters and classes, also with label noise."""

from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf

CLASSES, CLUSTERS, VIEWS, BOTH = "classes", "clusters", "views", "views and clusters"
# Share of labels that are exchanged.
WRONG = 0.2
N_PAIR = "--loss=n_pair(scale=20.0)"
# The settings that validation selected on emoji, in `emoji_losses`, or similar ones. Each loss that is robust to label
# noise differs in one thing from another loss. The backbone is frozen at first, because otherwise everything depends on
# the random initial proxies.
PROXIES = ["--lr_multipliers=loss=100", "--freeze_until=200"]
CONTRASTIVE = ["--loss=contrastive(margin=1.0)", "--optimizer=adam(learning_rate=0.0001)"]
LOSSES = {
    "N-pair": [N_PAIR, "--optimizer=adam(learning_rate=0.0003)"],
    "contrastive": CONTRASTIVE,
    "contrastive, memory": [*CONTRASTIVE, "--memory=xbm(size=2048, start=200)"],
    "contrastive, memory that agrees": [*CONTRASTIVE, f"--memory=agreement(size=2048, start=200, share={WRONG})"],
    "NormSoftmax": ["--loss=norm_softmax(temperature=0.1)", *PROXIES],
    "generalized cross-entropy": ["--loss=generalized_cross_entropy(q=0.7, temperature=0.1)", *PROXIES],
    "ArcFace": ["--loss=arc_face(scale=16.0, margin=0.3)", *PROXIES],
    "sub-center ArcFace": ["--loss=sub_center_arc_face(scale=16.0, margin=0.3, per_class=2)", *PROXIES],
}


def before(which):
    """Returns a column of Recall@1 before training. It is empty for random weights, which have no measured features."""

    def column(results, run_dirs):
        return MetricOf(which)(results, run_dirs) if all(which in result for result in results) else ""

    return column


COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "MAP@R": MetricOf("metrics", "map_at_r"),
    "before training": before("untrained"),
    "of the features": before("features"),
    "seconds": seconds,
}


def length(steps):
    """Returns flags that measure a run before and after training, because no labels can select a model."""
    return [f"--steps={steps}", "--evaluate_on=test", f"--eval_every={steps}", "--eval_unit=steps"]


def sources_of_labels(flagfile, folder, *, clusters, images, transform):
    """Returns a study that trains the same loss with views, with clusters, with both, and with classes.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
        clusters: Number of clusters.
        images: Number of images in a batch of views. The batches of the flagfile have twice as many.
        transform: Spec of the transform that creates views.
    """
    # Clusters are updated every 100 steps.
    alike = [*length(600), "--steps_per_epoch=100", N_PAIR]
    views = [f"--sampler=views(images={images})", f"--train_transform={transform}"]
    found = f"--labels=clusters(k={clusters})"
    return Study(
        flagfile=flagfile,
        rows={
            VIEWS: [*alike, "--labels=images", *views],
            CLUSTERS: [*alike, found],
            BOTH: [*alike, found, *views],
            CLASSES: alike,
        },
        columns=COLUMNS,
        folder=folder,
        which="final",
        differences=[(VIEWS, CLUSTERS), (VIEWS, BOTH), (CLUSTERS, BOTH), (BOTH, CLASSES)],
        head="learned from",
    )


def wrong(name):
    """Returns the name of the row with wrong labels for the name of the row with correct labels."""
    return f"{name}, {WRONG:.0%} wrong".replace("%", " %")


def wrong_labels(flagfile, folder):
    """Returns a study that trains losses with correct labels and with a share of them exchanged.

    Args:
        flagfile: path of the flagfile that every row changes.
        folder: folder of the run directories.
    """
    rows = {}
    for name, loss in LOSSES.items():
        rows[name] = [*length(800), *loss]
        rows[wrong(name)] = [*rows[name], f"--labels=exchanged(share={WRONG})"]
    against = [
        ("contrastive, memory", "contrastive, memory that agrees"),
        ("NormSoftmax", "generalized cross-entropy"),
        ("ArcFace", "sub-center ArcFace"),
    ]
    return Study(
        flagfile=flagfile,
        rows=rows,
        columns=COLUMNS,
        folder=folder,
        which="final",
        differences=[(name, wrong(name)) for name in LOSSES] + [(wrong(one), wrong(other)) for one, other in against],
        head="loss",
    )
