"""docs/stores.md: its commands run as they stand there, before a real PostgreSQL and a folder of Qdrant."""

import re
import shlex
import signal
from pathlib import Path

import pytest

from tests.commands import run
from tests.serving.http.service import Service
from tests.serving.index.store_places import server
from tests.serving_fixtures import exported, exported_tolerant, picture

PAGE = (Path(__file__).parents[1] / "docs" / "stores.md").read_text(encoding="utf-8")
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("python -m ")]


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


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["postgresql", "qdrant"])
def test_the_commands_run(engine, tmp_path):
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
        done = run(module, *flags)
        assert done.returncode == 0, (command, done.stderr)
        printed.setdefault(module, []).append(done.stdout)
    assert "Indexed 8 images" in printed["tfdml.index"][0] and "it has 7 images" in printed["tfdml.index"][1]
    assert "4 of 8 images match" in printed["tfdml.search"][0] and "photos/bus/2.jpg" in printed["tfdml.search"][0]
    assert "Indexed 8 images" in printed["tfdml.index"][2]
    upgraded = run("tfdml.index", flags[-1], "--upgrade", f"--model={exported_tolerant()}")
    assert "which has embedded 8 images" in upgraded.stdout, upgraded.stderr
