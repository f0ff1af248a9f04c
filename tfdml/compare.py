"""Compares runs query by query: `python -m tfdml.compare --run_dirs=runs/a,runs/b`. Prints one line of JSON, last.

The runs of several seeds are averaged for each query: `--run_dirs=a0,a1,a2:b0,b1,b2`. Of more than two, A,B,C or
A0,A1:B0,B1:C0,C1, all pairs are compared.
"""

import json

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags
from tfdml.run.directory.run_groups import groups_of

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
    groups = groups_of(flags.FLAGS.run_dirs)
    # Here, because it takes seconds.
    from tfdml.run.experiment.printed_comparison import print_comparison
    from tfdml.run.experiment.run_comparison import compare_runs

    about = {name: flags.FLAGS[name].value for name in ("metrics", "bootstrap", "samples", "seed")}
    about["changes"] = command.given("data_dir", "import_modules")
    found = compare_runs(groups, flags.FLAGS.which, **about)
    print_comparison(found)
    print(json.dumps(found))


if __name__ == "__main__":
    command.run(main)
