"""Labels by the names of classes equal a loop over images, classes and templates."""

import json

import numpy as np
import pytest

import tfdml
from tests.commands import assert_one_error, functions_of, run
from tests.serving.index.test_indexing import write_pictures
from tests.serving.index.test_text_threshold import OF_TEXTS, changed
from tests.serving_fixtures import picture, towers
from tfdml.serving import ExportedModel, Searcher

CLASSES = ["blue_bus", "mug", "!!!!"]


def naive(model, files, templates):
    """The best class of each file, and its cosine."""
    found = []
    for file in files:
        vector = model.embed_readable([file.read_bytes()])[0][0]
        cosines = []
        for name in CLASSES:
            texts = [template.replace("{}", name.replace("_", " ")) for template in templates]
            mean = np.mean([model.embed_texts([text])[0] for text in texts], axis=0)
            cosines.append(float(vector @ mean / np.linalg.norm(vector) / np.linalg.norm(mean)))
        found.append((str(file), CLASSES[int(np.argmax(cosines))], pytest.approx(max(cosines), abs=1e-5)))
    return found


@pytest.mark.parametrize("templates", [["a photo of a {}"], ["a {}", "{} in a picture"]])
def test_the_class_with_the_most_similar_text(index, templates):
    if len(templates) > 1:
        changed(index, templates="|".join(templates))
    files = sorted((index.parent / "photos").rglob("*.png"))
    expected = naive(ExportedModel(index / "model"), files, templates)
    assert len({label for _, label, _ in expected}) > 1
    with tfdml.Index.open(index) as opened:
        found = opened.label(files, classes=CLASSES)
        assert [(each.path, each.label, each.similarity) for each in found] == expected
        # A number, and contents of files instead of paths.
        least = sorted(each.similarity for each in found)[6]
        known = [each.label is not None for each in opened.label(files, classes=CLASSES, threshold=least)]
        assert known == [each.similarity >= least for each in found]
        (one,) = opened.label([files[0].read_bytes()], classes=CLASSES)
        assert (one.path, one.label) == ("Image 0", expected[0][1])


def test_the_command(index, tmp_path, capsys):
    show, photos = functions_of("tfdml.search").print_labels, write_pictures(tmp_path / "new", range(5))
    (photos / "even" / "bad.png").write_bytes(picture(1)[:40])
    files = sorted(photos.rglob("[0-9]*.png"))
    expected = naive(ExportedModel(index / "model"), files, ["a photo of a {}"])
    show(Searcher(index), photos, "", "json", k=5, classes=CLASSES)
    found = {each["path"]: each for each in json.loads(capsys.readouterr().out)["images"]}
    for path, label, similarity in expected:
        assert (found[path]["label"], found[path]["similarity"]) == (label, similarity)
    assert len(found) == 6 and found[str(photos / "even" / "bad.png")]["label"] is None
    # The threshold of texts is used, and the one of images is not.
    searcher = changed(index, threshold=OF_TEXTS | {"queries": "image"}, text_threshold=OF_TEXTS | {"threshold": 1.0})
    show(searcher, photos, "", "table", k=5, classes=CLASSES)
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("Using the text threshold 1.0000") and all(row.split()[1] == "unknown" for row in rows)
    show(searcher, photos, "none", "table", k=5, classes=CLASSES)
    assert capsys.readouterr().out.count("unknown") == 1


@pytest.mark.parametrize("classes", [[], ["mug", ""], ["mug", "mug"], ["mug", 3], [" "]])
def test_bad_classes_are_told(index, classes):
    with tfdml.Index.open(index) as opened:
        with pytest.raises(ValueError, match="classes must be different names, none of them empty. Received: classes="):
            opened.label(index.parent / "photos", classes=classes)


def test_a_model_without_texts_is_told():
    with tfdml.Index(lambda images: np.eye(2)[: len(images)]) as plain:
        plain.add([0, 1])
        with pytest.raises(ValueError, match="its model has no text tower"):
            plain.label([0, 1], classes=["mug"])


def test_a_model_in_python():
    model, _ = towers()
    random = np.random.default_rng(0)
    images = random.normal(size=(4, 24, 24, 3)).astype(np.float32)
    with tfdml.Index(model) as index:
        index.add(images)
        (found,) = index.search(text="a red van", k=4)
        scores = model.predict(images, verbose=0) @ model.embed_texts(["a red van"])[0]
        assert [each.id for each in found] == np.argsort(-scores).tolist()
        texts = model.embed_texts(["a photo of a mug", "a photo of a cup"])
        expected = np.argmax(model.predict(images, verbose=0) @ texts.T, axis=1)
        assert [each.label for each in index.label(images, classes=["mug", "cup"])] == [
            ["mug", "cup"][place] for place in expected
        ]


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--classes=mug", "--text=mug"], "--classes has no effect here"),
        (["--classes=mug", "--label=photos", "--k=3"], "--k has no effect here"),
        (["--classes=mug", "--label=photos", "--validation=other"], "--validation has no effect here"),
    ],
)
def test_bad_flags_are_told(flags, words):
    assert_one_error(run("tfdml.search", "--index=index", *flags), words)
