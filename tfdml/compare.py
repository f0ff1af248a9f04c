"""Compares runs query by query: `python -m tfdml.compare --run_dirs=runs/a,runs/b`. The last line is JSON.

Runs with different seeds are averaged for each query: `--run_dirs=a0,a1,a2:b0,b1,b2`. With more than two runs or groups
of runs, such as A,B,C or A0,A1:B0,B1:C0,C1, all pairs are compared.
"""

import json
import string

from absl import flags

from tfdml.console import command, scores
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string(
    "run_dirs", "", "Run directories to compare, such as A,B,C, or groups of runs, such as A0,A1,A2:B0,B1,B2."
)
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_list(
    "metrics",
    [],
    "Metrics, such as recall_at_1,map. If not set, all metrics of the protocol that are means over queries.",
)
flags.DEFINE_enum(
    "bootstrap",
    "classes",
    ["queries", "classes"],
    "What the bootstrap resamples for 95% confidence intervals. Queries of the same class are not independent, so "
    "intervals over queries are too narrow. Pair metrics need classes.",
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset. If not set, the folder that the run used.")
tfdml_flags.define_import_modules()
flags.DEFINE_integer("samples", 2000, "Number of bootstrap resamples.", lower_bound=100)
flags.DEFINE_integer("seed", 0, "Random seed of the bootstrap.", lower_bound=0)


def main():
    # Imported here, because NumPy would slow down --help.
    from tfdml.run.directory.run_directory import groups_of

    groups = groups_of(flags.FLAGS.run_dirs)
    # Imported after the folders are checked, because the import takes seconds.
    from tfdml.run.experiment.comparison import compare_runs

    options = {name: flags.FLAGS[name].value for name in ("metrics", "bootstrap", "samples", "seed")}
    changes = command.given("data_dir", "import_modules")
    comparison = compare_runs(groups, flags.FLAGS.which, **options, changes=changes)
    print_comparison(comparison)
    print(json.dumps(comparison))


def print_comparison(comparison):
    """Prints the result of `compare_runs`."""
    names = [letter for letter in string.ascii_lowercase if letter in comparison]
    print("".join(f"{name.upper()}: {', '.join(comparison[name])}\n" for name in names))
    queries, alone = comparison["queries"], comparison["right_alone"]
    if len(names) == 2:
        rows = [_row_of_two(metric, values) for metric, values in comparison["metrics"].items()]
        print(command.aligned([["", "A", "B", "B - A", "95% CI", "better"], *rows]))
        print(f"\nOf {queries} queries, {alone['a']} are right at rank 1 only in A, and {alone['b']} only in B.\n")
        return
    metrics = comparison["metrics"]
    means = [[scores.titled(name), *(_mean(name, values[run]) for run in names)] for name, values in metrics.items()]
    print(command.aligned([["", *map(str.upper, names)], *means]))
    print("\nAll pairs, with simultaneous 95% confidence intervals and corrected p-values for each metric:\n")
    pairs = [_row_of_pair(metric, pair) for metric, values in metrics.items() for pair in values["pairs"]]
    print(command.aligned([["", "pair", "difference", "95% CI", "p", "better"], *pairs]))
    counts = ", ".join(f"{name.upper()} {count}" for name, count in alone.items())
    print(f"\nNumber of the {queries} queries that are right at rank 1 in one run only: {counts}.\n")


def _row_of_two(metric, pair):
    means = [f"{scores.score(metric, pair[name])}{_deviation(metric, pair, f'{name}_std')}" for name in "ab"]
    return [scores.titled(metric), *means, *_difference(metric, pair), _better(pair)]


def _row_of_pair(metric, pair):
    between = f"{pair['second']} - {pair['first']}".upper()
    return [scores.titled(metric), between, *_difference(metric, pair), f"{pair['p']:.2g}", _better(pair)]


def _difference(metric, pair):
    return scores.difference(metric, pair["difference"]), scores.interval(metric, pair["interval"], sign="+")


def _better(pair):
    return (pair["better"] or "-").upper()


def _mean(metric, values):
    mean = f"{scores.score(metric, values['mean'])}{_deviation(metric, values, 'std')}"
    return f"{mean} ({scores.interval(metric, values['interval'])})"


def _deviation(metric, values, name):
    return f" ± {scores.bare(metric, values[name])}" if name in values else ""


if __name__ == "__main__":
    command.run(main)
