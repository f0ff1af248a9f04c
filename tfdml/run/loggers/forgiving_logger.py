"""`ForgivingLogger`: a logger whose failures do not end training."""

import logging


class ForgivingLogger:
    """Logs with the client of another program, and goes on without it where it fails during training.

    The first numbers of a new run come before its first step: where they fail, nothing is lost yet, and the run ends.

    Args:
        logger: logger to call.
        name: its name, as `--logger` takes it.
    """

    def __init__(self, logger, name):
        self._logger, self._name = logger, name
        self._begun = self._failed = False

    def write(self, step, scalars):
        """Logs numbers by their names."""
        self._call(self._logger.write, step, scalars)

    def finish(self, result):
        """Logs the scores of a complete run, and ends it."""
        # The result is on disk.
        self._begun = True
        self._call(self._logger.finish, result)

    def _call(self, log, *arguments):
        if self._failed:
            return
        try:
            log(*arguments)
        except Exception as error:
            if not self._begun:
                if isinstance(error, ValueError):
                    raise
                raise ValueError(f"--logger={self._name} does not log: {error}") from error
            self._failed = True
            # A client tries for minutes before it gives up, at every call.
            logging.getLogger(__name__).warning(
                "--logger=%s has failed (%s) and gets nothing more of this run, which goes on; metrics.jsonl has all "
                "numbers.",
                self._name,
                error,
            )
        self._begun = True
