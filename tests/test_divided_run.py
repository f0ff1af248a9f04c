"""A run of Divide and Conquer through the command line, killed and taken up again between two clusterings and after."""

import pytest
from PIL import Image

from tests.commands import Forked, ok, run
from tests.run_helpers import (
    assert_goes_on,
    assert_same_run,
    assert_went_on,
    events,
    result,
    steps,
    train,
    train_flags,
    trained,
)

pytestmark = pytest.mark.slow

MORE = [
    "--method=divide_and_conquer(learners=2, divide_at=1, merge_at=4, finetune='embedding')",
    "--head=linear(dropout=0.2)",
    "--sampler=pxk(classes=2, per_class=4)",
    "--loss=proxy_nca",
    "--steps_per_epoch=10",
    "--epochs=5",
    "--eval_every=5",
    "--checkpoint_every=3",
    "--projector",
]


def clusters_shown(metadata):
    """The clusters of points in the projector's file."""
    head, *lines = (line.split("\t") for line in metadata.read_text().splitlines())
    return {line[head.index("cluster")] for line in lines}


@pytest.mark.nightly
def test_it_ends_with_the_same_bits(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    done = train(straight, *MORE)
    assert done.returncode == 0 and "faiss" not in done.stderr, done.stderr
    clusters = [event for event in events(straight) if event["event"] == "clusters"]
    assert [event["step"] for event in clusters] == [10, 30]
    assert clusters[0].keys() >= {"size_of_learner_0", "size_of_learner_1"} and "iou" in clusters[1]

    found = result(straight)
    assert len(found["learners"]["alone"]) == 2
    assert found["learners"]["first"][1]["recall_at_1"] == found["best"]["recall_at_1"]
    assert found["clusters"]["epoch"] == 3 and found["clusters"]["negative_distances"]["mean_within"] > 0
    assert len(found["clusters"]["steps_of_learners"]) == 2

    metadata = straight / "tensorboard" / "projector" / "metadata.tsv"
    assert clusters_shown(metadata) == {"0", "1"}

    # Within the first epoch of the clusters' two.
    stopped = (
        Forked("tfdml.train", *train_flags(killed, *MORE)).until(lambda: max(steps(killed), default=0) >= 12).kill()
    )
    assert stopped.returncode == -9 and 12 <= max(steps(killed)) < 30
    # Then where the learners' proxies have been joined and the embedding layer is fine-tuned.
    Forked("tfdml.train", *train_flags(killed, *MORE)).until(lambda: max(steps(killed)) >= 42).kill()
    assert 42 <= max(steps(killed)) < 50
    done = trained(killed, *MORE)
    assert_went_on(killed, done)
    assert_same_run(killed, straight)

    metadata.unlink()
    ok("tfdml.report", f"--run_dir={straight}", "--only=learners,clusters,projector")
    assert clusters_shown(metadata) == {"0", "1"}
    drawn = {path.stem: path for path in (straight / "report").glob("*.png")}
    assert {"learners", "negative_distances", "clusters"} <= drawn.keys()
    assert all(Image.open(path).width > 200 for path in drawn.values())
    done = run("tfdml.report", f"--run_dir={straight}", "--only=cluster")
    assert done.returncode == 1 and "Unknown picture 'cluster' in --only. Expected one of: neighbors" in done.stderr


@pytest.mark.nightly
def test_hard_neighbors_within_clusters_end_with_the_same_bits(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    more = [*MORE, "--sampler=hard_neighbors(pairs=2, neighbors=3)", "--loss=lifted_structure"]
    trained(straight, *more)
    # Clusters and neighbors are searched for at different epochs.
    assert [event["step"] for event in events(straight) if event["event"] == "clusters"] == [10, 30]
    assert [event["step"] for event in events(straight) if event["event"] == "sampler"] == [10, 20, 30, 40]
    assert_goes_on(killed, train_flags(killed, *more), straight, step=22)


@pytest.mark.nightly
def test_the_untrained_model_is_measured_whatever_the_clusters_are(tmp_path):
    """Each cluster is one class, so its batches have no negatives; the sampler's own have some."""
    flags = [
        "--method=divide_and_conquer(learners=4, data_split='labels')",
        "--sampler=pxk(classes=2, per_class=4)",
        "--loss=triplet",
        "--evaluate_on=validation",
        "--validation_classes=0.5",
        "--steps_per_epoch=2",
        "--epochs=1",
    ]
    trained(tmp_path / "run", *flags)
    assert result(tmp_path / "run").keys() >= {"untrained", "validation"}
