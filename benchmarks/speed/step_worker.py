"""Trains as `python -m tfdml.train` does and measures its steps, for `step`."""

import contextlib
import json
import os
import tempfile
import time

from benchmarks.speed import training_command

WARM_UP = 4


def main(flags, steps, profile=False):
    """Prints a line of JSON with the seconds and CPU seconds of a step, and ends the process.

    Args:
        flags: Flags of the command.
        steps: Number of steps to measure, after `WARM_UP` others.
        profile: Whether to also measure the parts of a step.
    """
    out = os.dup(1)
    folder = tempfile.mkdtemp()
    total = 10 * (WARM_UP + steps)
    length = [f"--steps={total}", f"--steps_per_epoch={total}", "--epochs=0", "--noprojector"]
    arguments = [*flags, *length, f"--run_dir={folder}/run"]
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        training_command.train(arguments, lambda: watch(steps, profile, out))


def watch(steps, profile, out):
    """Instruments a run to record the end of each step and to end after the last one, without its evaluation."""
    import tfdml
    from tfdml.run.experiment import images
    from tfdml.run.training.run_callbacks import Progress

    tfdml.callbacks.RetrievalEvaluation._evaluate = lambda self: None
    training, datasets, marks = images.ImageData.training, [], []

    def kept(*args, **options):
        datasets.append(training(*args, **options))
        return datasets[-1]

    count = Progress.on_train_batch_end

    def marked(self, batch, logs=None):
        count(self, batch, logs)
        marks.append((time.perf_counter(), time.process_time()))
        if len(marks) == WARM_UP + steps:
            wall, cpu = ((end - begin) / steps for begin, end in zip(marks[WARM_UP - 1], marks[-1], strict=True))
            answer = {"seconds": wall, "cpu_seconds": cpu}
            if profile:
                from benchmarks.speed.step_parts import parts

                answer["parts"] = parts(self.model, datasets[0], (cpu, wall))
            os.write(out, json.dumps(answer).encode() + b"\n")
            os._exit(0)

    images.ImageData.training, Progress.on_train_batch_end = kept, marked
