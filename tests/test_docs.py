"""The examples in the docs run, and their links lead somewhere."""

import ast
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import tfdml
from docs import draw_losses, draw_methods, draw_verification, list_parts, list_recipes
from tests.backbones.test_backbones import BACKBONES
from tests.commands import Command
from tests.run_helpers import result
from tfdml import registry
from tfdml.backbones.published_weights import SOURCES

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("**/*.md"))]
EVIDENCE = Path("evidence/README.md")


def run_examples(page):
    """Runs the page's examples one after another; gives their number and the names they leave."""
    examples = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / page).read_text(), re.DOTALL)
    names = {}
    for example in examples:
        exec(compile(example, f"docs/{page}", "exec"), names)
    return len(examples), names


def trains(names):
    images, labels = np.random.default_rng(0).random((8, 32, 32, 3), "float32"), np.arange(8)
    for model in (names["trained"], names["summed"]):
        assert np.isfinite(model.train_on_batch(images, labels))
    assert names["embedder"].predict(images, verbose=0).shape == (8, 16)


def embeds_as_keras(names):
    np.testing.assert_allclose(names["found"], names["loaded"].embed(names["paths"]), atol=1e-4)
    same, model = (names[each].predict(names["in_order"], verbose=0) for each in ("same", "model"))
    assert (same == model).all() and len(names["found"]) == 1000
    assert names["evaluation"].best["metrics"]["recall_at_1"] > 0.6
    (shown,) = re.findall(r"^Recall@1 after training: +([\d.]+)%$", (REPOSITORY / "docs/keras.md").read_text(), re.M)
    assert 100 * names["recall_on_new_classes"](names["embedder"]) == pytest.approx(float(shown), abs=6.0)


def divides(names):
    assert [entry["epoch"] for entry in names["recluster"].history] == [0, 2]
    assert names["embeddings"].shape == (192, 32)
    assert set(names["sampler"].learners(0, np.arange(40)).numpy()) <= {0, 1, 2, 3}


def averages(names):
    assert Path("averaged.keras").exists() and names["evaluation"].average is names["average"]
    assert int(names["optimizer"].iterations) == names["average"].steps == 20


def replicates(names):
    assert names["replicated"].optimizer.iterations.numpy() == 10
    assert names["model"].loss_layers.learners[0].parts[1].proxies.shape == (16, 32)


def makes_backbones(names):
    assert list(names["network"].endpoints) == ["block_13_expand", "output"]
    assert names["googlenet"].name == "mine" and names["googlenet"].batch_norm and names["small"].width == 16


def shares(names):
    assert names["embeddings"].shape == (2, 16) and Path("presets/small/README.md").is_file()


