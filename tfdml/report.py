"""Writes an HTML report of a run, which may still be training, into the folder `report/` of the run.

python -m tfdml.report --run_dir=runs/quickstart
python -m tfdml.report --run_dirs=runs/a,runs/b
python -m tfdml.report --run_dirs=runs/a0,runs/a1:runs/b0,runs/b1
"""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Directory of the run.")
flags.DEFINE_string(
    "run_dirs",
    "",
    "Instead of --run_dir, run directories to compare, such as A,B,C, or groups of runs, such as A0,A1:B0,B1.",
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset. If not set, the folder that the run used.")
tfdml_flags.define_import_modules()
flags.DEFINE_string(
    "out", "", "HTML file to write. If not set, report/index.html or report/comparison.html in the run directory."
)
tfdml_flags.define_debug()
flags.DEFINE_list(
    "only", [], "Figures to draw, such as learners, or page. If not set, the page with all figures that the run has."
)
flags.DEFINE_list(
    "channels", [], "Attention channels to draw, such as 350. If not set, the channels in which learners differ most."
)
flags.DEFINE_list("learners", [], "Learners to draw the attention of, such as 0,1,2. If not set, all learners.")


def main():
    values = flags.FLAGS
    if values.out and Path(values.out).is_dir():
        raise ValueError(f"--out={values.out} is a folder. Set it to a file, for example {values.out}/index.html.")
    # Imported here, because the import takes seconds.
    from tfdml.reporting.reports import report_comparison, report_run

    changes = command.given("data_dir", "import_modules")
    if values.run_dirs:
        for name in ("run_dir", "only", "channels", "learners"):
            if values[name].value:
                raise ValueError(f"--run_dirs and --{name} cannot both be set. Remove one of them.")
        print(f"Wrote {report_comparison(values.run_dirs, values.out, changes)}")
        return
    if not values.run_dir:
        raise ValueError("Set --run_dir to the directory of a run, or --run_dirs to several.")
    chosen = {name: numbers for name in ("channels", "learners") if (numbers := numbers_of(name))}
    settings = report_run(values.run_dir, values.only, values.out, changes, chosen)
    if settings and settings.network.backbone != "identity":
        out = command.free_path(lambda number: f"exported/{number}")
        modules = command.own_modules(values.import_modules)
        command.print_next("tfdml.export", f"--run_dir={values.run_dir}", f"--out={out}", *modules)


def numbers_of(name):
    """Returns the integers of a list flag."""
    texts = flags.FLAGS[name].value
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise ValueError(f"--{name} must be a list of integers, such as 0,1,2. Received: {','.join(texts)}.") from None


if __name__ == "__main__":
    command.run(main)
