"""The commands and the Python of the pages on search and exports run as a new user would run them."""

import base64
import importlib.util
import json
import re
import shlex
import shutil
import signal
import urllib.request

import pytest
from PIL import Image

from tests.commands import DECODER_NOISE, ROOT, assert_one_error, ok, run
from tests.run_helpers import pictures, straight_run
from tests.serving.http.service import Service
from tests.serving.index.store_places import server
from tests.serving_fixtures import exported, exported_tolerant, nearly, picture

# In the order in which they are read. The page on the service shows commands of the first one.
PAGES = ("search.md", "export.md", "large_collections.md")
DATASET = "toycars(classes=16, images_per_class=8, image_size=24)"


def of_the_test(text, folder):
    """A word of a command with the names of the page's files and folders in a folder of the test."""
    flag, equals, value = text.rpartition("=")
    for name, there in (("runs/quickstart", straight_run()), ("toycars", DATASET), ("1000", 2)):
        if value == name:
            return [f"{flag}={there}", *([f"--data_dir={pictures()}"] if there == DATASET else [])]
    own = re.match(
        r"(exported|index|embedded|large_index|photo_index|photos|new_photos|validation|query\.jpg|found\.png|prices\.csv|clusters\.parquet)\b",
        value,
    )
    return [f"{flag}{equals}{folder / value}" if own else text]


@pytest.mark.nightly
def test_from_a_run_to_a_search(tmp_path, monkeypatch):
    for number in range(4):
        bus, car = (picture(seed, kind="JPEG") for seed in (number, 10 + number))
        for place, content in {"photos/bus": bus, "photos/car": car, "validation/bus": nearly(bus)}.items():
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            (tmp_path / place / f"{number}.jpg").write_bytes(content)
    shutil.copytree(tmp_path / "photos" / "car", tmp_path / "new_photos")
    # Of the query's there is one only.
    (tmp_path / "new_photos" / "1.jpg").write_bytes(picture(30, kind="JPEG"))
    (tmp_path / "photos" / "bus" / "broken.jpg").write_bytes(b"text")
    (tmp_path / "query.jpg").write_bytes(picture(11, kind="JPEG"))
    prices = [f"{path},{number}" for number, path in enumerate((tmp_path / "photos").rglob("*.jpg"))]
    (tmp_path / "prices.csv").write_text("\n".join(["path,price", *prices]))
    text = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)
    # This section needs weights that would be downloaded.
    text = re.sub(r"\n## Search without training\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    blocks = re.findall(r"```\n((?:python -m .*\n)+)```", text)
    commands = [shlex.split(line)[2:] for block in blocks for line in block.splitlines()]
    printed = []
    assert commands.pop(3) == ["tfdml.serve", "--index=index"]
    # The page on exports repeats the first command. Of those on large collections, only the first block has its files.
    again = commands.index(commands[0], 1)
    commands = commands[:again] + commands[again + 1 : again + 5]
    for module, *words in commands:
        done = run(module, *[each for word in words for each in of_the_test(word, tmp_path)])
        assert (done.returncode, re.sub(DECODER_NOISE, "", done.stderr).strip()) == (0, ""), (
            module,
            words,
            done.stderr,
        )
        printed.append(done.stdout)
    assert len(commands) == 16
    _, indexed, found, photos, added, deleted, searched, as_json, pairs, labeled, *last = printed
    assert "Indexed 64 images" in indexed and "1 of 9 images " in photos and "broken.jpg" in photos
    assert found.splitlines()[1].split()[0] == "1.0000" and "test-0000042.jpg" in found.splitlines()[1]
    assert "Indexed 12 images" in added and "t has 11 images" in deleted
    assert len(searched.splitlines()) == 8 and Image.open(tmp_path / "found.png").size == (4 * 136 + 8, 2 * 164 + 8)
    (answer,) = json.loads(as_json)
    assert answer["neighbors"][0]["path"] == str(tmp_path / "photos/car/1.jpg")
    assert answer["neighbors"][0]["label"] == "car" and len(answer["neighbors"]) == 5
    # Copies; what else is as similar depends on the run.
    assert [line.split()[0] for line in pairs.splitlines()[:3]] == ["1.0000"] * 3 and pairs.endswith(" pairs\n")
    assert labeled.startswith("Threshold ") and len(labeled.splitlines()) == 5
    updated, filtered, _, _, large, _ = last
    index = f"--out={tmp_path / 'photo_index'}"
    marked = ok("tfdml.index", index, f"--delete={tmp_path / 'photos/bus/2.jpg'}", "--nocompact").stdout
    compacted = ok("tfdml.index", index, "--compact").stdout
    assert (
        "Indexed 8 images" in large and "Indexed 12 images" in updated and filtered.startswith("8 of 12 images match")
    )
    assert "t has 11 images" in marked and "has 11 images" in compacted
    if importlib.util.find_spec("fastapi"):
        service = Service(tmp_path / "index")
        content = base64.b64encode((tmp_path / "index/images/test-0000042.jpg").read_bytes()).decode()
        answer = service.ask("search", json.dumps({"b64": content}).encode(), **{"content-type": "application/json"})
        assert (len(answer["neighbors"]), answer["neighbors"][0]["name"]) == (10, "test-0000042.jpg")
        with urllib.request.urlopen(service.address, timeout=60) as page:
            assert (page.status, page.headers.get_content_type()) == (200, "text/html")
            assert '<input id="file"' in page.read().decode()
        assert service.kill(signal.SIGINT).returncode == 130
    shutil.copytree(tmp_path / "index", tmp_path / "other")
    (tmp_path / "other" / "index-0.faiss").write_bytes(b"text")
    refused = run("tfdml.search", f"--index={tmp_path}/other", str(tmp_path / "query.jpg"))
    assert_one_error(refused, f"{tmp_path}/other/index-0.faiss is damaged")
    monkeypatch.chdir(tmp_path)
    shutil.copy("query.jpg", "car.jpg")
    names = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, "docs/search.md", "exec"), names)


