"""A release is built and checked as `make release` does it, and its files are as hosts read them."""

import datetime
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml

from docs import notebooks
from tests.rooms import ROOT

OF_HOSTS = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / "CITATION.cff"]
PAGES = sorted((ROOT / ".github").glob("*.md"))
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- A bug.\n\n## [0.0.9] - 2025-01-01\n\n- Old.\n"


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_changelog_gets_a_section(release):
    section, text = release.released(CHANGELOG, "0.1.0", datetime.date(2026, 1, 2))
    assert section == "## [0.1.0] - 2026-01-02\n\n### Fixed\n\n- A bug.\n"
    assert text == CHANGELOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n")
    # The next release begins from there.
    later = text.replace("## [Unreleased]\n", "## [Unreleased]\n\n- New.\n")
    section, text = release.released(later, "0.2.0", datetime.date(2026, 2, 3))
    assert section == "## [0.2.0] - 2026-02-03\n\n- New.\n"
    assert re.findall(r"^## \[(.*?)\]", text, re.MULTILINE) == ["Unreleased", "0.2.0", "0.1.0", "0.0.9"]


@pytest.mark.parametrize(
    "text, version, told",
    [
        ("# Changelog\n", "0.1.0", "has no line '## .Unreleased.'"),
        (CHANGELOG, "0.0.9", "has a section 0.0.9 already; raise the version in tfdml/console/startup.py"),
        (CHANGELOG.replace("### Fixed\n\n- A bug.\n", ""), "0.1.0", "has nothing under Unreleased"),
    ],
)
def test_a_changelog_without_a_release(text, version, told, release):
    with pytest.raises(SystemExit, match=told):
        release.released(text, version, datetime.date(2026, 1, 2))


def test_the_version_stands_in_one_place(release):
    import tfdml

    assert release.version_of((ROOT / release.VERSION_FILE).read_text()) == tfdml.__version__
    stated = f'"{tfdml.__version__}"'
    assert not [file for file in ("setup.py", "pyproject.toml", "CITATION.cff") if stated in (ROOT / file).read_text()]


def test_a_wheel_with_other_metadata_is_refused(release, tmp_path):
    wheel = tmp_path / "tfdml-0.1.0-py3-none-any.whl"
    about = "Name: tfdml\nVersion: 0.1.0\nLicense-Expression: Apache-2.0\nDescription-Content-Type: text/markdown\n"

    def write(metadata, *packages):
        with zipfile.ZipFile(wheel, "w") as files:
            files.writestr("tfdml-0.1.0.dist-info/METADATA", metadata)
            for package in packages:
                files.writestr(f"{package}/__init__.py", "")

    write(f"{about}Requires-Python: >=3.11\n\nText", "tfdml", "pipelines")
    release.check_metadata(wheel, "0.1.0")
    with pytest.raises(SystemExit, match="has Version '0.1.0', expected '0.2.0'"):
        release.check_metadata(wheel, "0.2.0")
    for metadata, packages in (
        (f"{about}Requires-Python: >=3.11\n\nText", ("tfdml", "pipelines", "tests")),
        (f"{about}Requires-Python: >=3.11\n\n", ("tfdml", "pipelines")),
        (f"{about}\nText", ("tfdml", "pipelines")),
    ):
        write(metadata, *packages)
        with pytest.raises(SystemExit, match="has packages .*, or no description or bounds of Python"):
            release.check_metadata(wheel, "0.1.0")


@pytest.fixture
def clone(tmp_path):
    """A repository with the files of this one, in one commit."""
    folder = tmp_path / "clone"
    skipped = shutil.ignore_patterns(".venv*", ".git", ".*_cache", "bazel-*", "build", "dist", "runs", "records")
    shutil.copytree(ROOT, folder, ignore=skipped)
    for command in (["init"], ["add", "--all"], ["commit", "--message=All"]):
        git(folder, *command)
    return folder


def git(folder, *command):
    own = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *own, *command], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make(folder, *flags):
    author = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = [sys.executable, ".ci/release.py", "--offline", *flags]
    return subprocess.run(command, cwd=folder, env=os.environ | author, capture_output=True, text=True)


@pytest.mark.nightly
def test_a_release_is_built_checked_and_tagged(clone):
    first = git(clone, "rev-parse", "HEAD")
    (clone / "notes.txt").write_text("")
    done = make(clone, "--tag")
    assert done.returncode == 1 and done.stderr.endswith("Error: --tag needs a working tree without changes.\n")
    (clone / "notes.txt").unlink()
    (clone / "dist").mkdir()
    (clone / "dist" / "tfdml-0.0.0.txt").write_text("")
    done = make(clone, "--tag")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "makes the same wheel" in done.stdout and "Imported in a fresh environment" in done.stdout
    assert "Tagged v0.1.0. Publish it: git push origin HEAD v0.1.0" in done.stdout
    assert len(list((clone / "dist").iterdir())) == 2 and git(clone, "status", "--short") == ""
    assert git(clone, "tag", "--points-at", "HEAD") == "v0.1.0" and git(clone, "rev-parse", "HEAD~1") == first
    assert re.search(r"^## \[0\.1\.0\] - \d{4}-\d\d-\d\d$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_without_a_tag_nothing_changes_and_a_tagged_commit_is_built_again(clone, release, monkeypatch, capsys):
    """Building and checking, which take long, are recorded in place of done."""
    done = []
    monkeypatch.setattr(release, "ROOT", clone)
    monkeypatch.setattr(release, "build", lambda folder: done.append(folder) or "files")
    monkeypatch.setattr(release, "check", lambda *given: done.append(given))
    monkeypatch.setattr(release, "run", functools.partial(release.run, cwd=clone))
    monkeypatch.setattr("sys.argv", ["release.py", "--offline"])
    first = git(clone, "rev-parse", "HEAD")
    release.main()
    assert "v0.1.0 be tagged, with --tag" in capsys.readouterr().out
    assert (git(clone, "tag"), git(clone, "rev-parse", "HEAD"), git(clone, "status", "--short")) == ("", first, "")
    git(clone, "tag", "--annotate", "v0.1.0", "--message=tfdml 0.1.0")
    release.main()
    assert capsys.readouterr().out == "" and done == 2 * [clone / "dist", ("files", "0.1.0", True)]


def test_files_of_hosts_can_be_read():
    found = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in OF_HOSTS}
    assert all(found.values()) and {"ci.yml", "release.yml", "bug.yml", "CITATION.cff"} <= set(found)
    citation = found["CITATION.cff"]
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "Apache-2.0"
    assert citation.get("repository-code", "") == notebooks.REPOSITORY
    assert all(citation[key] for key in ("message", "title", "authors", "abstract", "keywords"))
    steps = [
        step for name in ("ci.yml", "release.yml") for job in found[name]["jobs"].values() for step in job["steps"]
    ]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run", "make release"]
    for form in ("bug.yml", "idea.yml"):
        assert {"name", "description", "body"} <= set(found[form])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_pages_for_the_community_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_the_changelog_can_be_read_in_two_minutes():
    newest = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert len(newest.split()) < 500
