"""Results of a study's runs in one small file, which others can read and a later command can go on from."""

import json
from pathlib import Path

from benchmarks.measured import FILE as MEASURED
from tfdml.run.run_directory import RunDirectory

# What of a run's metrics.jsonl is kept: its learning curve, and what the loss found at the end.
CURVE, AT_THE_END = "evaluation", "pairs"
# Flags that say where files are, which other machines have elsewhere.
PLACES = ("--data_dir", "--initial_weights")


def read(file):
    """Returns the records by the names of their runs: of several of one run the last, which has its measures."""
    path = Path(file)
    records = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {record["run"]: record for record in records}


def keep(run_dir, file):
    """Adds a complete run to the records: its flags, result, learning curve and measures, unless they have these."""
    run, path = RunDirectory(run_dir), Path(file)
    name, measured = Path(run_dir).name, run.path / MEASURED
    known = read(path).get(name)
    if known and ("measured" in known or not measured.exists()):
        return
    # An ensemble has none: its members have.
    lines = run.metrics.read_text().splitlines() if run.metrics.exists() else []
    record = {"run": name, "flags": list(run.serialized().values()), "result": run.result(), "curve": _kept(lines)}
    if measured.exists():
        record["measured"] = json.loads(measured.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write at the end of the file: two studies may have the same records.
    with path.open("a") as records:
        records.write(json.dumps(_rounded(record)) + "\n")


def restore(record, run_dir, flags):
    """Makes the directory of a recorded run, without its models.

    Args:
        record: one of what `read` gives.
        run_dir: path that there is not.
        flags: `{name: "--name=value"}` of the run now: those of `PLACES` replace the recorded ones.
    """
    path = Path(run_dir)
    run = RunDirectory(path)
    here = {place: flags[place.removeprefix("--")] for place in PLACES}
    run.claim(dict(enumerate(here.get(flag.partition("=")[0], flag) for flag in record["flags"])))
    run.metrics.write_text("".join(json.dumps(event) + "\n" for event in record["curve"]))
    if "measured" in record:
        (path / MEASURED).write_text(json.dumps(record["measured"]) + "\n")
    run.write_result(record["result"])


def _kept(lines):
    """Returns the events of metrics.jsonl that are kept."""
    events = [json.loads(line) for line in lines]
    curve, found = ([event for event in events if event.get("event") == kind] for kind in (CURVE, AT_THE_END))
    return curve + [event for event in found if event["step"] == found[-1]["step"]]


def _rounded(value):
    """Values with their floats at six digits, which is more than seeds have in common."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
