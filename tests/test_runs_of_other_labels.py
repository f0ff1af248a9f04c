"""Runs on photos without classes, pairs, triplets, clusters, several labels and levels.

They are trained, stopped and gone on with, and measured; the photos are also indexed, searched and clustered.
"""

import json

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, assert_goes_on, events, made_once, pictures, shared, variable_names

pytestmark = pytest.mark.slow
IMAGES = 40


def photos_folder():
    """Images of random colors in nested folders."""

    def make(root):
        random = np.random.default_rng(0)
        for number in range(IMAGES):
            path = root / ("a" if number % 2 else "b/c") / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (4, 4, 3), np.uint8)
            Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC).save(path)

    return made_once("unlabelled", make)


@shared("tables_of_pairs")
def tables(folder):
    """A folder with a table of pairs and one of triplets, of images of which each two are the same."""
    folder.mkdir()
    names = sorted(str(path) for path in photos_folder().rglob("*.png"))
    random = np.random.default_rng(0)
    groups = [names[start : start + 4] for start in range(0, IMAGES, 4)]
    pairs = [f"{a},{b},1\n{a},{c},0\n{c},{d},1\n{b},{d},0\n" for a, b, c, d in groups]
    triplets = [f"{a},{b},{c}\n{c},{d},{random.choice([a, b])}\n" for a, b, c, d in groups]
    (folder / "pairs.csv").write_text("a,b,same\n" + "".join(pairs))
    (folder / "triplets.csv").write_text("anchor,positive,negative\n" + "".join(triplets))


@shared("several_labels")
def images_with_several_labels(root):
    """Images of which a label says which half is bright, and another one which color."""
    root.mkdir()
    random, lines = np.random.default_rng(0), ["path,label,split"]
    for number in range(48):
        pixels = random.integers(0, 60, (24, 24, 3), np.uint8)
        left, red = number % 2, number // 2 % 2
        pixels[:, 12 * left : 12 + 12 * left] += 120
        pixels[..., 2 * red] += 70
        Image.fromarray(pixels).save(root / f"{number}.png")
        labels = ["right" if left else "left", "blue" if red else "red"]
        lines.append(f"{number}.png,{'|'.join(labels)},{'test' if number % 3 == 0 else 'train'}")
    (root / "photos.csv").write_text("\n".join(lines))


def of_photos(*more):
    return ["--dataset=photos(held_out=0.25)", f"--data_dir={photos_folder()}", "--steps_per_epoch=8", *more]


def of_views(*more):
    return of_photos("--sampler=views(images=10)", "--loss=nt_xent(temperature=0.2)", *more)


def of_tables(name, *more):
    data = [f"--dataset=pairs(file='{tables()}/{name}.csv')", "--sampler=given(count=8)"]
    return ["--head=linear", *data, "--loss=contrastive", *more]


def of_clusters():
    own = ["--labels=clusters(k=4, every=1)", "--sampler=pxk(classes=3, per_class=4)", "--loss=proxy_anchor"]
    return of_photos(*own, "--epochs=3", "--steps_per_epoch=4")


def of_several_labels():
    table = f"{images_with_several_labels()}/photos.csv"
    data = [f"--dataset=csv(path='{table}', separator='|')", "--sampler=pxk(classes=4, per_class=3)"]
    return [*data, "--loss=multi_similarity"]


def of_levels():
    # Two classes of each body type in either half.
    data = ["--dataset=toycars(classes=32, images_per_class=6, image_size=24)", f"--data_dir={pictures()}"]
    own = ["--levels=body,class", "--sampler=pxk(classes=4, per_class=4, groups=2)"]
    return [*data, *own, "--loss=by_level(loss='multi_similarity', weights=(0.3, 1.0))"]


# Kind of a run to its own flags; two have more that is kept beside the network.
KINDS = {
    "photos": of_views,
    "momentum": lambda: of_views("--memory=momentum(size=60, start=2, decay=0.9)"),
    "simsiam": lambda: of_views("--loss=simsiam(hidden=8)"),
    "pairs": lambda: of_tables("pairs"),
    "triplets": lambda: of_tables("triplets", "--loss=triplet(mining='given')"),
    "clusters": of_clusters,
    "several labels": of_several_labels,
    "levels": of_levels,
}
QUIET = ("photos", "momentum", "simsiam", "pairs")


