"""Tells of images that cannot be read while training goes on without them."""

import logging

import keras
import numpy as np


class BadImages(keras.callbacks.Callback):
    """Logs each image that could not be read, once, and stops a run that has too many of them.

    Args:
        unreadable: variable, booleans `[N]`: the rows that could not be read so far.
        most: how many there may be.
        describe: function of a row that gives what it is called, and what is wrong with it.
    """

    def __init__(self, unreadable, *, most, describe):
        super().__init__()
        self.unreadable, self.most, self.describe = unreadable, most, describe
        self._logged = []

    def on_train_batch_end(self, batch, logs=None):
        rows = np.flatnonzero(self.unreadable.numpy()).tolist()
        for row in sorted(set(rows) - set(self._logged)):
            self._logged.append(row)
            logging.getLogger(__name__).warning(
                "Cannot read %s. Other images of its class stand in for it. (%d of at most %d.)",
                self.describe(row),
                len(self._logged),
                self.most,
            )
        if len(rows) > self.most:
            raise ValueError(
                f"{len(rows)} training images cannot be read, more than --max_bad_images={self.most}: "
                f"{', '.join(self.describe(row) for row in self._logged)}. Replace or remove them."
            )

    def finding(self):
        """How many images were bad."""
        return int(np.count_nonzero(self.unreadable.numpy()))

    def get_state(self):
        return {"rows": self._logged}

    def set_state(self, state):
        """Goes on with the images of a state, which have been logged."""
        self._logged = list(state["rows"])
        known = np.zeros(self.unreadable.shape, bool)
        known[self._logged] = True
        self.unreadable.assign(known)
