"""Builds a release into dist/ and checks it. It changes nothing else, and says what --tag would do.

make release                       builds and checks
make release RELEASE_ARGS=--tag    then also gives the changelog its section, commits and tags
"""

import argparse
import datetime
import email
import importlib.util
import io
import os
import re
import site
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = "tfdml/console/startup.py"
PACKAGES = {"tfdml", "pipelines"}
UNRELEASED = "## [Unreleased]\n"
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", action="store_true", help="change CHANGELOG.md, commit and tag, after all checks")
    parser.add_argument("--offline", action="store_true", help="use installed packages in place of fresh ones")
    given = parser.parse_args()
    version = version_of((ROOT / VERSION_FILE).read_text(encoding="utf-8"))
    name = f"v{version}"
    is_tagged = name in git("tag", "--points-at", "HEAD").split()
    section, changelog = "", ROOT / "CHANGELOG.md"
    if not is_tagged:
        check_repository(name, needs_clean=given.tag)
        section, text = released(changelog.read_text(encoding="utf-8"), version, datetime.date.today())
    files = build(ROOT / "dist")
    check(files, version, given.offline)
    if given.tag and not is_tagged:
        changelog.write_text(text, encoding="utf-8")
        git("commit", "--quiet", "--message", f"Release {version}", "--", changelog.name)
        git("tag", "--annotate", name, "--message", f"tfdml {version}")
        print(f"Tagged {name}. Publish it: git push origin HEAD {name}")
    elif not is_tagged:
        print(f"\n{section}\nThat section would be written to CHANGELOG.md, and {name} be tagged, with --tag.")


def version_of(text):
    """Returns the version that the text of `tfdml/console/startup.py` states."""
    return re.search(r'^__version__ = "(\d+\.\d+\.\d+\w*)"$', text, re.MULTILINE)[1]


def released(text, version, date):
    """Returns the section of a release, and the text of the changelog with it, in which nothing is unreleased.

    Args:
        text: that of the changelog.
        version: the version.
        date: the day.
    """
    before, found, after = text.partition(UNRELEASED)
    if not found:
        sys.exit(f"Error: CHANGELOG.md has no line {UNRELEASED.strip()!r}.")
    if f"\n## [{version}]" in text:
        sys.exit(f"Error: CHANGELOG.md has a section {version} already; raise the version in {VERSION_FILE}.")
    changes = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not changes:
        sys.exit("Error: CHANGELOG.md has nothing under Unreleased.")
    section = f"## [{version}] - {date.isoformat()}\n\n{changes}\n"
    rest = after[after.index(changes) + len(changes) :]
    return section, f"{before}{UNRELEASED}\n{section}{rest.removeprefix(chr(10))}"


def check_repository(name, needs_clean):
    """Ends with an error if a tag exists, or if there are changes that would be in no commit."""
    if git("tag", "--list", name).strip():
        sys.exit(f"Error: the tag {name} exists, of another commit; raise the version in {VERSION_FILE}.")
    if changes := git("status", "--porcelain").strip():
        print(f"Warning: built is the last commit, without these changes:\n{changes}", file=sys.stderr)
        if needs_clean:
            sys.exit("Error: --tag needs a working tree without changes.")


def build(folder):
    """Builds the wheel and the source archive of the last commit; returns their paths.

    By the build backend itself, which is all that pip would call.
    """
    folder.mkdir(exist_ok=True)
    for old in folder.glob("tfdml-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as source:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        for kind in ("build_sdist", "build_wheel"):
            run(sys.executable, "-c", BUILD, kind, str(folder), cwd=source)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def check(files, version, offline):
    """Ends with an error if a wheel and a source archive are not what they should be."""
    wheel, archive = files
    check_metadata(wheel, version)
    print(f"{wheel.name}: metadata and packages are right")
    check_archive(archive, wheel)
    print(f"{archive.name}: makes the same wheel")
    if importlib.util.find_spec("twine"):
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
        print("twine check: passed")
    else:
        print("twine check: skipped, twine is not installed")
    check_import(wheel, version, offline)
    print("Imported in a fresh environment" + (", with the packages of this one" if offline else ""))


def check_metadata(wheel, version):
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.message_from_string(files.read(name).decode())
        tops = {name.partition("/")[0] for name in files.namelist() if ".dist-info/" not in name}
    expected = {"Name": "tfdml", "Version": version, "License-Expression": "Apache-2.0"}
    expected["Description-Content-Type"] = "text/markdown"
    for key, value in expected.items():
        if about[key] != value:
            sys.exit(f"Error: {wheel.name} has {key} {about[key]!r}, expected {value!r}.")
    if tops != PACKAGES or not about.get_payload().strip() or not about["Requires-Python"]:
        sys.exit(f"Error: {wheel.name} has packages {sorted(tops)}, or no description or bounds of Python.")


def check_archive(archive, wheel):
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        run(sys.executable, "-c", BUILD, "build_wheel", folder, cwd=source)
        (again,) = Path(folder).glob("*.whl")
        if different := names_in(again) ^ names_in(wheel):
            sys.exit(f"Error: {archive.name} makes another wheel: {', '.join(sorted(different)[:5])}.")


def names_in(wheel):
    with zipfile.ZipFile(wheel) as files:
        return set(files.namelist())


def check_import(wheel, version, offline):
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        python = str(Path(folder) / "bin" / "python")
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        if offline:
            run(*pip, "--no-deps", "--no-index", str(wheel))
            (place,) = Path(folder).glob("lib/python*/site-packages")
            (place / "borrowed.pth").write_text("\n".join(site.getsitepackages()))
        else:
            run(*pip, f"{wheel}[cpu]")
        found = run(python, "-c", "import tfdml; print(tfdml.__version__, tfdml.__file__)", cwd=folder).split()
        if found[0] != version or not found[1].startswith(os.path.realpath(folder)):
            sys.exit(f"Error: the installed wheel imports tfdml {' of '.join(found)}, expected {version} of {folder}.")
        run(str(Path(folder) / "bin" / "tfdml"), "train", "--list", cwd=folder)


def run(*command, cwd=ROOT):
    """Returns what a command prints; ends with its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nError: {' '.join(command)} failed.")
    return done.stdout


def git(*arguments):
    return run("git", *arguments)


if __name__ == "__main__":
    main()
