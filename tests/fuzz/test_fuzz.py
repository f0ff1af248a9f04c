"""Files that were damaged or made on purpose run no code, do not hang, take little memory, and change no number."""

import datetime
import fnmatch
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.fuzz.damage import LINES
from tests.fuzz.faulty_targets import FAULTS
from tests.fuzz.targets import TARGETS
from tests.fuzz.watched import Watched
from tests.night import others_at_night
from tfdml.files.checked import fingerprint

pytestmark = pytest.mark.slow
# Each night tries other files; TFDML_FUZZ_SEED tries those of a night again.
SEED = int(os.environ.get("TFDML_FUZZ_SEED", datetime.date.today().toordinal()))
CASES = 2000 // len(TARGETS)
LONGEST_MESSAGE = 2000
MANIFESTS = ("manifest.json", "checksums.json")
# Endings that entries of manifests leave out.
ENDINGS = ("", ".tar", ".parquet")


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    with Watched("tests.fuzz.targets", tmp_path_factory.mktemp("reader")) as reader:
        yield reader


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Function from the name of a target to the folder of its files."""
    made = {}

    def original(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            TARGETS[name].make(made[name])
        return made[name]

    return original


def make_checksums_fit(folder):
    """Gives all entries of manifests the checksums of their files, as whoever makes a file on purpose does."""
    for manifest in (path for name in MANIFESTS for path in folder.rglob(name)):
        try:
            found = json.loads(manifest.read_text(errors="replace"))
        except (ValueError, RecursionError):
            continue
        _fit(manifest.parent, "", found)
        manifest.write_text(json.dumps(found))


def _fit(folder, name, entry):
    """Gives the entry of a file, and those in it, the checksums that the files have."""
    if not isinstance(entry, dict):
        return
    named = [folder / f"{name}{ending}" for ending in ENDINGS] if name.isprintable() and len(name) < 200 else []
    file = next((path for path in named if path.is_file()), None)
    if "sha256" in entry and file:
        entry |= fingerprint(file)
    for key, value in entry.items():
        _fit(folder, f"{name}.parquet" if key == "table" else key, value)


def changed_copy(target, original, folder, seed):
    """Copies the files with one of them changed; returns its name, the change, and whether it must be noticed."""
    shutil.copytree(original, folder)
    choice = random.Random(seed)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    pattern = choice.choice(sorted(target.hostile))
    file = choice.choice([file for file in files if fnmatch.fnmatch(file.name, pattern)])
    change = choice.choice(target.hostile[pattern])
    before = file.read_bytes()
    file.write_bytes(change(before, choice))
    # Faiss is C++, which may crash; only the checksum of its files keeps it from reading others'.
    fits = bool(choice.randrange(2)) and file.suffix != ".faiss"
    if fits:
        make_checksums_fit(folder)
    noticed = change in LINES and not fits and any(fnmatch.fnmatch(file.name, each) for each in target.checked)
    return f"{file.relative_to(folder)} {getattr(change, '__name__', 'changed')}", noticed


def wrong(happened, expected, noticed, named=("",)):
    """What is wrong with what `Watched.read` returned, or None.

    If `noticed`, another result than the expected one is wrong. An error must have one of the texts in `named`.
    """
    if happened["noted"] or happened.get("marks"):
        return f"{happened['noted'][:3]}, {happened.get('marks')}"
    if happened.get("peak", 0) > 2 * 2**30:
        return f"took {happened['peak'] / 2**20:.0f} MiB"
    if "error" in happened:
        message = happened["error"]
        clear = happened["expected"] and "\n" not in message and len(message) < LONGEST_MESSAGE
        clear = clear and any(text in message for text in named)
        return None if clear else message[:500]
    return "another result, and no error" if noticed and happened["result"] != expected else None


def faults(name, watched, original, folder, seeds):
    """Returns `{seed: what is wrong}` of changed files of a target."""
    target, found = TARGETS[name], {}
    whole = watched.read(name, original)
    assert "result" in whole and not whole["noted"], whole
    for seed in seeds:
        case = folder / "case"
        what, noticed = changed_copy(target, original, case, seed)
        expected = whole["result"].replace(str(original), str(case))
        named = (str(case), Path(what.split()[0]).name) if target.named else ("",)
        why = wrong(watched.read(name, case), expected, noticed, named)
        if why:
            found[seed] = f"{what}: {why}"
        shutil.rmtree(case)
    return found


@pytest.mark.parametrize("name", others_at_night(TARGETS, ("model", "weights")))
def test_some_changed_files(name, watched, originals, tmp_path):
    assert faults(name, watched, originals(name), tmp_path, range(5)) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_many_changed_files(name, watched, originals, tmp_path):
    seeds = range(SEED * CASES, (SEED + 1) * CASES)
    assert faults(name, watched, originals(name), tmp_path, seeds) == {}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    with Watched("tests.fuzz.faulty_targets", tmp_path_factory.mktemp("faulty")) as reader:
        yield reader


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault, faulty, tmp_path):
    found = wrong(faulty.read(fault, tmp_path), expected="0", noticed=True)
    assert found is not None and fault.replace("two lines", "two\nlines") in found


@pytest.mark.nightly
def test_the_process_goes_on_after_a_fault(faulty, tmp_path):
    assert faulty.read("died", tmp_path)["expected"] is False
    assert faulty.read("another result", tmp_path)["result"] == "1"