def flags_of(kind, run_dir, *more):
    """Flags of a run of a kind; later ones override."""
    length = ["--epochs=2", "--steps_per_epoch=6", "--optimizer=adam(learning_rate=0.003)"]
    return [*MODEL_FLAGS, *length, *KINDS[kind](), f"--run_dir={run_dir}", *more]


def straight(kind):
    """The folder of a run of a kind that was not stopped."""

    def make(run_dir):
        done = ok("tfdml.train", *flags_of(kind, run_dir))
        assert kind not in QUIET or not done.stderr, done.stderr

    return made_once(f"{kind} run", make)


def measured(run_dir):
    return json.loads((run_dir / "result.json").read_text())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "triplets"])
def test_it_goes_on_to_the_same_bits(tmp_path, kind):
    # In the middle of the first epoch, or once clusters were found anew.
    step = 3 if kind in ("pairs", "several labels", "levels") else 6
    flags = flags_of(kind, tmp_path / "run", "--checkpoint_every=3")
    assert_goes_on(tmp_path / "run", flags, straight(kind), step=step)


def test_photos_are_measured_without_classes():
    found = measured(straight("photos"))
    assert found["best"]["selected_by"] == "neighbors_kept"
    for metrics in (found["metrics"], found["untrained"]):
        assert set(metrics) == {"neighbors_kept", "alignment", "uniformity", "effective_rank"}
    assert found["metrics"]["alignment"] < found["untrained"]["alignment"] or found["best"]["neighbors_kept"] > 0.5


@pytest.mark.nightly
def test_checkpoints_have_what_is_kept_beside_the_network():
    plain, momentum, simsiam = (len(variable_names(straight(kind))) for kind in ("photos", "momentum", "simsiam"))
    assert plain < momentum and plain < simsiam


