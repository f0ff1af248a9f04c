"""Compares what labels teach: `python -m benchmarks.studies.labels --data_dir=data/cars --steps=1000`.

Trains on a folder of photos in folders of classes, with seed 0, four times: by its classes, by views of images as if
there were none, by clusters as pseudo-classes, and by both. Flags that follow `--` go to each run, such as
`-- --initial_weights=imagenet --backbone="keras_applications(name='MobileNetV2')" --image_size=128`. A complete run is
not trained again. Prints a Markdown table of Recall@1, MAP@R and NMI on test classes, in percent: of the pretrained
features, of the embedding before training, and of each last model, since without classes none is selected.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.markdown import markdown
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.study.runs import train

METRICS = {"recall_at_1": "Recall@1", "map_at_r": "MAP@R", "nmi": "NMI"}
VIEWS = ["--sampler=views(images=32)", "--train_transform=random_resized_crop(area=(0.2, 1.0))|flip|color_jitter"]


def ways(clusters):
    """Flags of each way to learn, by its name for the table."""
    labels = f"--labels=clusters(k={clusters})"
    return {
        "views": ["--labels=images", *VIEWS, "--loss=nt_xent"],
        "clusters": [labels, "--sampler=auto", "--loss=n_pair(scale=20.0)"],
        "views and clusters": [labels, *VIEWS, "--loss=sup_con"],
        "classes": ["--sampler=auto", "--loss=n_pair(scale=20.0)"],
    }


def rows(results):
    """Rows of the table, of the result of each way by its name; before training a run measures no clusters."""
    first = next(iter(results.values()))
    before = {name: first[name] for name in ("features", "untrained") if name in first}
    scores = before | {name: result["metrics"] for name, result in results.items()}
    return [[name, *(_percent(each.get(metric)) for metric in METRICS)] for name, each in scores.items()]


def _percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="folder of photos in folders of classes")
    parser.add_argument("--clusters", type=int, default=100, help="number of clusters")
    parser.add_argument("--steps", type=int, default=1000, help="steps of each run")
    parser.add_argument("--runs", type=Path, default="runs/labels", help="folder of the run directories")
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, flags = parser.parse_args(sys.argv[1:place]), sys.argv[place + 1 :]
    common = ["--dataset=folder(test_classes=0.3)", f"--data_dir={arguments.data_dir}", f"--steps={arguments.steps}"]
    common += [f"--metrics={','.join(METRICS)}", "--noprojector"]
    results = {}
    for name, own in ways(arguments.clusters).items():
        run = RunDirectory(arguments.runs / name.replace(" ", "_"))
        if run.result() is None:
            train([*common, *own, *flags, f"--run_dir={run.path}"])
        results[name] = run.result()
    print(markdown(["learned by", *METRICS.values()], rows(results)))


if __name__ == "__main__":
    main()
