"""Writes the report of a run, complete or still going on, into its folder `report/`: a page, and the pictures in it.

python -m tfdml.report --run_dir=runs/quickstart
python -m tfdml.report --run_dirs=runs/a,runs/b
python -m tfdml.report --run_dirs=runs/a0,runs/a1:runs/b0,runs/b1
"""

from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

tfdml_flags.define_run_dir("Folder of a run.")
flags.DEFINE_string(
    "run_dirs", "", "In place of --run_dir: folders of runs to compare, A,B,C, or of several of each, A0,A1:B0,B1."
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if it has moved; empty: the run's own.")
tfdml_flags.define_import_modules()
flags.DEFINE_string("out", "", "HTML file to write; empty: index.html, or comparison.html, in report/ of the run.")
tfdml_flags.define_debug()
flags.DEFINE_list("only", [], "Pictures to draw, such as learners, or page; empty: the page with all that the run has.")
flags.DEFINE_list("channels", [], "Channels of attention to draw, such as 350; empty: where learners differ most.")
flags.DEFINE_list("learners", [], "Learners whose attention to draw, such as 0,1,2; empty: all.")


def main():
    values = flags.FLAGS
    if values.out and Path(values.out).is_dir():
        raise ValueError(f"--out={values.out} is a folder. Give a file in it, such as index.html.")
    # Here, because it takes seconds.
    from tfdml.reporting.reports import report_comparison, report_run

    changes = command.given("data_dir", "import_modules")
    if values.run_dirs:
        for name in ("run_dir", "only", "channels", "learners"):
            if values[name].value:
                raise ValueError(f"Expected one of --run_dirs and --{name}.")
        print(f"Wrote {report_comparison(values.run_dirs, values.out, changes)}")
        return
    if not values.run_dir:
        raise ValueError("Expected --run_dir, the folder of a run, or --run_dirs, several.")
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
        raise ValueError(f"Expected --{name} as numbers such as 0,1,2; received {','.join(texts)}.") from None


if __name__ == "__main__":
    command.run(main)
