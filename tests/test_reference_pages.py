"""The commands and the Python of docs/distillation.md and docs/pretrained_knowledge.md run as a new user would run
them, on few and small images."""

import re
import shlex

import numpy as np
import pytest

from tests.commands import ROOT, ok
from tests.run_helpers import pictures, result
from tests.serving_fixtures import exported

pytestmark = pytest.mark.slow
# Later flags override those of the page.
SHORT = ["--steps=4", "--epochs=0", "--eval_every=0", "--noprojector", "--image_size=24"]
ON_CARS = [
    "--dataset=toycars(classes=16, images_per_class=8, image_size=24)",
    f"--data_dir={pictures()}",
    "--sampler=pxk(classes=4, per_class=4)",
]
ON_PHOTOS = ["--backbone=small(width=8, stages=2)", "--initial_weights=", "--method=single", "--noblend"]
ON_PHOTOS += ["--embedding_size=16", "--initial_embedding=random", "--sampler=auto"]


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def commands_of(name):
    return [shlex.split(line)[2:] for line in page(name).splitlines() if line.startswith("python -m ")]


def run_python(name, capsys):
    """Runs the examples of a page, which print what they say."""
    names = {}
    for example in re.findall(r"```python\n(.*?)```", page(name), re.DOTALL):
        exec(compile(example, f"docs/{name}", "exec"), names)
        assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", example, re.M)


@pytest.fixture
def folder(tmp_path, monkeypatch, write_images):
    """Photos of six classes, and photos without classes."""
    write_images(tmp_path / "photos", {f"class{k}/{i}.png": (24, 24) for k in range(6) for i in range(4)})
    write_images(tmp_path / "unsorted", {f"{i}.png": (24, 24) for i in range(80)})
    write_images(tmp_path / "others", {f"{i}.png": (24, 24) for i in range(20)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(folder, words, *more):
    """Runs a command of training, which must end well, with other flags behind it."""
    places = r"^(--(?:data_dir|run_dir|teacher|anchor_images)=)"
    words = [re.sub(places, rf"\1{folder}/", word) for word in words]
    done = ok("tfdml.train", *words, *more)
    return result(next(word for word in words if word.startswith("--run_dir=")).partition("=")[2]), done


@pytest.mark.nightly
def test_a_student_learns_from_a_run_from_stored_embeddings_and_without_labels(folder, capsys):
    teach, learn, embed, of_photos, unlabeled, shared, *searching = commands_of("distillation.md")
    trained(folder, teach[1:], *SHORT, *ON_CARS)
    found, done = trained(folder, learn[1:], *SHORT, *ON_CARS)
    assert "it keeps " in done.stdout and found["distillation"]["dims"] == {"teacher": 128, "student": 128}
    places = {"--model=exported/1": f"--model={exported()}", "--images=photos": f"--images={folder}/photos"}
    ok(embed[0], *(places.get(word, word.replace("=embedded", f"={folder}/embedded")) for word in embed[1:]))
    found, done = trained(folder, of_photos[1:], *SHORT, *ON_PHOTOS, "--dataset=folder(test_classes=0.5)")
    # The size and the speed of stored embeddings are not known.
    assert found["distillation"]["parameters"]["teacher"] is None and "of the teacher's" not in done.stdout
    more = ["--sampler=uniform(batch_size=16)", "--backbone=small(width=8, stages=2)"]
    found, _ = trained(folder, unlabeled[1:], *SHORT, *more)
    assert found["distillation"]["kept"] > 0
    found, done = trained(folder, shared[1:], *SHORT, *ON_CARS)
    assert found["distillation"]["student_in_teacher"]["recall_at_1"] >= 0
    assert "Searching the teacher's embeddings with the student's gives" in done.stdout
    photo = next((folder / "photos").rglob("*.*g"))
    places = {"--images=photos": f"--images={folder}/photos", "photos/mug/1.jpg": str(photo)}
    for name, *words in searching:
        words = [places.get(word, re.sub(r"=(runs|exported|photo_index)", rf"={folder}/\1", word)) for word in words]
        done = ok(name, *words)
    assert done.stdout.splitlines()[0] == str(photo)
    capsys.readouterr()
    run_python("distillation.md", capsys)


@pytest.mark.nightly
def test_runs_stay_near_their_initial_model(folder, capsys):
    near, anchored, evaluate = commands_of("pretrained_knowledge.md")
    found, _ = trained(folder, near[1:], *SHORT, *ON_CARS)
    assert found["step"] == 4 and np.load(folder / "runs/near/references/initial.npy").shape == (64, 128)
    trained(folder, anchored[1:], *SHORT, *ON_CARS)
    assert np.load(folder / "runs/anchored/references/initial.npy").shape == (20, 128)
    words = [re.sub(r"=(runs/\w+)$", rf"={folder}/\1", word) for word in evaluate[1:]]
    words = [word.replace("=other_photos", f"={folder}/photos") for word in words]
    assert "Recall@1" in ok("tfdml.evaluate", *words, "--dataset=folder(test_classes=0.5)").stdout
    capsys.readouterr()
    run_python("pretrained_knowledge.md", capsys)
