"""Fits a threshold of similarity for a run, or for embeddings of files."""

import json
from pathlib import Path

import numpy as np
from absl import logging

from tfdml.evaluation.verification.fitted_threshold import fit_threshold
from tfdml.files.checked_files import json_of, read_bytes, write_atomically
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.held_out import on_validation
from tfdml.run.experiment.measured_source import Source, source_of_files

FILE = "threshold.json"
SPLITS = ("validation", "test")


def print_threshold(given, changes):
    """Fits a threshold, prints what it means and one line of JSON, and writes that into the directory of a run.

    Args:
        given: flags of `python -m tfdml.threshold`.
        changes: settings to use instead of the run's, name to value.

    Returns:
        What that line says, a dictionary.
    """
    source = _of_run(given, changes) if given.run_dir else source_of_files(given)
    rule = {"far": given.far} if given.far else {"precision": given.precision}
    pairs = source.protocol.pairs(np.asanyarray(source.embeddings), source.rows)
    fitted = fit_threshold(pairs, **rule, samples=given.samples, seed=given.seed)
    classes = len(np.unique(source.rows.labels))
    found = {**source.about, "distance": source.protocol.distance, **rule, "classes": classes, **fitted}
    print(in_words(found))
    if given.run_dir:
        content = json.dumps(found, indent=2) + "\n"
        write_atomically(Path(given.run_dir, FILE), content.encode())
    print(json.dumps(found))
    return found


def in_words(found):
    """Returns what a threshold means, in sentences."""
    euclidean, (low, high) = found["distance"] == "euclidean", found["interval"]
    threshold = -found["threshold"] if euclidean else found["threshold"]
    low, high = (-high, -low) if euclidean else (low, high)
    measure = "distance of at most" if euclidean else "similarity of at least"
    accepted, pairs = found["accepted"], found["pairs"]
    on_test = found.get("split") == "test"
    return (
        f"Accept pairs with a {measure} {threshold:.4f}; over {found['classes']} classes, the 95% interval is "
        f"{low:.4f} to {high:.4f}. Of {pairs['same']:,} pairs of the same class it accepts {accepted['same']:,} "
        f"({found['true_accept_rate']:.1%}), of {pairs['different']:,} pairs of different classes "
        f"{accepted['different']:,} ({found['false_accept_rate']:.2g})."
        + (" It is fitted on the test classes, so its rates on them are optimistic." if on_test else "")
    )


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
        logging.warning("%s is of another %s model than the run has now, and is not used; fit it again.", file, which)
        return None
    return found


def _of_run(given, changes):
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from tfdml.run.experiment.experiment import trained

    if given.split == "validation":
        changes = on_validation(changes, given.run_dir, "--split=test, to fit on the test classes")
    experiment, model = trained(given.run_dir, given.which, changes, test_only=given.split == "test")
    split = experiment.splits.test if given.split == "test" else experiment.splits.evaluation
    about = {
        "run_dir": given.run_dir,
        "model": given.which,
        "sha256": sha256_of(RunDirectory(given.run_dir), given.which),
        "dataset": experiment.settings.data.dataset,
        "split": given.split,
        "protocol": experiment.protocol_spec,
    }
    return Source(about, experiment.splits.protocol, experiment.embed(model, split), split)
