"""Heads on stored features, from the features of a backbone to one exported model of both."""

import json

import numpy as np
import pytest
from PIL import Image

import tfdml
from tests.commands import assert_one_error, ok, run
from tests.run_helpers import events, made_once, pictures, result, saved_model
from tfdml.console.flags import resolve
from tfdml.run.directory.run_directory import RunDirectory

pytestmark = pytest.mark.slow
BACKBONE = ["--backbone=small(width=16, stages=2)", "--initial_weights=toycars", "--image_size=24"]
CARS = "toycars(classes=16, images_per_class=8, image_size=24)"
HEAD = ["--embedding_size=16", "--sampler=pxk(classes=4, per_class=4)", "--steps=40", "--steps_per_epoch=20"]
SHORT = ["--steps=4", "--steps_per_epoch=2"]


@pytest.fixture(scope="module")
def features():
    """Folder with `train` and `test`, the embedded splits of cars, and `exported`, the features' model."""

    def make(folder):
        ok("tfdml.export", *BACKBONE, f"--out={folder}/exported")
        for part in ("train", "test"):
            about = [f"--images={CARS}", f"--split={part}", f"--out={folder}/{part}"]
            ok("tfdml.embed", f"--model={folder}/exported", f"--data_dir={folder}/cars", *about)

    return made_once("features", make)


def flags(features, run_dir, *more):
    dataset = f"embeddings(path={str(features / 'train')!r}, test={str(features / 'test')!r})"
    return [f"--dataset={dataset}", *HEAD, f"--run_dir={run_dir}", *more]


@pytest.fixture(scope="module")
def head(features):
    def make(run_dir):
        told = ok("tfdml.train", *flags(features, run_dir, "--initial_embedding=pca_whitened")).stdout
        assert "no network computes them: using --backbone=identity" in told

    return made_once("head", make)


@pytest.mark.nightly
def test_the_table_has_features_their_whitening_and_the_head(head, features):
    found = result(head)
    assert found["best"]["recall_at_1"] >= found["untrained"]["recall_at_1"] and "gain" in found
    # As the features were measured that were embedded.
    told = ok("tfdml.evaluate", f"--embeddings={features / 'test'}").stdout
    assert f"{found['features']['recall_at_1']:.1%}" in told
    model = tfdml.load(head)
    vectors = np.random.default_rng(0).normal(size=(5, 32)).astype(np.float32)
    assert model.embed(vectors).shape == (5, 16) and "features [N, 32]" in repr(model)
    with pytest.raises(ValueError, match=r"expects stored features of shape \[N, 32\] instead of images"):
        model.embed(np.zeros((2, 24, 24, 3)))


@pytest.mark.nightly
def test_a_study_recognizes_its_run(head, features):
    stored = resolve(flags(features, head, "--initial_embedding=pca_whitened"))
    assert stored["backbone"] == "--backbone=identity"
    RunDirectory(head).check_claim(stored)


@pytest.mark.nightly
def test_a_report_is_drawn(head):
    ok("tfdml.report", f"--run_dir={head}")
    assert (head / "report" / "index.html").is_file() or list(head.glob("**/*.html"))


@pytest.mark.nightly
def test_a_stopped_run_goes_on_as_one(head, features, tmp_path):
    """Twenty steps, then twenty more, are the forty of a run without a stop."""
    more = ["--initial_embedding=pca_whitened"]
    ok("tfdml.train", *flags(features, tmp_path / "run", *more, "--steps=20"))
    ok("tfdml.train", *flags(features, tmp_path / "run", *more))
    assert saved_model(tmp_path / "run" / "final.keras") == saved_model(head / "final.keras")
    assert [each for each in events(tmp_path / "run") if each["step"] > 20] == [
        each for each in events(head) if each["step"] > 20
    ]


