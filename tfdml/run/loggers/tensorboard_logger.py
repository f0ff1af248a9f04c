"""`TensorBoardLogger`: curves in `tensorboard/` of the run."""

import tensorflow as tf

from tfdml.run.directory.hparams import write_hparams


class TensorBoardLogger:
    """Writes scalars, and the row of TensorBoard's HParams tab.

    Args:
        run: `RunDirectory`.
    """

    def __init__(self, run):
        self._run, self._folder = run, str(run.tensorboard)
        self._writer = None

    def write(self, step, scalars):
        """Writes numbers by their names."""
        # At the first of them: the writer makes a file.
        self._writer = self._writer or tf.summary.create_file_writer(self._folder)
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self._writer.flush()

    def finish(self, result):
        """Writes the settings and the scores of a complete run."""
        write_hparams(self._run, result)
