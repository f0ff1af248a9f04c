"""What is installed is what is in the tree, and it runs where the tree is not."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.commands import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tfdml", "pipelines")


def run(*arguments, cwd, **variables):
    variables = os.environ | variables
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=variables, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, because setuptools leaves a folder `build`, from which removed files would return.

    By the build backend itself, which is all that pip would call: it takes no network.
    """
    source = tmp_path_factory.mktemp("source") / "tfdml"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "bazel-*", "build", "dist", "runs", "*.egg-info"))
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    run("-c", build, str(folder), cwd=source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_it_holds_both_packages_and_the_recipes_and_nothing_else(wheel):
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    files += (ROOT / package / "py.typed" for package in PACKAGES)
    files += (ROOT / "tfdml").glob("*.pyi")
    for folder in ("tfdml/backbones/weights", "tfdml/reporting/templates", "tfdml/serving/http"):
        files += (path for path in (ROOT / folder).glob("*.*") if path.suffix != ".py")
    expected = {path.relative_to(ROOT).as_posix() for path in files}
    expected |= {f"tfdml/configs/{path.name}" for path in (ROOT / "configs").glob("*.flags")}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_its_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
        assert any(name.endswith("/LICENSE") for name in archive.namelist())
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    required = [line.split(": ")[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    # Both choices of each own one module, so neither may come without being asked for.
    for package in ("tensorflow-cpu", "tensorflow~", "tensorflow[", "faiss"):
        named = [line for line in required if line.startswith(package)]
        assert named and all("extra ==" in line for line in named), package


@pytest.mark.nightly
def test_its_command_line_runs(installed, tmp_path):
    printed = run("-m", "tfdml.train", "--list", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "triplet" in printed and "toycars" in printed
    assert "\n  configs/cub_abe.flags: Attention-based Ensemble for Deep Metric Learning (Kim et al., " in printed


@pytest.mark.nightly
def test_its_recipes_are_found_from_any_folder(installed, tmp_path):
    """The one that help begins with, one that names another, and one by its name alone."""
    code = "import sys; from tfdml.console.flags import resolve; print(*resolve(sys.argv[1:]).values())"
    for named, line in {
        "configs/quickstart.flags": "--loss=triplet(margin=0.2, mining='semi_hard', distance='euclidean')",
        "configs/cub_rll_dynamic.flags": "--dataset=cub200",
        "cub_abe.flags": "--sampler=pairs(images=32)",
    }.items():
        assert line in run("-c", code, f"--flagfile={named}", cwd=tmp_path, PYTHONPATH=str(installed))
    printed = run(
        "-m", "tfdml.train", "--flagfile=configs/quickstart.flags", "--help", cwd=tmp_path, PYTHONPATH=str(installed)
    )
    assert printed.startswith("Trains an embedding model: `python -m tfdml.train --data_dir=photos`.")


def test_its_program_runs_commands_before_tensorflow_is_imported(wheel, installed, tmp_path):
    """As the script of pip does it, which imports what the wheel names."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        assert archive.read(name).decode().split("\n")[:2] == ["[console_scripts]", "tfdml = tfdml.__main__:main"]
    script = tmp_path / "tfdml"
    script.write_text("import sys\nfrom tfdml.__main__ import main\nsys.exit(main())\n")
    variables = {"PYTHONPATH": str(installed)}
    assert "  train " in run(str(script), cwd=tmp_path, **variables)
    assert "Usage: python -m tfdml.train " in run(str(script), "train", "--help", cwd=tmp_path, **variables)
