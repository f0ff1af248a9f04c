"""Trains and packs the weights of `--initial_weights=toycars`: `python -m benchmarks.studies.pretrain_toycars`.

It trains configs/toycars_pretraining.flags, or resumes an interrupted run. It writes the weights of the backbone into
the package, together with the configuration and a checksum.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import keras

import tfdml
from pipelines.datasets.toycars import designs
from tfdml.run.directory.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[2]
FLAGFILE = "configs/toycars_pretraining.flags"
RUN = ROOT / "runs/toycars_pretraining"
WEIGHTS = ROOT / "tfdml/backbones/weights/small_toycars.weights.h5"
# The designs of the comparisons.
RESERVED = {design for classes in (160, 200) for design in designs(classes, seed=0)}


def check_designs(classes, seed):
    """Raises a `ValueError` if pretraining would use a design that the comparisons use."""
    shared = RESERVED & set(designs(classes, seed))
    if shared:
        raise ValueError(f"{len(shared)} designs of toycars(classes={classes}, seed={seed}) are in use: {shared}.")


def main():
    # The command has no arguments, and --help shows this.
    argparse.ArgumentParser(description=__doc__.partition(":")[0]).parse_args()
    check_designs(classes=80, seed=1)
    command = [sys.executable, "-m", "tfdml.train", f"--flagfile={FLAGFILE}", f"--run_dir={RUN}"]
    subprocess.run(command, cwd=ROOT, check=True)
    run = RunDirectory(RUN)
    model = keras.models.load_model(run.model_file("final"), compile=False)
    if not isinstance(model.backbone, tfdml.backbones.Small):
        raise ValueError(f"The backbone must be `small`. Received: {type(model.backbone).__name__}.")
    WEIGHTS.parent.mkdir(exist_ok=True)
    model.backbone.save_weights(WEIGHTS)
    recipe = {
        "sha256": hashlib.sha256(WEIGHTS.read_bytes()).hexdigest(),
        "flags": [line for line in (ROOT / FLAGFILE).read_text().splitlines() if line.startswith("--")],
        "unseen designs": run.result()["metrics"],
    }
    WEIGHTS.with_name("small_toycars.json").write_text(json.dumps(recipe, indent=2) + "\n")
    print(f"Wrote {WEIGHTS}: {WEIGHTS.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
