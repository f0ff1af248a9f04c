"""`KnownRun`: under which number another program knows a run, so that a run that goes on goes on there."""

import json

from tfdml.files.checked import json_of, read_bytes, write_atomically


class KnownRun:
    """`logger.json` of a run directory: the name of a logger, and its number of the run.

    Args:
        run: `RunDirectory`.
        logger: name of the logger, as `--logger` takes it.
    """

    def __init__(self, run, logger):
        self._path, self._logger = run.logger, logger

    def number(self):
        """Returns the number, text; None where the logger does not know the run yet."""
        if not self._path.is_file():
            return None
        try:
            found = json_of(read_bytes(self._path))
            if not all(isinstance(found[name], str) for name in ("logger", "number")):
                raise ValueError("an entry is no text")
        except (ValueError, KeyError, TypeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{self._path} is damaged ({reason}); without it the run is logged anew.") from None
        return found["number"] if found["logger"] == self._logger else None

    def keep(self, number):
        """Writes the number."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, f"{json.dumps({'logger': self._logger, 'number': number})}\n".encode())
