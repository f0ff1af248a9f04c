"""Results of a study's runs in one small file, which others can read and a later command can go on from."""

import json
from pathlib import Path

from benchmarks.measured import FILE as MEASURED
from tfdml.run.run_directory import RunDirectory

# What of a run's metrics.jsonl is kept: its learning curve.
EVENT = "evaluation"


def keep(run_dir, file):
    """Adds a complete run to the records, if they do not have it: its flags, result, learning curve and measures."""
    run, path = RunDirectory(run_dir), Path(file)
    name = Path(run_dir).name
    if any(record["run"] == name for record in _records(path)):
        return
    # An ensemble has none: its members have.
    lines = run.metrics.read_text().splitlines() if run.metrics.exists() else []
    curve = [event for event in map(json.loads, lines) if event.get("event") == EVENT]
    record = {"run": name, "flags": list(run.serialized().values()), "result": run.result(), "curve": curve}
    measured = run.path / MEASURED
    if measured.exists():
        record["measured"] = json.loads(measured.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write at the end of the file: two studies may have the same records.
    with path.open("a") as records:
        records.write(json.dumps(_rounded(record)) + "\n")


def restore(file, folder):
    """Makes directories of recorded runs in a folder where there are none, without their models."""
    for record in _records(Path(file)):
        path = Path(folder) / record["run"]
        if path.exists():
            continue
        run = RunDirectory(path)
        run.claim(dict(enumerate(record["flags"])))
        run.metrics.write_text("".join(json.dumps(event) + "\n" for event in record["curve"]))
        if "measured" in record:
            (path / MEASURED).write_text(json.dumps(record["measured"]) + "\n")
        run.write_result(record["result"])


def _records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _rounded(value):
    """Values with their floats at six digits, which is more than seeds have in common."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