@pytest.mark.nightly
def test_photos_are_indexed_searched_and_clustered(tmp_path):
    ok("tfdml.export", f"--run_dir={straight('photos')}", f"--out={tmp_path}/exported")
    index = f"{tmp_path}/index"
    done = ok("tfdml.index", f"--model={tmp_path}/exported", f"--images={photos_folder()}", f"--out={index}")
    assert f"Indexed {IMAGES} images" in done.stdout
    query = str(photos_folder() / "a" / "1.png")
    assert query in ok("tfdml.search", f"--index={index}", "--k=3", "--format=json", query).stdout
    ok("tfdml.cluster", f"--embeddings={index}/embeddings", "--clusters=4", f"--out={tmp_path}/clusters.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "clusters.parquet")
    assert len(table) == IMAGES and set(table["cluster"].to_pylist()) == {0, 1, 2, 3}


def test_metrics_that_need_classes_are_named_in_one_line():
    done = ok("tfdml.evaluate", f"--run_dir={straight('photos')}", "--metrics=recall_at_1,alignment")
    assert "alignment" in json.loads(done.stdout.splitlines()[-1])
    assert "photos has no classes, so these metrics are skipped: recall_at_1." in done.stderr


@pytest.mark.nightly
def test_pairs_train_and_are_measured():
    found = measured(straight("pairs"))
    assert found["best"]["selected_by"] == "roc_auc"
    assert list(found["metrics"]) == ["roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank"]
    assert found["metrics"] != found["untrained"]
    (first, last) = [event for event in events(straight("pairs")) if event["event"] == "train"]
    assert first["positive_distance"] > 0 and first["negative_distance"] > 0 and first["loss"] != last["loss"]


@pytest.mark.nightly
def test_two_devices_learn_what_one_does_of_pairs(tmp_path):
    ok("tfdml.train", *flags_of("pairs", tmp_path / "run", "--devices=cpu:2", "--epochs=1"))
    (loss,) = [event["loss"] for event in events(tmp_path / "run") if event["event"] == "train"]
    first = next(event["loss"] for event in events(straight("pairs")) if event["event"] == "train")
    # Batch norm is of each device's own images.
    assert loss == pytest.approx(first, rel=0.3)


@pytest.mark.nightly
def test_triplets_train(tmp_path):
    ok("tfdml.train", *flags_of("triplets", tmp_path / "run", "--epochs=1"))
    assert measured(tmp_path / "run")["metrics"]["roc_auc"] is not None


@pytest.mark.nightly
def test_clusters_are_found_anew_and_measured_without_classes():
    found = measured(straight("clusters"))
    assert found["pseudo_classes"]["epoch"] == 2 and 0 <= found["pseudo_classes"]["changed"] <= 1
    assert found["best"]["selected_by"] == "neighbors_kept"
    told = [event for event in events(straight("clusters")) if event["event"] == "labels"]
    assert len(told) == 3 and all(event["smallest"] >= 1 for event in told)


@pytest.mark.nightly
def test_views_and_clusters_together(tmp_path):
    ok(
        "tfdml.train",
        *flags_of("clusters", tmp_path / "run", "--sampler=views(images=8)", "--loss=sup_con", "--epochs=1"),
    )


@pytest.mark.nightly
def test_several_labels_are_trained_on_and_measured():
    found = measured(straight("several labels"))
    assert found["best"]["selected_by"] == "relevance_at_1"
    assert set(found["metrics"]) == {"relevance_at_1", "relevance_at_10", "graded_map", "ndcg"}
    assert found["best"]["relevance_at_1"] >= found["untrained"]["relevance_at_1"] > 0


@pytest.mark.nightly
def test_levels_are_learned_and_measured():
    found = measured(straight("levels"))
    assert found["best"]["selected_by"] == "recall_at_1"
    names = list(found["metrics"])
    assert names[:3] == ["recall_at_1", "recall_at_1_of_body", "recall_at_2"]
    assert {"map_at_r_of_body", "hierarchical_ap", "ndcg", "nmi"} <= set(names)
    assert found["metrics"]["recall_at_1_of_body"] >= found["metrics"]["recall_at_1"]


@pytest.mark.nightly
def test_another_loss_is_taken_at_each_level_and_a_run_is_measured_again(tmp_path):
    more = ["--loss=triplet", "--sampler=pxk(classes=4, per_class=4)", "--epochs=1"]
    ok("tfdml.train", *flags_of("levels", tmp_path / "run", *more))
    done = ok("tfdml.evaluate", f"--run_dir={tmp_path / 'run'}", "--metrics=recall_at_1,hierarchical_ap")
    assert {"recall_at_1", "recall_at_1_of_body", "hierarchical_ap"} <= set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "kind, more, words",
    [
        ("photos", "--sampler=pxk(classes=4)", ["photos has no classes. Use --sampler='views(images=64)'"]),
        (
            "photos",
            "--train_transform=warp",
            ["--train_transform=warp is not random", "all views of an image are equal"],
        ),
        ("photos", "--sampler=views(images=31)", ["needs that many training images. Received: 30", "has no classes"]),
        ("pairs", "--sampler=pxk(classes=4)", ["pairs has no classes. Use --sampler='given(count=32)'"]),
        ("pairs", "--loss=triplet(mining='given')", ["needs batches with 3 parts", "have 2"]),
        ("pairs", "--memory=xbm(size=64)", ["Labels must be integer class labels of shape [batch]"]),
        ("pairs", "--loss=proxy_anchor", ["integer class labels"]),
        ("clusters", "--labels=clusters(k=16)", ["clusters(k=16) needs at least two images per cluster"]),
        ("clusters", "--levels=make", ["needs a dataset with classes"]),
        ("clusters", "--sampler=given", ["does not work with labels that change"]),
        ("several labels", "--loss=proxy_anchor", ["--loss=proxy_anchor has one variable per class", "multi-label"]),
        ("levels", "--levels=class,body", ["is in several categories of class", "must form a tree"]),
        ("levels", "--levels=make,class", ["Expected levels of the dataset toycars", "It has class, body"]),
        ("levels", "--loss=proxy_anchor", ["must be a pair-based loss", "ProxyAnchor"]),
    ],
)
@pytest.mark.few_by_day(4)
def test_what_does_not_fit_is_one_line(tmp_path, kind, more, words):
    assert_one_error(run("tfdml.train", *flags_of(kind, tmp_path / "run", more)), *words)