@pytest.mark.parametrize(
    "page, count, check, printed",
    [
        pytest.param("keras.md", 6, embeds_as_keras, "Recall@1 after training:", marks=pytest.mark.nightly),
        ("sharing.md", 1, shares, ""),
        ("backbones.md", 1, makes_backbones, ""),
        pytest.param("training.md", 1, averages, "", marks=pytest.mark.nightly),
        pytest.param("losses.md", 4, trains, "0.24", marks=pytest.mark.slow),
        pytest.param("divide_and_conquer.md", 1, divides, "", marks=pytest.mark.nightly),
        pytest.param("from_pytorch_metric_learning.md", 3, replicates, "'queries': 5000", marks=pytest.mark.nightly),
    ],
)
def test_the_examples_of_a_page_run(page, count, check, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found, names = run_examples(page)
    assert found == count and printed in capsys.readouterr().out
    check(names)


@pytest.mark.nightly
def test_the_example_of_the_readme_prints_about_what_it_shows(capsys):
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (example,), (shown,) = (
        re.findall(r"```python\n(.*?)```", page, re.DOTALL),
        re.findall(r"^Recall@1 on .*", page, re.M),
    )
    exec(compile(example, "README.md", "exec"), {})
    measured, expected = (
        [float(each) for each in re.findall(r"([\d.]+)% ", text)] for text in (capsys.readouterr().out, shown)
    )
    assert measured == pytest.approx(expected, abs=6.0)


def test_the_results_of_the_readme_are_those_of_the_first_runs():
    table = re.findall(r"^\| \w.*%.*%.*\|$", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.M)
    evidence = (REPOSITORY / "docs/evidence/fine_tuning.md").read_text(encoding="utf-8")
    assert len(table) == 6
    for row in table:
        images, features, best, gain = (cell.strip(" %") for cell in row.split("|")[2:6])
        assert re.search(rf"\| {images} \| {features} \| [\d.]+ \| {best} \| {re.escape(gain)} \|", evidence), row


def test_the_example_of_similar_places_adds_up(capsys):
    assert run_examples("reports.md")[0] == 1
    each = [float(number) for number in capsys.readouterr().out.split()]
    assert len(each) == 3 and each == pytest.approx([each[0]] * 3, abs=1e-5)


def test_the_page_on_metric_learning_shows_what_its_examples_print(capsys):
    page = (REPOSITORY / "docs/metric_learning.md").read_text(encoding="utf-8")
    assert run_examples("metric_learning.md")[0] == 3
    assert capsys.readouterr().out == "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))


def test_the_examples_of_the_page_on_pitfalls_print_what_it_shows(capsys):
    with pytest.warns(UserWarning, match="no positive pair"):
        count, _ = run_examples("pitfalls.md")
    assert count == 4
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["0.0", "True"] and float(printed[2]) == pytest.approx(0.2)
    assert printed[3:] == ["12 []", "0.8 0.63 0.8"]


# Characters in a row that a quoted message shares with a text of the sources, so that a reworded one is noticed.
SHARED = 14


def test_the_messages_that_the_help_pages_quote_are_those_of_the_program():
    files = [path for package in ("tfdml", "pipelines") for path in (REPOSITORY / package).glob("**/*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    pages = [(REPOSITORY / "docs" / name).read_text(encoding="utf-8") for name in ("troubleshooting.md", "pitfalls.md")]
    blocks = [block for page in pages for block in re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)]
    # Blocks that start with a prompt show a command and its output.
    messages = [block for block in blocks if not block.startswith("$ ")]
    assert len(messages) > 30
    for message in messages:
        parts = [message[start : start + SHARED] for start in range(len(message) - SHARED + 1)]
        assert any(part in texts for part in parts), message


def test_the_line_that_tells_whether_the_installation_worked_tells_it(capsys):
    page = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
    line, told = re.search(r'^\$ python -c "(.*)"\n(.*)$', page, re.MULTILINE).groups()
    exec(line, {})
    assert capsys.readouterr().out.strip() == told == tfdml.__version__


def test_the_example_with_arrays_of_the_page_on_evaluation_runs(capsys):
    examples = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/evaluation.md").read_text(), re.DOTALL)
    exec(compile(next(example for example in examples if "default_rng" in example), "docs/evaluation.md", "exec"), {})
    assert re.search(r"'recall_at_1': \S+, 'map_at_r': \S+, 'nmi': \S+, 'queries': 60", capsys.readouterr().out)


def test_the_schedules_of_the_page_on_optimization_can_be_made():
    page = (REPOSITORY / "docs/training.md").read_text(encoding="utf-8")
    specs = re.findall(r"\| `(\w+(?:\(.*?\))?)` \| (?:stays|times|falls|rises)", page)
    for spec in specs:
        registry.create("schedule", spec, learning_rate=0.1, steps_per_epoch=10, epochs=20)
    assert len(specs) == 4


@pytest.mark.nightly
def test_the_example_for_users_of_tensorflow_addons_runs(capsys):
    count, names = run_examples("from_tensorflow_addons.md")
    assert count == 1 and "tf.Tensor(" in capsys.readouterr().out
    page = (REPOSITORY / "docs/from_tensorflow_addons.md").read_text()
    for name in names["losses"].__all__:
        assert f"`{name}" in page
    # The other way in which programs name them: what takes its place is there.
    before, after = (re.findall(rf"^[{sign}].*?(\w+\.losses\.[\w.]+)\(", page, re.MULTILINE) for sign in "-+")
    assert before == ["tfa.losses.TripletSemiHardLoss"] and after == ["tfdml.losses.addons.TripletSemiHardLoss"]
    assert hasattr(names["losses"], "TripletSemiHardLoss")


# Public names of TensorFlow Similarity's newest code: what its packages list, and what is in its other modules.
TENSORFLOW_SIMILARITY = """
Barlow CircleLoss LiftedStructLoss MetricLoss MultiNegativesRankLoss MultiSimilarityLoss PNLoss SimCLRLoss SimSiamLoss
SoftNearestNeighborLoss TripletLoss VicReg XBM MultiShotFileSampler MultiShotMemorySampler SingleShotMemorySampler
TFDataSampler TFDatasetMultiShotMemorySampler TFRecordDatasetSampler select_examples CosineDistance EuclideanDistance
SquaredEuclideanDistance InnerProductSimilarity ManhattanDistance SNRDistance BNDCG MapAtK PrecisionAtK RecallAtK
BinaryAccuracy F1Score FalsePositiveRate NegativePredictiveValue Precision Recall EvalCallback ContrastiveModel
create_contrastive_model SimilarityModel MetricEmbedding GeneralizedMeanPooling1D GeneralizedMeanPooling2D Indexer
MemoryStore CachedStore RedisStore FaissSearch LinearSearch NMSLibSearch MemoryEvaluator ClassificationMatch
MatchMajorityVote MatchNearest EfficientNetSim ResNet18Sim ResNet50Sim BarlowAugmenter ContrastiveAugmenter
SimCLRAugmenter WarmupCosineDecay DistanceGapMetric DistanceMetric batch_class_ratio viz_neigbors_imgs confusion_matrix
visualize_views projector
"""


@pytest.mark.nightly
def test_the_page_for_users_of_tensorflow_similarity_has_their_names_and_its_example_runs():
    page = (REPOSITORY / "docs/from_tensorflow_similarity.md").read_text(encoding="utf-8")
    for name in TENSORFLOW_SIMILARITY.split():
        assert re.search(rf"^\|[^|]*`{name}\b", page, re.MULTILINE), name
    count, names = run_examples("from_tensorflow_similarity.md")
    assert sorted(np.unique(names["drawn"], return_counts=True)[1]) == [4] * 8
    assert count == 2 and [each[0].id for each in names["neighbors"]] == [0, 1, 2] and names["evaluation"].best


# What the arguments on these pages stand for.
LETTERS = {"C": 8, "m": 0.1, "t": 0.1, "margin": 0.4, "positive_margin": 0.0}
MIGRATION_PAGES = ("from_tensorflow_similarity.md", "from_pytorch_metric_learning.md")


@pytest.mark.parametrize("page", MIGRATION_PAGES)
def test_what_takes_the_place_of_a_loss_is_there(page):
    """Each class of ours in the tables of losses and miners can be made with the arguments that stand there."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    text = re.search(r"\n## Losses\n(.*?)\n## (?:Samplers|Distances)", text, re.DOTALL)[1]
    ours = [row.split("|")[2] for row in text.splitlines() if row.startswith("| `")]
    made = re.findall(r"`([A-Z]\w+)(\([^`]*\))?`", " ".join(ours))
    assert len(made) > 5
    for name, arguments in made:
        if arguments:
            eval(name + arguments, {**vars(tfdml.losses), **LETTERS})
        else:
            assert hasattr(tfdml.losses, name), name


@pytest.mark.nightly
def test_the_parts_of_ones_own_train(tmp_path):
    """The page's examples, as one module, by the page's own command."""
    text = (REPOSITORY / "docs/extending.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 8
    (tmp_path / "my_parts.py").write_text("\n\n".join(examples))
    command = shlex.split(re.search(r"^python -m (tfdml.train .*--run_dir=runs/mine)$", text, re.MULTILINE)[1])
    flags = [flag for flag in command[1:] if not flag.startswith("--run_dir")]
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = Command(command[0], *flags, f"--run_dir={tmp_path / 'run'}", environment=environment).wait()
    assert done.returncode == 0, done.stderr
    assert "recall_at_1" in result(tmp_path / "run")["metrics"]


def test_the_lists_of_the_api_overview_are_up_to_date():
    page = list_parts.PAGE.read_text(encoding="utf-8")
    assert page == list_parts.written(page), "run: python -m docs.list_parts"


def test_the_lists_of_the_page_on_paper_configurations_are_up_to_date():
    page = list_recipes.PAGE.read_text(encoding="utf-8")
    assert page == list_recipes.written(page), "run: python -m docs.list_recipes"
    names = {path.stem for path in (REPOSITORY / "configs").glob("*.flags")}
    assert all(page.count(f"`{name}`") == 1 for name in names)


@pytest.mark.parametrize("method", draw_methods.METHODS, ids=lambda method: method.__name__)
def test_the_pictures_of_methods_are_up_to_date(method):
    picture = draw_methods.IMAGES / f"method_{method.__name__}.svg"
    assert picture.read_text(encoding="utf-8") == draw_methods.drawing(method), "run: python -m docs.draw_methods"


def test_the_picture_of_a_threshold_is_up_to_date():
    picture = draw_verification.PICTURE.read_text(encoding="utf-8")
    assert picture == draw_verification.drawing(), "run: python -m docs.draw_verification"


@pytest.mark.nightly
def test_the_picture_of_losses_is_up_to_date():
    """Coordinates may differ by a pixel where gradients are rounded in another way."""
    shown, drawn = (
        re.split(r"(-?\d+)", text) for text in (draw_losses.PICTURE.read_text(encoding="utf-8"), draw_losses.drawing())
    )
    assert shown[::2] == drawn[::2], "run: python -m docs.draw_losses"
    np.testing.assert_allclose(np.array(shown[1::2], float), np.array(drawn[1::2], float), atol=1.0)


def test_the_page_of_losses_has_a_heading_for_each_class_with_its_name_in_flags():
    page = (REPOSITORY / "docs/losses.md").read_text(encoding="utf-8")
    entries = dict(re.findall(r"^### (\w+)\n\n`(\w+)`: ", page, re.MULTILINE))
    classes = {name: kind.__name__ for name, kind in registry.registered("loss").items()}
    # These two are made of other losses, and have no formula.
    assert classes.pop("nested") in page and f"### {classes.pop('by_level')}\n" in page
    assert {name: kind for kind, name in entries.items()} == classes and len(entries) == len(classes)


def test_backbones_have_their_parameters_and_their_source():
    page = (REPOSITORY / "docs/backbones.md").read_text(encoding="utf-8")
    for spec, (parameters, _) in BACKBONES.items():
        assert spec.startswith("small") or f"| `{spec}` | {parameters:,} |" in page, spec
    for name, source in SOURCES.items():
        spec = source.backbone.replace("(batch_norm=False)", "")
        assert f"| `{name}` | `{spec}` | {source.url} |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_number_is_left_to_be_filled_in(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(
        r"\b[A-Z]+_[A-Z]+\b(?<!TF_CONFIG)(?<!KERAS_BACKEND)(?<!TFDML_TOKEN)(?<!KW_ONLY)(?<!WANDB_PROJECT)(?<!WANDB_MODE)"
        r"(?<!PYSPARK_PYTHON)",
        text,
    )
    assert not re.findall(r"^[A-Z]+$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_every_experiment_is_linked_from_their_summary():
    """That every page is in the navigation of the site is in tests/test_site.py."""
    evidence = (REPOSITORY / "docs" / EVIDENCE).read_text(encoding="utf-8")
    studies = {page.name for page in PAGES if page.parent.name == EVIDENCE.parent.name} - {EVIDENCE.name}
    assert studies and all(f"]({name})" in evidence for name in studies)
