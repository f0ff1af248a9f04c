"""Compares runs query by query: `python -m tfdml.compare --run_dirs=runs/a,runs/b`. Prints one line of JSON, last.

The runs of several seeds are averaged for each query: `--run_dirs=a0,a1,a2:b0,b1,b2`. Of more than two, A,B,C or
A0,A1:B0,B1:C0,C1, all pairs are compared.
"""

import json
import string

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("run_dirs", "", "Folders of runs, A,B or A,B,C, or of several of each, A0,A1,A2:B0,B1,B2.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_list("metrics", [], "Metrics, such as recall_at_1,map; empty: the protocol's that are means over queries.")
flags.DEFINE_enum(
    "bootstrap",
    "classes",
    ["queries", "classes"],
    "What is drawn for 95% intervals. Queries of one class are not independent, so queries make them too narrow.",
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved; empty: the run's own.")
tfdml_flags.define_import_modules()
flags.DEFINE_integer("samples", 2000, "Number of bootstrap resamples.", lower_bound=100)
flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)


def main():
    # Here, because they import NumPy, which help does without.
    from tfdml.run.directory.run_directory import groups_of

    groups = groups_of(flags.FLAGS.run_dirs)
    # After the folders are checked, because it takes seconds.
    from tfdml.run.experiment.comparison import compare_runs

    options = {name: flags.FLAGS[name].value for name in ("metrics", "bootstrap", "samples", "seed")}
    changes = command.given("data_dir", "import_modules")
    comparison = compare_runs(groups, flags.FLAGS.which, **options, changes=changes)
    print_comparison(comparison)
    print(json.dumps(comparison))


def print_comparison(comparison):
    """Prints what `compare_runs` returns."""
    names = [letter for letter in string.ascii_lowercase if letter in comparison]
    print("".join(f"{name.upper()}: {', '.join(comparison[name])}\n" for name in names))
    queries, alone = comparison["queries"], comparison["right_alone"]
    if len(names) == 2:
        rows = [_row_of_two(metric, values) for metric, values in comparison["metrics"].items()]
        print(command.aligned([["", "A", "B", "B - A", "95% interval", "better"], *rows]))
        print(f"\nOf {queries} queries, only A gets {alone['a']} right at rank 1, and only B {alone['b']}.\n")
        return
    metrics = {_title(metric): values for metric, values in comparison["metrics"].items()}
    means = [[title, *(_mean(values[name]) for name in names)] for title, values in metrics.items()]
    print(command.aligned([["", *map(str.upper, names)], *means]))
    print("\nAll pairs, with intervals that hold for those of a metric together, and p-values corrected for them:\n")
    pairs = [_row_of_pair(title, pair) for title, values in metrics.items() for pair in values["pairs"]]
    print(command.aligned([["", "pair", "difference", "95% interval", "p", "better"], *pairs]))
    counts = ", ".join(f"{name.upper()} {count}" for name, count in alone.items())
    print(f"\nOf {queries} queries at rank 1, each alone gets right: {counts}.\n")


def _row_of_two(metric, pair):
    means = [f"{pair[name]:.3f}{_deviation(pair, f'{name}_std')}" for name in "ab"]
    return [_title(metric), *means, *_difference(pair), _better(pair)]


def _row_of_pair(title, pair):
    between = f"{pair['second']} - {pair['first']}".upper()
    return [title, between, *_difference(pair), f"{pair['p']:.2g}", _better(pair)]


def _difference(pair):
    return f"{pair['difference']:+.3f}", "{:+.3f} to {:+.3f}".format(*pair["interval"])


def _better(pair):
    return (pair["better"] or "-").upper()


def _mean(values):
    low, high = values["interval"]
    return f"{values['mean']:.3f}{_deviation(values, 'std')} ({low:.3f} to {high:.3f})"


def _deviation(values, name):
    return f" ± {values[name]:.3f}" if name in values else ""


def _title(metric):
    return metric.replace("recall_at_", "Recall@")


if __name__ == "__main__":
    command.run(main)
