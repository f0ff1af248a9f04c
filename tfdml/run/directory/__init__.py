"""The files of a run, which are written during training and read again later."""