@pytest.mark.nightly
def test_a_joined_model_is_the_head_behind_the_backbone(head, features, tmp_path):
    picture = np.random.default_rng(0).integers(0, 255, (24, 24, 3), np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    ok("tfdml.export", f"--run_dir={head}", *BACKBONE, f"--out={tmp_path}/joined")
    contents = [(tmp_path / "a.png").read_bytes()]
    one, both = (tfdml.serving.ExportedModel(path) for path in (features / "exported", tmp_path / "joined"))
    expected = tfdml.load(head).embed(one.embed_readable(contents)[0])
    np.testing.assert_allclose(both.embed_readable(contents)[0], expected, atol=1e-5)
    card = json.loads((tmp_path / "joined" / "metadata.json").read_text())
    assert card["backbone"] == BACKBONE[0].partition("=")[2] and card["weights"] == "toycars, part of tfdml"
    assert card["scores"]["recall_at_1"] == result(head)["best"]["recall_at_1"]
    # A file of its own, too.
    from tfdml.console.flags import parse
    from tfdml.serving.exports import features_of

    joined = tfdml.Joined(features_of(parse("\n".join(BACKBONE))[0]), tfdml.load(head).model)
    joined(np.zeros((1, 24, 24, 3), np.float32))
    joined.save(tmp_path / "joined.keras")
    np.testing.assert_allclose(tfdml.load(tmp_path / "joined.keras").embed(picture), expected, atol=1e-5)


def test_a_head_alone_takes_features(head, tmp_path):
    ok("tfdml.export", f"--run_dir={head}", f"--out={tmp_path}/head")
    import tensorflow as tf

    vectors = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    served = tf.saved_model.load(str(tmp_path / "head")).signatures["serving_default"](features=tf.constant(vectors))
    np.testing.assert_allclose(served["embedding"], tfdml.load(head).embed(vectors), atol=1e-6)
    assert "float32 [B, 32]" in (tmp_path / "head" / "README.md").read_text()


@pytest.mark.parametrize(
    "more, words",
    [
        (
            ["--backbone=small"],
            "--backbone=small accepts images, but the dataset contains vectors of 32 dimensions. Set --backbone=ident",
        ),
        (
            ["--backbone=identity(vector_dims=7)"],
            "accepts vectors of 7 dimensions, but the dataset contains vectors of 32",
        ),
        (["--sampler=views(images=8)"], "draws views of images, but embeddings contains feature vectors. Use pxk."),
        (
            [f"--dataset={CARS}", "--backbone=identity"],
            "identity requires vector_dims, because its inputs are vectors and not images",
        ),
    ],
)
def test_what_does_not_fit_vectors_is_one_line(features, tmp_path, more, words):
    assert_one_error(run("tfdml.train", *flags(features, tmp_path / "run", *more)), words)


def test_models_that_cannot_be_joined_are_one_line(features, head, tmp_path):
    wide = ["--backbone=small(width=16, stages=3)", *BACKBONE[1:]]
    done = run("tfdml.export", f"--run_dir={head}", *wide, f"--out={tmp_path}/out")
    assert_one_error(
        done, "The trained model expects features of 32 dimensions. Received: a network that computes features of 64"
    )


@pytest.mark.nightly
def test_learners_on_features(features, tmp_path):
    """Methods with several learners and losses with proxies work as on images, also on several devices."""
    more = [
        "--method=divide_and_conquer(learners=2)",
        "--loss=proxy_anchor",
        "--devices=cpu:2",
        "--noprojector",
        *SHORT,
    ]
    ok("tfdml.train", *flags(features, tmp_path / "run", *more, "--train_transform=flip"))
    assert "learners" in result(tmp_path / "run")


@pytest.mark.nightly
def test_baselines_stand_in_the_table(tmp_path):
    """The whitened features are those that a run begins with that is told to, and come from one pass."""
    more = ["--baselines=pca_whitened,linear", "--initial_embedding=pca_whitened", "--train_transform=warp", *SHORT]
    run_dir = f"--run_dir={tmp_path / 'run'}"
    told = ok(
        "tfdml.train",
        f"--dataset={CARS}",
        f"--data_dir={pictures()}",
        *BACKBONE,
        *HEAD,
        *more,
        run_dir,
        "--noprojector",
    ).stdout
    found = result(tmp_path / "run")
    rows = [line.split("  ")[0] for line in told.splitlines()]
    kinds = ["pretrained features", "pca_whitened", "linear", "before training"]
    assert [name for name in rows if name in kinds] == kinds
    assert found["baselines"]["pca_whitened"]["recall_at_1"] == pytest.approx(
        found["untrained"]["recall_at_1"], abs=0.05
    )
    assert set(found["baselines"]) == {"pca_whitened", "linear"}
    assert_one_error(
        run("tfdml.train", "--baselines=ica", run_dir), "expected some of lda, linear, pca, pca_whitened, wccn"
    )
