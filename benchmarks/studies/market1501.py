"""Trains MobileNetV2 on Market-1501, next to a published score: `python -m benchmarks.studies.market1501 --help`.

This file was committed before its runs. It fixes the rows, settings, lengths and seeds, so that nothing about them can
depend on the test set. The published row is MobileNetV2 1.0 in the model zoo of Torchreid: softmax loss, images of
256 × 128 pixels, random flip and crop, Euclidean distance, the official split with single queries, Recall@1 of 85.6%
and mAP of 67.3%.

**Rows.** All use MobileNetV2 1.0 at 256 × 128 with cosine similarity.

- The frozen features, and closed-form embeddings of them with 512 dimensions: linear discriminants (`lda`) and
  whitening within classes (`wccn`). Nothing is trained.
- "softmax": cross-entropy over the training persons, of cosines between an image and one proxy per person
  (`norm_softmax`), with random flips and crops. Torchreid's classifier has lengths and label smoothing instead.
- "recommended": the N-pair loss on batches of 16 persons with 4 images each, as docs/settings.md recommends, and
  variants of it.

**Settings.** For each trained row, held-out training persons choose among the forms below, each with the learning rates
3e-4 and 1e-3. This search trains 3 epochs at 128 × 64 with seed 0 on 80% of the training persons. The mAP of the last
models on the other 20% decides. Only one form trains the batch norm of the network, because the first two runs of the
search were far worse with it. Its moving statistics may change too slowly for the search (a momentum of 0.999).

**Training.** The chosen setting is trained on all 751 persons with seed 1: 16 epochs at 128 × 64, which are four times
faster, and then 6 epochs at 256 × 128 from these weights with half of the learning rate. We planned 20 and 15 epochs
and shortened them before any trained model saw a test image, because two cores need too long. Torchreid trains for 60
epochs at 256 × 128. Both stages have a cosine schedule. A loss with proxies starts the second stage with new proxies,
so the network is frozen in its first epoch. The last model counts. Nothing depends on the test set, which the command
evaluates at the end of each stage.

**Verdicts**, from the 95% confidence interval of Recall@1 over test persons, with one seed: a row *reaches* the
published score if the upper end of its interval is at least 85.6, and *exceeds* it if the lower end is above 85.6.

The command keeps all runs and resumes an interrupted one. A search that is in --records is not repeated. It adds a
record of each complete run and evaluation to --records. It also evaluates the frozen and the trained rows with
re-ranking (`k_reciprocal`, with its defaults), and compares both rows after each stage.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from pipelines.datasets import load
from tfdml.console.startup import TrainingStopped
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.study.records import keep, read
from tfdml.run.study.runs import train

CHOOSING = "map"
SMALL, LARGE = "128x64", "256x128"
SEARCHED = "training_classes(dataset='market1501', held_out=0.2, seed=0)"
MOBILENET = "--backbone=keras_applications(name='MobileNetV2')"
ALWAYS = ["--test_transform=warp", "--cache=pixels", "--noprojector", "--checkpoint_every=100", "--eval_batch_size=64"]
FREE = "--freeze_batch_norm=none"
ERASING = "|random_erasing(noise=True)"

# Rows without training: an evaluation before and after a step that changes nothing, on stored features.
NOT_TRAINED = ["--backbone=identity", "--optimizer=adam(learning_rate=1e-12)", "--sampler=pxk(classes=16, per_class=4)"]
NOT_TRAINED += ["--steps=1", "--eval_every=1", "--eval_unit=steps", "--noprojector", "--seed=0"]
FROZEN = {
    "features": ["--method=features"],
    "lda": ["--initial_embedding=lda", "--embedding_size=512"],
    "wccn": ["--initial_embedding=wccn", "--embedding_size=512"],
}

SOFTMAX, RECOMMENDED = "softmax", "recommended"
RATES = ("3e-4", "1e-3")
UNIFORM, GROUPED = "--sampler=uniform(batch_size=64)", "--sampler=pxk(classes=16, per_class=4)"
PROXIES = "--loss=norm_softmax(temperature=0.05)"
N_PAIR, BOTH = "--loss=n_pair(scale=20.0)", "--loss=n_pair(scale=20.0) + norm_softmax(temperature=0.05)"
# Batch norm before the linear layer, which is the neck of many networks for re-identification.
NECK = ["--method=single", "--head=linear(norm='batch')", "--embedding_size=512"]
# Linear levels have the same weights for each image size.
LEVELS = ["--method=multilevel(auxiliary=())", "--embedding_size=384", "--initial_embedding=auto"]
FORMS = {
    SOFTMAX: {
        "pooled features": ["--method=features", PROXIES, UNIFORM, FREE],
        "pooled features, frozen batch norm": ["--method=features", PROXIES, UNIFORM],
        "512 dimensions behind batch norm": [*NECK, PROXIES, UNIFORM],
    },
    RECOMMENDED: {
        "three levels": [*LEVELS, N_PAIR, GROUPED],
        "three levels, with softmax": [*LEVELS, BOTH, GROUPED],
        "512 dimensions behind batch norm, with softmax": [*NECK, BOTH, GROUPED],
    },
}
# Random erasing needs longer training than the search has, so it is not searched.
MORE_IN_TRAINING = {SOFTMAX: "", RECOMMENDED: ERASING}
EPOCHS = {SEARCHED: 3, SMALL: 16, LARGE: 6}


def augmentation(size, more=""):
    """Returns the flag of the training transform: random crops of the padded image, and flips."""
    height = int(size.partition("x")[0])
    return f"--train_transform=warp|random_crop(padding={height // 25})|flip{more}"


def lengths(epochs):
    """Returns the flags of a run that is evaluated only at its end, with a cosine schedule."""
    return [f"--epochs={epochs}", f"--eval_every={epochs}"]


def rate(value, form):
    """Returns the flags of the optimizer, with a higher rate for the proxies of a form that has some."""
    higher = ["--lr_multipliers=loss=10"] if has_proxies(form) else []
    return [f"--optimizer=adam(learning_rate={value})", "--schedule=cosine(warmup_epochs=1)", *higher]


def has_proxies(form):
    """Returns whether the loss among these flags has proxies."""
    return "norm_softmax" in "".join(form)


def trials(row):
    """Returns the search of a row: a dictionary from name of a run to its flags, and to its form and learning rate."""
    found = {}
    for number, form in enumerate(FORMS[row].values(), 1):
        for value in RATES:
            fixed = [MOBILENET, f"--dataset={SEARCHED}", f"--image_size={SMALL}", augmentation(SMALL)]
            flags = [*fixed, *lengths(EPOCHS[SEARCHED]), *rate(value, form), *form, "--seed=0"]
            found[f"{row}-search{number}-{value}"] = flags, form, value
    return found


def stages(row, form, value, first):
    """Returns the flags of the two stages of a row. `first` is the run directory of the first stage."""
    more = MORE_IN_TRAINING[row]
    shared = ["--dataset=market1501", *form, "--seed=1"]
    small = [MOBILENET, f"--image_size={SMALL}", augmentation(SMALL, more), *lengths(EPOCHS[SMALL])]
    small += rate(value, form)
    # The second stage continues from the weights of the first, also of its embedding layer.
    form = [flag for flag in shared if not flag.startswith("--initial_embedding=")]
    large = [f"--image_size={LARGE}", augmentation(LARGE, more), *lengths(EPOCHS[LARGE]), f"--initial_model={first}"]
    frozen = ["--warmup_epochs=1"] if has_proxies(form) else []
    return [*shared, *small], [*form, *large, *rate(float(value) / 2, form), *frozen]


class Runs:
    """Trains and evaluates missing runs in one folder and keeps records of them."""

    def __init__(self, folder, records, data_dir, weights):
        self.folder, self.records, self.data_dir, self.weights = Path(folder), records, data_dir, weights

    def trained(self, name, flags):
        """Returns the result of a run on images, which is trained if it is not complete."""
        first = [] if any(flag.startswith("--initial_model=") for flag in flags) else [self.weights]
        places = [f"--data_dir={self.data_dir}", *(f"--initial_weights={each}" for each in first)]
        return self._complete(name, [*flags, *ALWAYS, *places])

    def _complete(self, name, flags):
        run_dir = self.folder / name
        if RunDirectory(run_dir).result() is None:
            train([*flags, f"--run_dir={run_dir}"])
        keep(run_dir, self.records)
        return RunDirectory(run_dir).result()

    def reranked(self, name, *data):
        """Adds an evaluation of the last model of a run with re-ranking to the records, unless it is there.

        `data` are the flags of its dataset.
        """
        recorded = f"{name}-reranked"
        if recorded in read(self.records):
            return
        protocol = "--protocol=query_gallery(reranking='k_reciprocal')"
        shown = ran("tfdml.evaluate", f"--run_dir={self.folder / name}", "--which=final", protocol, *data)
        self._add(recorded, [protocol], {**last_of(shown), "run_dir": name})

    def difference(self, stage):
        """Adds the difference between both rows after a stage to the records, unless it is there or a row is missing.

        Its confidence interval is paired by query.
        """
        names = [f"{row}-{stage}" for row in (SOFTMAX, RECOMMENDED)]
        recorded, run_dirs = difference_of(stage), [self.folder / name for name in names]
        if recorded in read(self.records) or any(RunDirectory(run_dir).result() is None for run_dir in run_dirs):
            return
        flags = ["--which=final", "--metrics=recall_at_1,map"]
        runs = ",".join(map(str, run_dirs))
        shown = ran("tfdml.compare", f"--run_dirs={runs}", *flags, f"--data_dir={self.data_dir}")
        self._add(recorded, flags, {"runs": names, "metrics": last_of(shown)["metrics"]})

    def _add(self, name, flags, result):
        with open(self.records, "a", encoding="utf-8") as file:
            file.write(json.dumps({"run": name, "flags": flags, "result": result}) + "\n")

    def chosen(self, row):
        """Searches the settings of a row and returns the form and the learning rate with the best last model."""
        tried, recorded = trials(row), read(self.records)
        results = {
            name: recorded[name]["result"] if name in recorded else self.trained(name, flags)
            for name, (flags, _, _) in tried.items()
        }
        scores = {name: result["metrics"][CHOOSING] for name, result in results.items()}
        _, form, value = tried[max(scores, key=scores.get)]
        return form, value

    def row(self, row):
        """Trains both stages of a row."""
        form, value = self.chosen(row)
        first, second = f"{row}-small", f"{row}-large"
        small, large = stages(row, form, value, self.folder / first)
        self.trained(first, small)
        self.trained(second, large)
        self.reranked(second, "--dataset=market1501", f"--data_dir={self.data_dir}")

    def features(self):
        """Embeds all images once with the pretrained network and returns the files of the training and test features.

        The files also have the cameras, and which test images are queries.
        """
        folder = self.folder / "features"
        files = {split: folder / f"{split}.npz" for split in ("train", "test")}
        if not all(file.exists() for file in files.values()):
            model, dataset = folder / "exported", load("market1501", data_dir=self.data_dir)
            if not model.exists():
                images = [f"--image_size={LARGE}", "--test_transform=warp"]
                ran("tfdml.export", MOBILENET, f"--initial_weights={self.weights}", *images, f"--out={model}")
            for split, file in files.items():
                data = ["--images=market1501", f"--data_dir={self.data_dir}", f"--split={split}"]
                ran("tfdml.embed", f"--model={model}", *data, f"--out={folder / split}")
                rows, stored = getattr(dataset, split), EmbeddingFiles.read(str(folder / split))
                columns = {"cameras": rows.cameras, "is_query": rows.is_query, "is_gallery": rows.is_gallery}
                columns = {name: column for name, column in columns.items() if column is not None}
                np.savez(file, embeddings=stored.embeddings[:], labels=rows.labels, **columns)
        return files

    def frozen(self):
        """Measures the rows without training."""
        files = self.features()
        dataset = f"--dataset=embeddings(path='{files['train']}', test='{files['test']}')"
        for name, flags in FROZEN.items():
            self._complete(f"frozen-{name}", [dataset, *flags, *NOT_TRAINED])
            self.reranked(f"frozen-{name}", dataset)


def ran(module, *arguments):
    """Runs a command of tfdml and returns what it prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def last_of(shown):
    """Returns the JSON of the last line that a command prints."""
    return json.loads(shown.strip().splitlines()[-1])


def difference_of(stage):
    """Returns the name of the record of the difference between both rows after a stage."""
    return f"{RECOMMENDED}-{stage} minus {SOFTMAX}-{stage}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="Folder with Market-1501-v15.09.15.")
    parser.add_argument("--initial_weights", required=True, help="ImageNet weights of MobileNetV2 1.0 (.weights.h5).")
    parser.add_argument("--runs", default="runs/market1501", help="Folder of the run directories.")
    parser.add_argument("--records", required=True, help="File of the records.")
    parser.add_argument("--part", choices=["frozen", SOFTMAX, RECOMMENDED], action="append", help="Only this part.")
    arguments = parser.parse_args()
    runs = Runs(arguments.runs, arguments.records, arguments.data_dir, arguments.initial_weights)
    for part in arguments.part or (SOFTMAX, "frozen", RECOMMENDED):
        try:
            runs.frozen() if part == "frozen" else runs.row(part)
        except (TrainingStopped, subprocess.CalledProcessError) as ended:
            sys.exit(str(ended))
    for stage in ("small", "large"):
        runs.difference(stage)


if __name__ == "__main__":
    main()
