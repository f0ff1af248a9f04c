"""Measures the time until the first training step: `python -m benchmarks.speed.start`, with the extra cpu.

Each round imports TensorFlow and Keras alone, imports Keras, imports tfdml, prints the help of training, and trains one
step of `configs/quickstart.flags`, each in its own process. The command prints a Markdown table with the medians over
rounds of each stage, and their ratio to the import of TensorFlow and Keras. CPU seconds are for all threads.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.speed.processes import run_python

IMPORT = "`import tensorflow, keras` alone"
TOTAL = "command to first step"
ALONE = {
    IMPORT: ["-c", "import tensorflow, keras"],
    "`import keras` alone": ["-c", "import keras"],
    "`import tfdml` alone": ["-c", "import tfdml"],
    "`--help`": ["-m", "tfdml.train", "--help"],
}
EVALUATION = "untrained model's evaluation"


def one_round(flags):
    """Returns `(seconds, CPU seconds)` by stage."""
    stages = {name: run_python(*given)[1:3] for name, given in ALONE.items()}
    with tempfile.TemporaryDirectory() as folder:
        marks, arguments = Path(folder) / "marks.json", [*flags, f"--run_dir={folder}/run"]
        code = f"from benchmarks.speed.start_worker import main; main({str(marks)!r}, {arguments!r})"
        began, *total, _ = run_python("-c", code)
        before = (began, 0.0)
        for stage, *now in json.loads(marks.read_text(encoding="utf-8")):
            stages[stage] = (now[0] - before[0], now[1] - before[1])
            before = now
    stages[TOTAL] = tuple(total)
    evaluation = stages[EVALUATION]
    stages[f"{TOTAL}, without the evaluation"] = (total[0] - evaluation[0], total[1] - evaluation[1])
    return stages


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments, flags = parser.parse_known_args()
    flags = flags or ["--flagfile=configs/quickstart.flags"]
    # The first round does not count: it warms up the disk cache and draws the images.
    rounds = [one_round(flags) for _ in range(arguments.rounds + 1)][1:]
    rows = []
    for stage in rounds[0]:
        cells = []
        for kind in (0, 1):
            values = [each[stage][kind] for each in rounds]
            ratio = statistics.median(each[stage][kind] / each[IMPORT][kind] for each in rounds)
            cells += [f"{statistics.median(values):.2f}", f"{ratio:.2f}"]
        rows.append([stage, *cells])
    print(markdown(["Stage", "Seconds", "Relative to the import", "CPU seconds", "Relative to the import"], rows))


if __name__ == "__main__":
    main()
