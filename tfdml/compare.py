"""Compares runs query by query: `python -m tfdml.compare --run_dirs=runs/a,runs/b`. Prints one line of JSON, last.

The runs of several seeds are averaged for each query: `--run_dirs=a0,a1,a2:b0,b1,b2`.
"""

import json

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.run.directory.run_groups import groups_of

flags.DEFINE_string("run_dirs", "", "Folders of two runs, A,B, or of several of each, A0,A1,A2:B0,B1,B2.")
tfdml_flags.define_which()
tfdml_flags.define_debug()
flags.DEFINE_list("metrics", [], "Metrics, such as recall_at_1,map; empty: the protocol's that are means over queries.")
flags.DEFINE_enum("bootstrap", "queries", ["queries", "classes"], "What the bootstrap draws.")
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved; empty: the run's own.")
flags.DEFINE_list("import_modules", [], "Your own modules to import; those of a run are only if they are named here.")
flags.DEFINE_integer("samples", 2000, "Number of bootstrap resamples.", lower_bound=100)
flags.DEFINE_integer("seed", 0, "Seed of the bootstrap.", lower_bound=0)


def main():
    first, second = groups_of(flags.FLAGS.run_dirs)
    # Here, because it takes seconds.
    from tfdml.run.experiment.run_comparison import compare_runs

    about = {name: flags.FLAGS[name].value for name in ("metrics", "bootstrap", "samples", "seed")}
    about["changes"] = command.given("data_dir", "import_modules")
    found = compare_runs(first, second, flags.FLAGS.which, **about)
    print_table(found)
    print(json.dumps(found))


def print_table(found):
    """Prints a comparison for people.

    Args:
        found: what `compare_runs` returns.
    """
    print(f"A: {', '.join(found['a'])}\nB: {', '.join(found['b'])}\n")
    titles = ["", "A", "B", "B - A", "95% interval", "better"]
    rows = [titles, *(row_of(name, each) for name, each in found["metrics"].items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        print("  ".join([f"{name:{widths[0]}}", *map(str.rjust, cells, widths[1:])]).rstrip())
    alone = found["right_alone"]
    print(f"\nOf {found['queries']} queries, only A gets {alone['a']} right at rank 1, and only B {alone['b']}.\n")


def row_of(name, each):
    """Returns the cells of a metric's row."""
    stds = {key: f" ± {each[f'{key}_std']:.3f}" if f"{key}_std" in each else "" for key in "ab"}
    means = [f"{each[key]:.3f}{std}" for key, std in stds.items()]
    interval = "{:+.3f} to {:+.3f}".format(*each["interval"])
    better = (each["better"] or "-").upper()
    return [name.replace("recall_at_", "Recall@"), *means, f"{each['difference']:+.3f}", interval, better]


if __name__ == "__main__":
    command.run(main)
