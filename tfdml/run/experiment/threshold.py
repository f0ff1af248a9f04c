"""Fits a threshold of similarity for a run, or for embeddings of files."""

import json
import logging
from pathlib import Path

import numpy as np

from tfdml.evaluation.verification.thresholds import fit_threshold
from tfdml.files.checked import json_of, read_bytes, write_atomically
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.held_out import on_validation
from tfdml.run.experiment.measured_source import Source

FILE = "threshold.json"


def fit(source, rule, samples, seed):
    """Returns the threshold of a `Source` by `{"far": rate}` or `{"precision": share}`, and what is known of it."""
    pairs = source.protocol.pairs(np.asanyarray(source.embeddings), source.rows)
    fitted = fit_threshold(pairs, **rule, samples=samples, seed=seed)
    classes = len(np.unique(source.rows.labels))
    return {**source.facts, "distance": source.protocol.distance, **rule, "classes": classes, **fitted}


def write_threshold(run_dir, threshold):
    """Writes what `fit` returns into the directory of a run."""
    write_atomically(Path(run_dir, FILE), (json.dumps(threshold, indent=2) + "\n").encode())


def threshold_of(run_dir, which="best", distance=None):
    """Returns what was fitted for the `best` or `final` model of a run, and for a distance if one is given; or None."""
    file = Path(run_dir, FILE)
    if not file.is_file():
        return None
    try:
        found = json_of(read_bytes(file))
        whole = isinstance(found, dict) and {"run_dir", "model", "sha256", "distance"} <= {*found}
        if not (whole and isinstance(found.get("threshold"), float)):
            raise ValueError("expected an object with threshold, distance, model, sha256 and run_dir")
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} is damaged ({error}); fit the threshold again.") from None
    # Where the run is matters to nobody who has its export.
    del found["run_dir"]
    if found["model"] != which or distance not in (None, found["distance"]):
        return None
    if found.pop("sha256") != sha256_of(RunDirectory(run_dir), which):
        logging.getLogger(__name__).warning(
            "%s is of another %s model than the run has now, and is not used; fit it again.", file, which
        )
        return None
    return found


def source_of_run(run_dir, which, split, changes):
    """Returns the `Source` of a run's model on its `validation` or `test` classes.

    Args:
        run_dir: folder of the run.
        which: `best` or `final`.
        split: `validation` or `test`.
        changes: settings to use instead of the run's, name to value.
    """
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from tfdml.run.experiment.experiment import trained

    if split == "validation":
        changes = on_validation(changes, run_dir, "--split=test, to fit on the test classes")
    experiment, model = trained(run_dir, which, changes, test_only=split == "test")
    images = experiment.splits.test if split == "test" else experiment.splits.evaluation
    facts = {
        "run_dir": run_dir,
        "model": which,
        "sha256": sha256_of(RunDirectory(run_dir), which),
        "dataset": experiment.settings.data.dataset,
        "split": split,
        "protocol": experiment.protocol_spec,
    }
    return Source(facts, experiment.splits.protocol, experiment.embed(model, images), images)
