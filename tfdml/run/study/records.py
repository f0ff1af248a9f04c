"""Results of a study's runs in one small file, which others can read and a later command can go on from."""

import json
import logging
from pathlib import Path

from tfdml.console.settings import names_with
from tfdml.files.checked import whole_folder, write_atomically
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.study.measured import FILE as MEASURED

# What of a run's metrics.jsonl is kept: its learning curve, and what the loss found at the end.
CURVE, AT_THE_END = "evaluation", "pairs"
# Flags that say where files are, which other machines have elsewhere.
PLACES = tuple(f"--{name}" for name in sorted(names_with(is_place=True)))


def read(file):
    """Returns the records by the names of their runs: of several of one run the last, which has its measures."""
    path, records = Path(file), {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            record = json.loads(line)
            records[record["run"]] = record
        except (json.JSONDecodeError, KeyError, TypeError):
            # A study was killed while it wrote.
            logging.getLogger(__name__).warning("%s, line %d is no record, and is passed over.", path, number)
    return records


def keep(run_dir, file):
    """Adds a complete run to the records: its flags, result, learning curve and measures, unless they have these."""
    run, path = RunDirectory(run_dir), Path(file)
    name, measured = Path(run_dir).name, run.path / MEASURED
    flags, result = [*map(_without_folders, run.serialized().values())], _of_any_machine(run.result())
    record = {"run": name, "flags": flags, "result": result}
    if measured.exists():
        record["measured"] = _rounded(json.loads(measured.read_text()))
        # Models are not kept.
        record["measured"].pop("sha256", None)
    known = read(path).get(name)
    same = known and known["result"] == _rounded(record["result"])
    if same and record.get("measured") in (None, known.get("measured")):
        return
    # An ensemble has none: its members have.
    record["curve"] = _kept(run.events())
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write at the end of the file: two studies may have the same records.
    with path.open("a") as records:
        records.write("\n" * _is_cut(path) + json.dumps(_rounded(record)) + "\n")


def restore(record, run_dir, flags):
    """Makes the directory of a recorded run, without its models.

    Args:
        record: one of what `read` gives.
        run_dir: path that there is not.
        flags: `{name: "--name=value"}` of the run now: those of `PLACES` replace the recorded ones, which are names
            without folders. `imagenet` stands for a file of such weights.
    """
    here = {place: flags[place.removeprefix("--")] for place in PLACES}
    for flag in record["flags"]:
        now = here.get(flag.partition("=")[0], flag)
        if not _are_equal(flag, _without_folders(now)):
            raise ValueError(
                f"The record of {record['run']} is of a run with {flag}; received {now}. Give the same, or a file of "
                "--records of its own."
            )
    path = Path(run_dir)
    # Whole or not there: a part of it would be trained again, with measures of before.
    with whole_folder(path, "run") as folder:
        run = RunDirectory(folder)
        run.claim(dict(enumerate(here.get(flag.partition("=")[0], flag) for flag in record["flags"])))
        run.metrics.write_text("".join(json.dumps(event) + "\n" for event in record["curve"]))
        if "measured" in record:
            write_atomically(run.path / MEASURED, f"{json.dumps(record['measured'])}\n".encode())
        run.write_result(record["result"])


def check_images(run_dir, flags):
    """Raises if a run that is there is of images of another folder, by its name, or without others.

    Args:
        run_dir: path of a run; it need not exist.
        flags: `{name: "--name=value"}` of the run now.
    """
    run = RunDirectory(run_dir)
    there = run.serialized() if run.has_flags else flags
    for name in ("data_dir", "ignore_images"):
        if _name_in(there[name]) != _name_in(flags[name]):
            raise ValueError(
                f"The run in {run_dir} is of {there[name]}; received {flags[name]}. Give the same, or --runs, another "
                "folder."
            )


def _name_in(flag):
    return Path(flag.partition("=")[2]).name


def _are_equal(recorded, now):
    """Whether two flags are of one file or folder, by its name; `imagenet` is one of any file with such a name."""
    names = {flag.partition("=")[2] for flag in (recorded, now)}
    return recorded == now or ("imagenet" in names and all("imagenet" in name for name in names))


def _without_folders(flag):
    """A flag with the name alone of a file that other machines have elsewhere."""
    name, _, value = flag.partition("=")
    return f"{name}={Path(value).name}" if name in PLACES else flag


def _of_any_machine(result):
    """A result whose members have no folder."""
    if "members" not in result:
        return result
    return {**result, "members": [{**each, "run_dir": Path(each["run_dir"]).name} for each in result["members"]]}


def _is_cut(path):
    """Whether the last line of a file has no end."""
    return path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")


def _kept(events):
    """Returns the events of metrics.jsonl that are kept."""
    curve, found = ([event for event in events if event.get("event") == kind] for kind in (CURVE, AT_THE_END))
    return curve + [event for event in found if event["step"] == found[-1]["step"]]


def _rounded(value):
    """Values with their floats at six digits, which is more than seeds have in common."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
