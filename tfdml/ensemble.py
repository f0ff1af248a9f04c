"""Joins complete runs to an ensemble: saves one model and prints its scores.

python -m tfdml.ensemble --run_dirs=runs/a,runs/b --out=runs/both
python -m tfdml.ensemble --run_dirs=runs/ensemble --out=runs/fitted --fit_weights

The directory of an ensemble from `python -m tfdml.train --members=...` stands for all its complete members.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list("run_dirs", [], "Directories of runs or ensembles, such as runs/a,runs/b_*,runs/ensemble.")
flags.DEFINE_string("out", "", "Directory for the ensemble. It must be empty or not exist.")
flags.DEFINE_list(
    "weights", [], "Weight of each member in the similarity, above 0. If not set, all members have weight 1."
)
flags.DEFINE_bool(
    "fit_weights", False, "Fit the weights on the validation classes, which must be the same for all members."
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset. If not set, the folder that the runs used.")
tfdml_flags.define_import_modules()
tfdml_flags.define_debug()


def main():
    from tfdml.files.checked import new_folder
    from tfdml.run.directory.run_record import runs_of
    from tfdml.run.ensembles import ensemble_tables, join_aside

    values, out = flags.FLAGS, new_folder(flags.FLAGS.out, "the ensemble", "--out")
    runs, asked = runs_of(values.run_dirs)
    weights = weights_of(values.weights, len(runs))
    if weights and values.fit_weights:
        raise ValueError("--weights and --fit_weights cannot both be set. Remove one of them.")
    changes = command.given("data_dir", "import_modules")
    result, joined = join_aside(runs, out, asked=asked, weights=weights, fit=values.fit_weights, changes=changes)
    command.print_result(ensemble_tables(result), joined.path)


def weights_of(texts, count):
    """Returns the numbers of `--weights`, or None if there are none."""
    if not texts:
        return None
    try:
        weights = [float(text) for text in texts]
    except ValueError:
        weights = []
    if len(weights) != count or not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(
            f"--weights must list one number above 0 for each of the {count} members. Received: "
            f"--weights={','.join(texts)}."
        )
    return weights


if __name__ == "__main__":
    command.run(main)