@pytest.mark.nightly
def test_the_commands_on_small_vectors_run(tmp_path):
    (tmp_path / "photos" / "bus").mkdir(parents=True)
    for number in range(8):
        (tmp_path / "photos" / "bus" / f"{number}.png").write_bytes(picture(number))
    embedded = f"{tmp_path}/embedded"
    ok("tfdml.embed", f"--model={exported()}", f"--images={tmp_path}/photos", f"--out={embedded}", "--dtype=int8")
    page = (ROOT / "docs" / "large_collections.md").read_text(encoding="utf-8")
    section = re.search(r"\n## Small vectors\n(.*?)\n## ", page, re.DOTALL)[1]
    commands = [shlex.split(line)[2:] for line in section.splitlines() if line.startswith("python -m ")]
    assert len(commands) == 2
    for module, *words in commands:
        words = [re.sub(r"^(--\w+=)(embedded|\w+_index)$", rf"\1{tmp_path}/\2", word) for word in words]
        words = [word.replace("exported/1", str(exported())) for word in words]
        assert "Indexed 8 images" in ok(module, *words).stdout
        index = next(word for word in words if word.startswith("--out=")).replace("out", "index")
        found = ok("tfdml.search", index, "--k=2", f"{tmp_path}/photos/bus/3.png").stdout.splitlines()
        assert found[1].split()[-1] == f"{tmp_path}/photos/bus/3.png" and len(found) == 3


STORES = (ROOT / "docs" / "vector_databases.md").read_text(encoding="utf-8")
COMMANDS = [line for line in STORES.splitlines() if line.startswith("python -m ")]


def placed(command, folder, engine):
    """The module and flags of a command, with the engine and the files of the test."""
    if engine == "qdrant":
        command = re.sub(r"postgresql://me@host/db\?table=(\w+)", rf"qdrant:{folder}/\1_points", command)
        command = command.replace(" --workers=4", "")
    else:
        place = server().get_uri().replace("postgres:@", "postgres@")
        command = command.replace("postgresql://me@host/db?", f"{place}&")
    _, _, module, *flags = shlex.split(command)
    names = r"^((?:--\w+=)?)(photos|embedded|query\.jpg)\b"
    flags = [re.sub(names, lambda found: f"{found[1]}{folder / found[2]}", flag) for flag in flags]
    return module, [flag.replace("=exported/1", f"={exported()}") for flag in flags]


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["postgresql", "qdrant"])
def test_the_commands_of_a_store_run(engine, tmp_path):
    for number in range(4):
        for name in ("bus", "car"):
            path = tmp_path / "photos" / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture(number + 10 * (name == "car"), kind="JPEG"))
    (tmp_path / "query.jpg").write_bytes(picture(2, kind="JPEG"))
    printed = {}
    assert len(COMMANDS) == 6
    for command in COMMANDS:
        module, flags = placed(command, tmp_path, engine)
        if module == "tfdml.serve":
            index = next(flag for flag in flags if flag.startswith("--index=")).removeprefix("--index=")
            service = Service(index, flags=[f"--model={exported()}"])
            assert service.ask("health") == {"status": "ok", "token": False}
            service.kill(signal.SIGTERM)
            continue
        done = ok(module, *flags)
        printed.setdefault(module, []).append(done.stdout)
    assert "Indexed 8 images" in printed["tfdml.index"][0] and "t has 7 images" in printed["tfdml.index"][1]
    assert "4 of 8 images match" in printed["tfdml.search"][0] and "photos/bus/2.jpg" in printed["tfdml.search"][0]
    assert "Indexed 8 images" in printed["tfdml.index"][2]
    upgraded = run("tfdml.index", flags[-1], "--upgrade", f"--model={exported_tolerant()}")
    assert "embedded 8 images" in upgraded.stdout, upgraded.stderr
